"""Loops that a decision asks for: ForEach over a list, and While a condition holds.

The scripted model decides to do something for each item of a list in the payload; the agent does it within the round,
and each iteration is a change of the payload of its own. Then it decides to ask again while something is open.

    agentreplay diff @last --step 1
    agentreplay blame @last /open
"""

from __future__ import annotations

from typing import Any

import agentreplay as ar

AMOUNTS = {"I-1": 40.0, "I-2": 0.0, "I-3": 99.5}

START: dict[str, Any] = {"invoices": ["I-1", "I-2", "I-3"], "read": {}, "open": 0.0}


@ar.tool(safety="pure")
def read_invoice(number: str) -> dict[str, Any]:
    """Read an invoice."""
    return {"number": number, "open": AMOUNTS[number]}


@ar.tool(safety="idempotent")
def remind(open: float, reminders: int) -> float:
    """Remind whoever owes money; returns what is open then: half of it is paid each time, and the last ten at once."""
    return open / 2 if open > 10 else 0.0


@ar.model(model="scripted-1")
def decide(payload: dict[str, Any]) -> dict[str, Any]:
    """Answer like a language model would, with a decision."""
    loop: dict[str, Any]
    if not payload["read"]:
        loop = {"collectionPath": "invoices", "itemVariable": "invoice", "action": {"name": "read_invoice"}}
        return {"step": "ForEach", "forEach": loop, "reasoning": "What is open?"}
    if payload["open"] > 0:
        loop = {"condition": "payload.open > 0", "maxIterations": 8, "action": {"name": "remind"}}
        return {"step": "While", "while": loop, "reasoning": "Not all is paid."}
    return {"step": "Success", "message": "everything is paid", "reasoning": "Nothing is open."}


@ar.agent("invoices", max_rounds=5)
def step(round_index: int, context: ar.Context) -> ar.NextStep:
    """One round: decide, and carry the loop out that was decided."""
    decision = decide(payload=dict(context.payload))
    if decision["step"] == "ForEach":
        for number in context.payload[decision["forEach"]["collectionPath"]]:
            invoice = read_invoice(number)
            context.change(
                new={"read": {number: invoice["open"]}},
                update={"open": context.payload["open"] + invoice["open"]},
                reason=f"{number} was read",
            )
    elif decision["step"] == "While":
        reminders = 0
        while context.payload["open"] > 0 and reminders < decision["while"]["maxIterations"]:
            reminders += 1
            context.change(update={"open": remind(context.payload["open"], reminders)}, reason=f"reminder {reminders}")
    return ar.NextStep(**decision)


def main() -> None:
    """Collect what is owed."""
    result = step.run(START)
    print(f"{result.run.id} ended: {result.value}")


if __name__ == "__main__":
    main()
