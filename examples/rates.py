"""A tool fails, and the agent tries again elsewhere.

A rate of exchange is asked of one mirror after the other. In the first run the first mirror is down, and the agent
decides to retry with the next. In the second run every mirror is down, and what the tool raised ends the run. Then the
failed run is taken up again from its last step, with one more mirror in the payload, and completes as a fork.

    agentreplay show run1
    agentreplay compare run2 run3
"""

from __future__ import annotations

import contextlib
from typing import Any

import agentreplay as ar

DOWN = {"north", "east"}
RATES = {"EUR": 1.09, "CHF": 1.12}

ONE_IS_DOWN: dict[str, Any] = {"currency": "EUR", "amount": 200, "mirrors": ["north", "south"]}
ALL_ARE_DOWN: dict[str, Any] = {"currency": "EUR", "amount": 200, "mirrors": ["north", "east"]}


class MirrorDown(Exception):
    """A mirror does not answer."""


@ar.tool(safety="pure", raises=(MirrorDown,))
def fetch_rate(mirror: str, currency: str) -> float:
    """Ask a mirror for the rate of a currency, in dollars."""
    if mirror in DOWN:
        raise MirrorDown(f"the mirror {mirror} does not answer")
    return RATES[currency]


@ar.agent("rates", max_rounds=5)
def step(round_index: int, context: ar.Context) -> ar.NextStep | ar.Complete[float]:
    """One round: ask the first mirror that is left."""
    mirror, *others = context.payload["mirrors"]
    try:
        rate = fetch_rate(mirror, context.payload["currency"])
    except MirrorDown as error:
        if not others:
            raise
        context.change(patch=[{"op": "remove", "path": "/mirrors/0"}], reason=str(error))
        return ar.NextStep(step="Retry", retry_reason=str(error), retry_instructions=f"ask {others[0]}")
    context.change(new={"rate": rate}, reason=f"{mirror} has answered")
    return ar.Complete(round(context.payload["amount"] * rate, 2))


def fail() -> str:
    """Run the agent while every mirror is down; returns the run's id."""
    with contextlib.suppress(MirrorDown):
        step.run(ALL_ARE_DOWN)
    return ar.open_store().run("@last").id


def fork(run: str) -> ar.AgentResult:
    """Take the failed run up again from its second step, with a mirror more."""
    return ar.rerun(run, step, 2, set={"/mirrors": ["east", "south"]})


def main() -> None:
    """Run the agent while one mirror is down, while all are, and then once more with another one."""
    retried = step.run(ONE_IS_DOWN)
    print(f"{retried.run.id} came to {retried.value} after a retry")
    failed = fork(fail())
    print(f"{failed.run.id}, a fork of the run that failed, came to {failed.value}")


if __name__ == "__main__":
    main()
