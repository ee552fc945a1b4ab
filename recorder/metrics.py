"""What a run sums up of its calls, in the shape of the AgentResult contract: usage, and how often each tool was called.

It is what one process has counted: the calls that it has made, or that a replay has answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any


class Metrics:
    """Counts and usage so far. Changed by the functions that make the last events of calls, one at a time."""

    def __init__(self) -> None:
        self._usage: dict[str, int | float] = {}
        self._context_size: int | None = None
        self._tools: dict[str, dict[str, Any]] = {}

    def count_tool(self, name: str, duration: float, success: bool) -> None:
        """Count a call of a tool, which took so many seconds."""
        counts = self._tools.get(name)
        if counts is None:
            counts = self._tools[name] = {"callCount": 0, "successCount": 0, "errorCount": 0, "totalTime": 0.0}
        counts["callCount"] += 1
        counts["successCount" if success else "errorCount"] += 1
        counts["totalTime"] += duration

    def count_model(self, usage: Mapping[str, Any]) -> None:
        """Count a call of a model by its usage; what it was asked with is the context as large as it is now."""
        self.add_usage(usage)
        size = usage.get("input_tokens", usage.get("prompt_tokens", usage.get("inputTokens")))
        if type(size) is int:
            self._context_size = size

    def add_usage(self, usage: Mapping[str, Any]) -> None:
        """Sum what is counted, and what it cost, key by key."""
        for key, number in usage.items():
            if type(number) is int or (type(number) is float and isfinite(number)):
                self._usage[key] = self._usage.get(key, 0) + number

    def document(self, cycles: int) -> dict[str, Any]:
        """What there is by now, after so many rounds; later calls do not change it."""
        metrics: dict[str, Any] = {"cycleCount": cycles, "accumulatedUsage": dict(self._usage)}
        if self._tools:
            metrics["toolMetrics"] = {name: dict(counts) for name, counts in self._tools.items()}
        if self._context_size is not None:
            metrics["latestContextSize"] = self._context_size
        return metrics
