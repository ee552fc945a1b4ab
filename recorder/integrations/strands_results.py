"""What an invocation came to, as an AgentResult: all of it, also what the SDK's own `to_dict` leaves out.

`AgentResult.to_dict()` of the SDK has the message, the stop reason and the checkpoint. Interrupts, structured output,
metrics, traces and the state that was handed through are in here as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..agent_result import AgentResult, Interrupt
from ..plain import is_plain

CANCELLED: Final = "cancelled"


def ended_with(result: Any) -> tuple[str, str, Any, AgentResult]:
    """Status, stop reason, value and AgentResult of a run that has come to a result of the SDK's."""
    value = result.structured_output if result.structured_output is not None else text_of_message(result.message)
    return (
        "cancelled" if result.stop_reason == CANCELLED else "completed",
        result.stop_reason,
        value,
        agent_result(result),
    )


def agent_result(result: Any) -> AgentResult:
    """An AgentResult with everything that a result of the SDK's has."""
    interrupts = [
        Interrupt(id=one.id, name=one.name, reason=one.reason, response=one.response) for one in result.interrupts or ()
    ]
    checkpoint = getattr(result, "checkpoint", None)
    found: dict[str, Any] = {
        "traces": [trace.to_dict() for trace in result.metrics.traces],
        "metrics": metrics_of(result.metrics),
        "structured_output": result.structured_output,
        "interrupts": interrupts or None,
        "checkpoint": None if checkpoint is None else checkpoint.to_dict(),
    }
    return AgentResult(
        stop_reason=result.stop_reason,
        last_message=dict(result.message),
        invocation_state=state_of(result.state),
        **{name: one for name, one in found.items() if one is not None},
    )


def state_of(state: Any) -> dict[str, Any]:
    """What was handed through an invocation: plain data as it is, and of live objects what they are."""
    if not isinstance(state, Mapping):
        return {}
    return {
        str(key): one if is_plain(one) else f"<{type(one).__module__}.{type(one).__qualname__}>"
        for key, one in state.items()
    }


def metrics_of(metrics: Any) -> dict[str, Any]:
    """The metrics of an invocation, in the words of the AgentResult contract."""
    found: dict[str, Any] = {
        "cycleCount": metrics.cycle_count,
        "totalDuration": sum(metrics.cycle_durations),
        "cycleDurations": list(metrics.cycle_durations),
        "accumulatedUsage": dict(metrics.accumulated_usage),
        "accumulatedMetrics": dict(metrics.accumulated_metrics),
        "toolMetrics": {
            name: {
                "callCount": one.call_count,
                "successCount": one.success_count,
                "errorCount": one.error_count,
                "totalTime": one.total_time,
            }
            for name, one in metrics.tool_metrics.items()
        },
        "agentInvocations": [
            {
                "usage": dict(invocation.usage),
                "cycles": [
                    {"cycleId": str(cycle.event_loop_cycle_id), "usage": dict(cycle.usage)}
                    for cycle in invocation.cycles
                ],
            }
            for invocation in metrics.agent_invocations
        ],
    }
    sizes = {"latestContextSize": "latest_context_size", "projectedContextSize": "projected_context_size"}
    found |= {key: size for key, name in sizes.items() if (size := getattr(metrics, name, None)) is not None}
    return found


def text_of_message(message: Any) -> str:
    """The texts of a message, one below the other."""
    return "\n".join([block["text"] for block in message.get("content", ()) if isinstance(block.get("text"), str)])
