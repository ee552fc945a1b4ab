"""agentreplay: record every round of an agent run, then debug it step by step.

Everything public comes from here. Names are loaded at first use, so that `import agentreplay` costs only what
recording needs.
"""

from __future__ import annotations

__all__: list[str] = []

__version__ = "0.1.0"
