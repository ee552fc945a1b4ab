"""`demo`: record the example agent, and find its mistake the way a user would."""

from __future__ import annotations

from rich.console import Console

from ..examples import refunds
from ..recorder.errors import UsageError
from ..recorder.locate import open_store
from ..recorder.store import EventStore, RunInfo
from .diff import Asked, changes_asked_for, show_diff
from .output import console, write
from .show import Selection, show_run

MISTAKE = 7
"""The step of the example at which it goes wrong."""


def record_demo(url: str | None) -> None:
    """Record the example agent in a store, and show what happened."""
    store = open_store(url)
    if store.url == "memory:":
        raise UsageError("a store in memory is gone when this command ends; name a file")
    page = console()
    write(page, ("A support agent works a refund through. Its model is a script; no network is needed.", "dim"))
    result = refunds.step.run(refunds.START, store=store)
    info = store.run(result.run.uid)
    _command(page, f"agentreplay show {info.id} --short")
    show_run(store, info, Selection.parse(None, store, info), short=True)
    command = f"agentreplay diff {info.id} --step {MISTAKE}"
    _command(page, command)
    show_diff(store, changes_asked_for(store, Asked(info.id, step=MISTAKE)), as_json=False, patch=False, full=False)
    _explain(page, store, info)


def _command(page: Console, command: str) -> None:
    write(page)
    write(page, ("$ ", "dim"), (command, "bold"))


def _explain(page: Console, store: EventStore, info: RunInfo) -> None:
    write(page)
    write(page, ("Why it failed: ", "bold"), "step 9 asks for a refund that is larger than the total, and is refused.")
    write(page, "The total is wrong since step 7, which takes a coupon off that was used when the order was paid.")
    write(page)
    write(page, ("Go on from here:", "bold"))
    for command, what in (
        (f"agentreplay state {info.id} --step 6", "the payload just before the mistake"),
        (f"agentreplay diff {info.id} --from 6 --to 9", "everything that changed since"),
        ("agentreplay ls", "all runs"),
        ("agentreplay run agent.py:step", "record an agent of your own"),
    ):
        write(page, f"  {command:40}", (what, "dim"))
