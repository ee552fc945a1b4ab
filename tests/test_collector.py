"""The garbage collector rests while a recording is read, and is as it was afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.replay import script
from agentreplay.replay.collector import collector_at_rest


@pytest.fixture(params=[True, False], ids=["enabled", "disabled"])
def was(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether the collector is at work before."""
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_the_collector_is_as_it_was(was: bool) -> None:
    """Also where reading fails."""
    with collector_at_rest():
        assert not gc.isenabled()
    assert gc.isenabled() is was
    with pytest.raises(ZeroDivisionError), collector_at_rest():
        raise ZeroDivisionError
    assert gc.isenabled() is was


def test_code_is_executed_with_the_collector_as_it_was(was: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It rests while events are read, and not in a round."""
    store = MemoryStore()
    seen: dict[str, set[bool]] = {"read": set(), "executed": set()}
    add = script.Script._add

    def watched(self: script.Script, event: ar.Event) -> None:
        seen["read"].add(gc.isenabled())
        add(self, event)

    monkeypatch.setattr(script.Script, "_add", watched)

    @ar.tool(safety="pure")
    def look() -> int:
        return 1

    @ar.agent("looking", max_rounds=3)
    def step(i: int, context: ar.Context) -> ar.Complete[int] | ar.Continue:
        seen["executed"].add(gc.isenabled())
        look()
        return ar.Complete(i) if i == 3 else ar.Continue()

    step.run({}, store=store)
    assert ar.replay("run1", step, store=store).verdict == "identical"
    assert seen == {"read": {False}, "executed": {was}}
