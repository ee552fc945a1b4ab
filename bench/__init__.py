"""Benchmarks against floors: `make bench` prints each gate with what was measured, the goal, and the ratio."""
