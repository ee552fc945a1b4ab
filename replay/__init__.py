"""Replay: everything that is derived from a recorded run, from one state to a second execution."""
