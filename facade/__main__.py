"""`python -m agentreplay`: the command line, where its script is not on the PATH."""

from __future__ import annotations

from .cli import main

main()
