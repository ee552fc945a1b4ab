"""The recorder: the facts of a run, and how they are written, stored and read back."""
