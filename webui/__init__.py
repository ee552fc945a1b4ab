"""The web user interface: recorded runs as pages."""
