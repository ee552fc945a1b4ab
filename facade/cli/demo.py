"""`demo`: record the example agent, and find its mistake the way a user would."""

from __future__ import annotations

from rich.console import Console

from ..examples import refunds
from ..recorder.errors import UsageError
from ..recorder.locate import open_store
from ..recorder.store import RunInfo
from .diff import Asked, changes_asked_for, show_diff
from .hints import command
from .output import console, write, write_commands
from .show import Selection, show_run

MISTAKE = 7
"""The step of the example at which it goes wrong."""

FIX = "--set /order/coupon/used=true --allow issue_refund"
"""What a re-run from that step is given, to go right."""


def record_demo(url: str | None) -> None:
    """Record the example agent in a store, and show what happened."""
    store = open_store(url)
    if store.url == "memory:":
        raise UsageError("a store in memory is gone when this command ends; name a file")
    page = console()
    write(page, ("A support agent works a refund through. Its model is a script; no network is needed.", "dim"))
    result = refunds.step.run(refunds.START, store=store)
    info = store.run(result.run.uid)
    _command(page, command(f"show {info.id} --short"))
    show_run(store, info, Selection.parse(None, store, info), short=True)
    _command(page, command(f"diff {info.id} --step {MISTAKE}"))
    show_diff(store, changes_asked_for(store, Asked(info.id, step=MISTAKE)), as_json=False, patch=False, full=False)
    _explain(page, info)


def _command(page: Console, typed: str) -> None:
    write(page)
    write(page, ("$ ", "dim"), (typed, "bold"))


def _explain(page: Console, info: RunInfo) -> None:
    write(page)
    write(page, ("Why it failed: ", "bold"), "step 9 asks for a refund that is larger than the total, and is refused.")
    write(page, "The total is wrong since step 7, which takes a coupon off that was used when the order was paid.")
    write(page)
    write(page, ("Go on from here:", "bold"))
    write_commands(
        page,
        {
            command(f"state {info.id} --step {MISTAKE - 1}"): "the payload just before the mistake",
            command(f"diff {info.id} --from {MISTAKE - 1} --to 9"): "everything that changed since",
            command(f"rerun {info.id} --step {MISTAKE} {FIX}"): "run it again from there, with what was missing",
            command("ls"): "all runs",
            command("run agent.py:step"): "record an agent of your own",
        },
    )
