"""An agent that waits for a person.

Before it gives money away it asks. The run stops there as interrupted, which may last for a week and over a restart of
the machine; with the answer it goes on in place, and what was done before is not done again:

    agentreplay resume run1 --answer approve=true
"""

from __future__ import annotations

from typing import Any

import agentreplay as ar

CLAIMS = {"K-7": {"customer": "Acme GmbH", "amount": 1250.0}}
LIMIT = 500.0

START: dict[str, Any] = {"claim": "K-7"}


@ar.tool(safety="pure")
def read_claim(number: str) -> dict[str, Any]:
    """Read a claim."""
    return CLAIMS[number]


@ar.tool(safety="irreversible")
def pay(customer: str, amount: float) -> str:
    """Pay a claim."""
    return f"paid {amount:.2f} to {customer}"


@ar.agent("approval", max_rounds=4)
def step(round_index: int, context: ar.Context) -> ar.Continue | ar.NextStep | ar.Complete[str]:
    """First round: read the claim. Second round: ask, if it is large, and pay."""
    if round_index == 1:
        claim = read_claim(context.payload["claim"])
        context.change(new={"customer": claim["customer"], "amount": claim["amount"]}, reason="as the claim says")
        return ar.Continue()
    customer, amount = context.payload["customer"], context.payload["amount"]
    if amount > LIMIT and not context.interrupt("approve", {"customer": customer, "amount": amount}):
        return ar.NextStep(step="Failed", error_message=f"{amount:.2f} was not approved")
    receipt = pay(customer, amount)
    context.change(new={"receipt": receipt}, reason="approved")
    return ar.Complete(receipt)


def main() -> None:
    """Run the agent until it asks, and answer."""
    asked = step.run(START)
    print(f"{asked.run.id} waits: {asked.interrupts[0].name} {asked.interrupts[0].reason}")
    result = ar.resume(asked.run.id, step, answers={"approve": True})
    print(f"{result.run.id} {result.value}")


if __name__ == "__main__":
    main()
