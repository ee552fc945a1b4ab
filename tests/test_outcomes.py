"""What a step may return and how many rounds it has: refused where it is none, and told under the name of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from recorded import one
from workflows import ENGINE


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


def counting(i: int, context: ar.Context) -> Any:
    return ar.Continue() if i < 3 else ar.Complete(i)


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        (0, "max_rounds is at least 1, not 0"),
        (-2, "max_rounds is at least 1, not -2"),
        ("5", "max_rounds is a whole number of at least 1, not '5'"),
        (2.0, "max_rounds is a whole number of at least 1, not 2.0"),
        (True, "max_rounds is a whole number of at least 1, not True"),
        ([3], "max_rounds is a whole number of at least 1, not list"),
    ],
)
def test_a_bound_that_is_none_is_refused_wherever_it_is_given(store: EventStore, bound: Any, message: str) -> None:
    """Of an engine, an agent, a run, and of a run that is executed again; nothing is recorded."""
    stepping = ar.CoreEngine(name="stepping")
    assert stepping.run(counting, store=store, max_rounds=5).run.id == "run1"
    refused: list[Callable[[], Any]] = [
        lambda: ar.CoreEngine(max_rounds=bound),
        lambda: ar.agent("a", max_rounds=bound)(counting),
        lambda: ENGINE.run({}, max_rounds=bound, store=store),
        lambda: stepping.run(counting, max_rounds=bound, store=store),
        lambda: ar.agent("a")(counting).run(max_rounds=bound, store=store),
        lambda: asyncio.run(ar.agent("a")(counting).arun(max_rounds=bound, store=store)),
    ]
    for use in refused:
        with pytest.raises(ar.UsageError) as raised:
            use()
        assert str(raised.value) == message
    with pytest.raises(ar.UsageError, match="max_rounds"):
        ar.rerun("run1", stepping.agent(counting), 2, max_rounds=bound, store=store)
    assert [info.id for info in store.runs()] == ["run1"]


@pytest.mark.parametrize(
    ("outcome", "returned"),
    [
        ({"type": "compleet"}, "dict with the type 'compleet'"),
        ({"done": True, "value": 3}, "dict with 'done', 'value'"),
        ({"type": 3}, "dict with 'type'"),
    ],
)
def test_an_outcome_that_is_none_is_told_with_what_a_step_may_return(
    store: EventStore, outcome: Any, returned: str
) -> None:
    """So a slip in the JSON form is seen at once."""
    with pytest.raises(ar.UsageError) as raised:
        ar.CoreEngine(name="slip").run(lambda i, context: outcome, store=store)
    assert str(raised.value) == (
        f"the step of slip returned {returned}; expected Continue(), Complete(value) or a NextStep, or as JSON "
        '{"type": "continue"}, {"type": "complete", "value": …} or {"step": …}'
    )


@pytest.mark.parametrize("outcome", [ar.Continue(), {"type": "compleet"}])
def test_a_step_of_an_engine_that_ends_badly_replays_under_its_own_name(store: EventStore, outcome: Any) -> None:
    """What the loop says names the run, as an engine does, which the step alone does not know."""

    @ar.tool
    def ask(n: int) -> int:
        return n

    def step(i: int, context: ar.Context) -> Any:
        ask(i)
        return outcome

    with suppress(ar.UsageError):
        ar.CoreEngine(name="engine", max_rounds=2).run(step, store=store)
    finished = one(store, "run.finished").data
    assert (finished.status, "engine" in finished.error.message) == ("failed", True)
    assert ar.replay("run1", ar.agent("alone", max_rounds=9)(step), store=store).verdict == "identical"
