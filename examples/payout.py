"""A process that is killed while money is on its way, and another one that goes on.

The bank takes its time over the second payment, and the process is killed (SIGKILL) while it waits. The log holds the
call that was in flight, since it was committed before the call was made. Whether the bank has paid cannot be known
from here, so a person who has asked the bank says it, and the run goes on in place. Nobody is paid twice:

    agentreplay resume run1 --assume 2.1='"T-Ben-250.00"'
"""

from __future__ import annotations

import multiprocessing
import time
from typing import Any

import agentreplay as ar

START: dict[str, Any] = {"due": {"Ada": 120.0, "Ben": 250.0, "Cleo": 75.5}, "paid": {}}
IN_FLIGHT = "2.1"
"""The call during which the process is killed: the first one of round 2."""


class Bank:
    """Pays at once; or, given an event, sets it when it is asked to pay Ben, and takes an hour."""

    def __init__(self, asked: Any = None) -> None:
        self.asked = asked

    def transfer(self, person: str, amount: float) -> str:
        """Pay, and return the number of the transfer."""
        if self.asked is not None and person == "Ben":
            self.asked.set()
            time.sleep(3600)
        return f"T-{person}-{amount:.2f}"


bank = Bank()


@ar.tool(safety="irreversible")
def pay(person: str, amount: float) -> str:
    """Pay a person."""
    return bank.transfer(person, amount)


@ar.agent("payout", max_rounds=9)
def step(round_index: int, context: ar.Context) -> ar.NextStep | ar.Complete[list[str]]:
    """One round: pay the next person who is due."""
    due, paid = context.payload["due"], context.payload["paid"]
    person = next((name for name in due if name not in paid), None)
    if person is None:
        return ar.Complete(list(paid.values()))
    receipt = pay(person, due[person])
    context.change(new={"paid": {person: receipt}}, reason=f"{person} was paid")
    return ar.NextStep(step="Actions", actions=[{"name": "pay", "params": {"person": person}}])


def run_with_a_slow_bank(asked: Any) -> None:
    """What the process does that will be killed."""
    global bank
    bank = Bank(asked)
    step.run(START)


def be_killed() -> str:
    """Run the agent in a process that is killed while Ben's payment is in flight; returns the run's id."""
    asked = multiprocessing.Event()
    process = multiprocessing.Process(target=run_with_a_slow_bank, args=(asked,))
    process.start()
    asked.wait()
    process.kill()
    process.join()
    return ar.open_store().run("@last").id


def go_on(run: str) -> ar.AgentResult:
    """Resume the run in this process. The bank says that Ben was paid."""
    return ar.resume(run, step, assume={IN_FLIGHT: "T-Ben-250.00"})


def main() -> None:
    """Pay three people, in two processes."""
    run = be_killed()
    info = ar.open_store().run(run)
    print(f"{run} has {info.status} in round {info.steps + 1}, while Ben's payment was in flight")
    print(f"{run} went on: {go_on(run).value}")


if __name__ == "__main__":
    main()
