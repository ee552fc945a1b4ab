"""The state at every step of a run equals the payload the agent saw live, whatever the agent does."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.errors import ChangeRefused, UsageError
from agentreplay.recorder.hashes import same
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.payload import APPLIERS
from agentreplay.recorder.redaction import RedactionRules
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore
from agentreplay.recorder.values import encode
from agentreplay.replay.timeline import states
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SECRET = "sk-proj-" + "A1b2C3d4" * 4


@dataclass
class Basket:
    """A mutable value of a user's own, which JSON does not know."""

    items: list[Any] = field(default_factory=list)
    note: str = ""


ar.register_type(Basket)

KEYS: st.SearchStrategy[Any] = st.sampled_from(
    [
        "a",
        "b",
        "items",
        "id",
        "password",
        "",
        "0",
        "a.b",
        "~/",
        "x-" + SECRET,
        "a",
        "b",
        "$type",
        0,
        True,
        None,
        (1, "x"),
    ]
)
PLAIN = st.sampled_from(
    [None, True, False, 0, 1, 1.0, -0.0, 2.5, "", "x", "__DELETE__", "TBD", "long " * 30, "é\u2028", {}, []]
)
ODD = st.sampled_from(
    [
        Decimal("1.0"),
        Decimal("1.00"),
        datetime(2026, 1, 1, 12, tzinfo=UTC),
        datetime(2026, 1, 1, 13, tzinfo=timezone(timedelta(hours=1))),
        (1, [2, "x"]),
        (True, [2.0]),
        {1: "one", "1": "text"},
        {"$type": "blob", "hash": "x"},
        {"$type": "decimal", "value": "1.0"},
        {"$type": "dict", "items": [["a", 1], [1, "b"]], "a": [1]},
        {"$type": "set", "items": [2, 1], "b": {"a": 1}},
        {"$type": "messages", "items": [{"a": 1}], "a": {"b": 1}},
        {"$type": "order", "a": 1, "b": {"$type": "deep", "parts": [1]}},
        {"$type": None},
        {None: {"a": [1]}, (1, "x"): {True: 2}},
        {1, 2},
        {True, 2},
        2**60,
        float("nan"),
        b"bytes",
        "half an emoji \ud83d",
    ]
) | st.builds(Basket, st.just([1]), st.sampled_from(["", "n"]))
PATHS = ["", "/a", "/a/b", "/a/0", "/items/-", "/b", "/items", "/password", "/~0~1", "/a/$type", "/$type", "/0"]
SECRETS = st.sampled_from([SECRET, f"use {SECRET}", {"password": "hunter2"}, [["authorization", "Bearer abc123def"]]])


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3),
        max_leaves=8,
    )


def programs(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A starting payload, and what each round of an agent does."""
    tree = trees(leaves)
    objects = st.dictionaries(KEYS, tree, max_size=4)
    sections = st.dictionaries(
        st.sampled_from(["newElements", "updateElements", "replaceElements", "removeElements", "stray", "reasoning"]),
        tree,
        max_size=3,
    )
    operations = st.lists(
        st.fixed_dictionaries(
            {
                "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
                "path": st.sampled_from(PATHS),
                "from": st.sampled_from(["/a", "/a/b", "/items/0", "/b", "/password"]),
                "value": tree,
            }
        ),
        max_size=3,
    )
    requests = {
        "memberjunction": sections,
        "json-patch": operations,
        "merge-patch": tree,
        "replace": tree,
    }

    def actions(applier: str) -> st.SearchStrategy[tuple[str, Any]]:
        change = st.one_of(
            st.fixed_dictionaries({"new": objects}),
            st.fixed_dictionaries({"update": objects}, optional={"new": objects}),
            st.fixed_dictionaries({"replace": objects}),
            st.fixed_dictionaries({"remove": st.sampled_from(["a", "/a/b", ["b", "items"], {"a": "__DELETE__"}])}),
            st.fixed_dictionaries({"patch": operations}),
            st.fixed_dictionaries({"merge": objects}),
            st.fixed_dictionaries({"payload": tree}),
        )
        return st.one_of(
            st.tuples(st.just("change"), change),
            st.tuples(st.just("request"), requests[applier]),
            st.tuples(st.just("decide"), requests[applier]),
            st.tuples(st.just("tool"), change),
            st.tuples(st.just("in place"), st.none()),
            st.tuples(st.just("read"), st.none()),
        )

    return st.sampled_from(sorted(APPLIERS)).flatmap(
        lambda applier: st.tuples(
            st.just(applier),
            st.sampled_from([None, None, None, ["a.*", "items", "b:add"]]),
            tree,
            st.lists(st.lists(actions(applier), max_size=4), min_size=1, max_size=4),
        )
    )


def baskets_in(value: Any) -> Iterator[Basket]:
    if isinstance(value, Basket):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from baskets_in(item)


@ar.tool
def act(context: ar.Context, change: dict[str, Any]) -> str:
    context.change(**change)
    return "done"


def carry_out(context: ar.Context, what: str, how: Any) -> None:
    if what == "change":
        context.change(**how)
    elif what == "request" and how is not None:
        context.change(how)
    elif what == "decide":
        context.decide(step="Retry", payload_change_request=how)
    elif what == "tool":
        act(context, how)
    elif what == "in place":
        for basket in baskets_in(context.payload):
            basket.items.append(len(basket.items))
    elif what == "read":
        context.read("setting", lambda: context.payload)


def run_program(program: Any, store: EventStore) -> tuple[Any, list[Any]]:
    """Run the agent; returns its result, and the payload as it saw it at the start and at the end of each round."""
    applier, allowed, start, rounds = program
    seen: list[Any] = []

    @ar.agent("random", applier=applier, allowed_paths=allowed)
    def step(round_index: int, context: ar.Context) -> ar.Continue | ar.Complete[str]:
        if round_index == 1:
            seen.append(copy.deepcopy(context.payload))
        for what, how in rounds[round_index - 1]:
            with suppress(ChangeRefused, UsageError):
                carry_out(context, what, how)
        seen.append(copy.deepcopy(context.payload))
        return ar.Continue() if round_index < len(rounds) else ar.Complete("done")

    return step.run(start, store=store), seen


def stores(kind: str, folder: Path, rules: RedactionRules | None = None) -> EventStore:
    return MemoryStore(rules) if kind == "memory" else SqlStore(f"sqlite:///{folder / 'states.db'}", rules)


@pytest.fixture(params=["memory", "sql"], scope="module")
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventStore]:
    store = stores(request.param, tmp_path_factory.mktemp("states"))
    yield store
    store.close()


@pytest.fixture(params=["memory", "sql"], scope="module")
def open_book(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventStore]:
    """A store that takes nothing for a secret."""
    store = stores(request.param, tmp_path_factory.mktemp("open"), RedactionRules.off())
    yield store
    store.close()


relaxed = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(programs(PLAIN | ODD))
@relaxed
def test_the_state_at_every_step_is_the_payload_the_agent_saw(open_book: EventStore, program: Any) -> None:
    """Folded from the log alone, each payload comes back as it was, every type included."""
    result, seen = run_program(program, open_book)
    folded = list(states(open_book.events(result.run.id)))
    assert [step for step, _ in folded] == list(range(len(seen)))
    for (step, state), payload in zip(folded, seen, strict=True):
        assert same(state.stored_payload, encode(payload).stored), step
        assert same(encode(state.payload).stored, state.stored_payload), step
    assert open_book.verify(result.run.id) == []


@given(programs(PLAIN | ODD | SECRETS))
@relaxed
def test_with_secrets_the_state_is_the_redacted_payload(store: EventStore, program: Any) -> None:
    """The fold gives what redacting the live payload gives; the secret itself is nowhere in the log."""
    result, seen = run_program(program, store)
    folded = [state for _, state in states(store.events(result.run.id))]
    # A secret may be learnt later in a run than it was first seen, so both sides are looked at with what is known now.
    redact = store.redactor.redact
    expected = [redact(encode(payload).stored) for payload in seen]
    assert len(folded) == len(expected)
    assert all(same(redact(state.stored_payload), wanted) for state, wanted in zip(folded, expected, strict=True))
    assert not any(SECRET.encode() in (row.body or b"") for row in store.rows(result.run.id))
