"""Importers: read the recordings of other tools into events."""
