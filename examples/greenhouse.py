"""What is different each time, and what an agent says of itself.

The clock, ids and a sensor are read through the context, so a replay is given what was read then. Reports, lines of
the logger and events of the agent's own are kept in the log beside what it did:

    agentreplay show @last
    agentreplay replay @last
"""

from __future__ import annotations

from typing import Any

import agentreplay as ar

READINGS = {"north bed": 21.5, "south bed": 34.0}
LIMIT = 30.0

START: dict[str, Any] = {"beds": ["north bed", "south bed"], "checked": {}}


@ar.tool(safety="compensable")
def open_window(bed: str, degrees: int) -> str:
    """Open the window above a bed."""
    return f"the window above the {bed} is open by {degrees} degrees"


@ar.agent("greenhouse", max_rounds=5)
def step(round_index: int, context: ar.Context) -> ar.NextStep | ar.Complete[dict[str, Any]]:
    """One round: check the next bed, and do something if it is too warm there."""
    bed = context.payload["beds"][round_index - 1]
    warmth = context.read("thermometer", lambda: READINGS[bed])
    context.create_sub_flow_logger().info(f"{bed}: {warmth}")
    checked = {"warmth": warmth, "at": context.now()}
    if warmth > LIMIT:
        checked["incident"] = context.uuid4()
        context.event("x.too_warm", bed=bed, by=warmth - LIMIT)
        context.report(open_window(bed, degrees=15))
    context.change(new={"checked": {bed: checked}}, reason=f"the {bed} was checked")
    if round_index < len(context.payload["beds"]):
        return ar.NextStep(step="Retry", reasoning="There is another bed.")
    context.report({"beds": round_index, "too warm": [b for b, seen in READINGS.items() if seen > LIMIT]})
    return ar.Complete({name: found["warmth"] for name, found in context.payload["checked"].items()})


def main() -> None:
    """Check two beds."""
    result = step.run(START)
    print(f"{result.run.id} measured {result.value}")


if __name__ == "__main__":
    main()
