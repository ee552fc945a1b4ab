"""An answer that a person gives in JSON has the type that the code expects, or is refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, NamedTuple

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from pydantic import BaseModel


class Model(BaseModel):
    """A model."""

    n: int


@dataclass
class Data:
    """A dataclass that holds one."""

    inner: Model
    n: int = 1


class Pair(NamedTuple):
    """A named tuple."""

    a: int
    b: str


class Colour(Enum):
    """An enumeration."""

    RED = "red"
    BLUE = "blue"


ANSWERS: list[tuple[Any, Any, Any]] = [
    (Model(n=1), {"n": 70}, Model(n=70)),
    (Data(Model(n=1)), {"inner": {"n": 7}, "n": 2}, Data(Model(n=7), 2)),
    (Pair(1, "x"), [2, "y"], Pair(2, "y")),
    (Colour.RED, "blue", Colour.BLUE),
    (Decimal("1.50"), "2.75", Decimal("2.75")),
    (date(2026, 1, 2), "2026-03-04", date(2026, 3, 4)),
    ((1, 2), [3, 4, 5], (3, 4, 5)),
    ([Model(n=1)], [{"n": 2}, {"n": 3}], [Model(n=2), Model(n=3)]),
    ({"found": Model(n=1), "count": 1}, {"found": {"n": 2}, "count": 2}, {"found": Model(n=2), "count": 2}),
    (Model(n=1), None, None),
    (Model(n=1), Model(n=5), Model(n=5)),
    ({"n": 1}, [1], [1]),
    ("text", {"n": 1}, {"n": 1}),
    (1, 2.5, 2.5),
]


def agent_of(answer: Any, called: list[int], got: list[Any]) -> Any:
    """An agent that calls a tool which gives an answer, and keeps what it got."""

    def look_up(n: int) -> Any:
        called.append(n)
        return answer

    declared = (Model, Data, Pair, Colour)
    tool: Callable[[int], Any] = ar.tool(safety="pure", name="look_up_typed", returns=declared)(look_up)

    @ar.agent("typed")
    def typed(i: int, context: ar.Context) -> ar.Complete[str]:
        got.append(tool(1))
        return ar.Complete("done")

    return typed


@pytest.mark.parametrize(("recorded", "given", "expected"), ANSWERS)
def test_an_answer_in_json_becomes_what_the_call_gave(recorded: Any, given: Any, expected: Any) -> None:
    """Of its very type, in the re-run and in the replay of that."""
    called: list[int] = []
    got: list[Any] = []
    agent, store = agent_of(recorded, called, got), MemoryStore()
    agent.run({}, store=store)
    ar.rerun("run1", agent, 1, tool_results={"1.1": given}, store=store)
    ar.replay("run2", agent, store=store)
    assert got == [recorded, expected, expected]
    assert [type(one) for one in got[1:]] == [type(expected)] * 2
    assert called == [1]


@pytest.mark.parametrize(
    ("recorded", "given", "why"),
    [
        (Model(n=1), {"m": 70}, "/n Field required"),
        ([Model(n=1)], [{"n": 1}, {"n": "x"}], "at /1,"),
        (Decimal(1), "much", "valid decimal"),
        (Colour.RED, "green", "'red' or 'blue'"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_before_anything_runs(recorded: Any, given: Any, why: str) -> None:
    """No code is executed, and no run is recorded."""
    got: list[Any] = []
    agent, store = agent_of(recorded, [], got), MemoryStore()
    agent.run({}, store=store)
    with pytest.raises(ar.UsageError, match=r"what is given for call 1\.1 \(look_up_typed\)") as refused:
        ar.rerun("run1", agent, 1, tool_results={"1.1": given}, store=store)
    assert why in str(refused.value)
    assert len(got) == len(store.runs()) == 1


def test_a_tool_that_is_named_where_it_is_called_gets_its_type_there() -> None:
    """One that does not fit stops the code at the call, which is not made."""
    store = MemoryStore()
    got: list[Any] = []

    def find(n: int) -> Model:
        return Model(n=n)

    def main() -> None:
        with ar.record("typed", store=store) as run:
            with run.round() as one:
                got.append(one.tool("find_typed_later", {"n": 1}, find, safety="pure"))
            run.complete("done")

    main()
    ar.rerun("run1", main, 1, tool_results={"1.1": {"n": 2}}, store=store)
    assert got == [Model(n=1), Model(n=2)]
    with pytest.raises(ar.UsageError, match="Field required"):
        ar.rerun("run1", main, 1, tool_results={"1.1": {}}, store=store)
    assert len(got) == 2
