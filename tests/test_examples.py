"""The examples run, without a network, and show what they promise."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from recorded import log_of

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def refunds(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, its orders to be changed at will."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import refunds as module

    monkeypatch.setattr(module, "ORDERS", copy.deepcopy(module.ORDERS))
    yield module
    del sys.modules["refunds"]


def named(store: EventStore, kind: str, run: str = "run1") -> list[str]:
    return [event.data.name for event in log_of(store, run) if event.kind == kind]


def test_the_refund_fails_because_of_what_step_seven_did(refunds: Any) -> None:
    """Nine rounds or more, four tools, a sub-agent; the mistake is made in step 7 and shows later."""
    store = MemoryStore()
    result = refunds.step.run(refunds.START, store=store)
    assert result.stop_reason == "failed"
    assert result.payload["problem"] == "a refund of 95.50 is more than the 77.70 that was paid for A-17"
    assert store.run("run1").steps >= 9
    assert sorted(set(named(store, "tool.called"))) == [
        "find_policy",
        "issue_refund",
        "lookup_customer",
        "lookup_order",
    ]
    assert named(store, "subrun.started") == ["inspector"]
    totals = [ar.state_at("run1", step, store=store).payload.get("order", {}).get("total") for step in range(9)]
    assert totals == [None, 129.5, 129.5, 129.5, 129.5, 129.5, 129.5, 77.7, 77.7]
    failed = next(event for event in log_of(store, "run1") if event.kind == "tool.failed")
    assert failed.round > 7
    assert failed.data.error.type.endswith("RefundRejected")


def test_without_the_coupon_the_refund_completes(refunds: Any) -> None:
    """What step 7 made of the coupon was the cause, and nothing else."""
    refunds.ORDERS["A-17"]["coupon"] = None
    store = MemoryStore()
    result = refunds.step.run(refunds.START, store=store)
    assert (result.stop_reason, store.run("run1").status) == ("endTurn", "completed")
    assert result.payload["receipt"] == {"receipt": "R-A-17", "amount": 95.5}
    assert result.payload["order"]["total"] == 129.5


def test_the_refund_is_the_same_each_time(refunds: Any) -> None:
    """Two runs differ in nothing but times and names."""
    store = MemoryStore()
    bodies = []
    for run in ("run1", "run3"):
        refunds.step.run(refunds.START, store=store)
        assert store.run(run).agent == "refunds"
        bodies.append([without_times(event) for event in log_of(store, run)])
    assert bodies[0] == bodies[1]


def without_times(event: Any) -> dict[str, Any]:
    data = event.data.model_dump()
    for name in ("duration", "metrics", "process", "run", "result", "python", "source"):
        data.pop(name, None)
    return {"kind": event.kind, "round": event.round, "within": event.within, "task": event.task, **data}


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("[!_]*.py")))
def test_every_example_runs_as_a_program(example: str, tmp_path: Path) -> None:
    """`python examples/…` ends without an error, and leaves a run behind."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example)],
        cwd=tmp_path,
        env={"PATH": "", "HOME": str(tmp_path), "AGENTREPLAY_STORE": str(tmp_path / "store.db")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
    store = ar.open_store(tmp_path / "store.db", create=False)
    assert store.runs()
    assert store.verify() == []
    store.close()
