"""What is sent again and again is stored once, wherever in a request it stands, and read back as it was."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import agentreplay as ar
import pytest
from agentreplay.recorder.event_codec import decode_event, digest_of, encode_event
from agentreplay.recorder.events import ModelCalled
from agentreplay.recorder.hashes import content_address, same
from agentreplay.recorder.kept_apart import addresses_in, fill, references, with_tags
from agentreplay.recorder.redaction import RedactionRules, Redactor
from agentreplay.recorder.values import decode, dumps, encode, loads
from hypothesis import given
from hypothesis import strategies as st

REDACTOR = Redactor(b"key", RedactionRules(enabled=False))


@dataclass
class Body:
    messages: Any


class Turn(NamedTuple):
    role: str
    text: str


class Messages(list[Any]):
    """A list of a class of its own."""


WAYS: dict[str, Callable[[list[Any]], dict[str, Any]]] = {
    "a list": lambda history: {"messages": history},
    "a tuple": lambda history: {"messages": tuple(history)},
    "a deque": lambda history: {"messages": deque(history, 10_000)},
    "in an object": lambda history: {"body": {"messages": history}},
    "a tuple in objects": lambda history: {"kwargs": {"body": {"a/b": tuple(history)}}},
    "in an OrderedDict": lambda history: {"body": OrderedDict(model="m", messages=history)},
    "in a dict with odd keys": lambda history: {"body": {"$type": "chat", 1: history}},
    "in a dataclass": lambda history: {"body": Body(history)},
    "a list of a class": lambda history: {"body": Messages(history)},
    "in a list of lists": lambda history: {"batch": [["x"], history]},
    "tuples": lambda history: {"messages": [(item["role"], item["content"]) for item in history]},
    "named tuples": lambda history: {"body": {"turns": [Turn(item["role"], item["content"]) for item in history]}},
    "texts": lambda history: {"body": {"contents": tuple(item["content"] for item in history)}},
    "with a long text": lambda history: {"body": {"system": "Be kind. " * 300, "messages": history}},
    "beside much else": lambda history: {"body": {"messages": history, "more": {"n": list(range(40_000))}}},
}


def message(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"{number}: " + "what shall I say? " * 8}


def called(request: Any) -> Any:
    """The row of a model call."""
    event = ModelCalled(
        seq=0,
        round=1,
        kind="model.called",
        version=1,
        time="2026-01-02T03:04:05Z",
        data={"call": "1.1", "name": "m", "request": request},
    )
    return encode_event(event, REDACTOR)


def read(row: Any, *, conversations: bool = True) -> Any:
    """The request of a row, in stored form."""

    def messages_of(stored: Any, name: str) -> list[Any]:
        return [loads(row.messages[address]) for address in stored.conversations[name]]

    return decode_event(row, messages_of if conversations else None, row.blobs.__getitem__).data.request


@pytest.mark.parametrize("way", WAYS)
def test_a_request_costs_its_new_messages_only(way: str) -> None:
    """However the history is passed: what a round adds to the store is what it adds to the history."""
    history = [message(number) for number in range(20)]
    before, after = [called(WAYS[way](history + [message(20)] * more)) for more in (0, 1)]
    new = {**after.messages, **after.blobs}.keys() - {**before.messages, **before.blobs}.keys()
    assert len(new) == 1
    assert abs(len(after.body) - len(before.body)) < 8
    assert len(after.body) < 800


@pytest.mark.parametrize("way", WAYS)
def test_a_request_is_read_back_as_it_was(way: str) -> None:
    """Its types included; and its stored body refers to just what the row has."""
    request = WAYS[way]([message(number) for number in range(20)])
    row, expected = called(request), encode(request).stored
    assert dumps(read(row)) == dumps(expected)
    conversations, blobs = addresses_in(loads(row.body))
    assert conversations == {name: digest_of(addresses) for name, addresses in row.conversations.items()}
    assert {*blobs} == {*row.blobs}


def test_a_tuple_of_messages_is_a_tuple_again(tmp_path: Path) -> None:
    """In the store, after an export and an import, and after a damaged cassette was salvaged."""
    store = ar.open_store(str(tmp_path / "s.db"))
    with ar.record("chat", payload={}, store=store) as run, run.round() as turn:
        for way in ("a tuple", "in an object", "in an OrderedDict"):
            turn.model(way, WAYS[way]([message(number) for number in range(20)]), lambda **request: "yes")
    file = tmp_path / "run.jsonl"
    ar.export_run("run1", file, store=store)
    for name, salvage in (("whole", False), ("cut", True)):
        other = ar.open_store(str(tmp_path / f"{name}.db"))
        if salvage:
            file.write_bytes(file.read_bytes()[:-200])
        ar.import_file(file, store=other, salvage=salvage)
        for kept in (store, other):
            requests = [decode(event.data.request) for event in kept.events("run1") if event.kind == "model.called"]
            assert [type(requests[0]["messages"]), type(requests[2]["body"])] == [tuple, OrderedDict]
            assert requests[0]["messages"] == tuple(requests[1]["body"]["messages"])
            assert requests[1]["body"]["messages"] == requests[2]["body"]["messages"]
    assert store.verify() == []


@pytest.mark.parametrize("way", WAYS)
def test_a_run_is_replayed_that_passes_its_history_in_any_way(way: str, tmp_path: Path) -> None:
    """A call is found again by what it asks, its conversation included."""
    store = ar.open_store(str(tmp_path / "s.db"))

    def chat(more: int) -> None:
        with ar.record("chat", payload={}, store=store) as run:
            history: list[Any] = []
            for number in range(12):
                with run.round() as turn:
                    history.append(message(number + (more if number == 9 else 0)))
                    turn.model("m", WAYS[way](list(history)), lambda **request: "yes")

    chat(0)
    assert ar.replay("run1", partial(chat, 0), store=store).verdict == "identical"
    with pytest.raises(ar.Divergence) as raised:
        ar.replay("run1", partial(chat, 1), store=store)
    assert raised.value.differences[0].step == 10


TEXTS = st.sampled_from(["", "a", "/", "a/b", "~", "$type", "0", "items", "messages", "text " * 30, "long " * 300])
LEAVES = TEXTS | st.sampled_from([None, 1, 1.5, {1, 2}, b"x"])


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.dictionaries(TEXTS, inner, max_size=3)
    return st.one_of(
        objects,
        objects.map(OrderedDict),
        objects.map(lambda items: Body(items)),
        st.dictionaries(TEXTS | st.integers(0, 2), inner, max_size=3),
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(objects, min_size=1, max_size=3).map(lambda items: items * 4),
        st.lists(inner, max_size=4).map(deque),
    )


REQUESTS = st.dictionaries(TEXTS, st.recursive(LEAVES, _containers, max_leaves=15), max_size=4)


@given(REQUESTS)
def test_any_request_is_read_back_as_it_was(request: dict[str, Any]) -> None:
    """Also one whose keys look like places, or whose values look like what stands for what is kept apart."""
    row, expected = called(request), encode(request).stored
    assert dumps(read(row)) == dumps(expected)
    conversations, blobs = addresses_in(loads(row.body))
    assert conversations == {name: digest_of(addresses) for name, addresses in row.conversations.items()}
    assert {*blobs} == {*row.blobs}
    assert row.messages.keys() == {address for listed in row.conversations.values() for address in listed}
    assert same(read(row, conversations=False), with_tags(expected))


def test_what_looks_like_a_reference_is_user_data() -> None:
    """It is escaped when it is stored, so a reader does not take it for one."""
    request = {
        "body": {"$type": "messages", "hash": "sha256:0", "count": 1, "x": [{"$type": "blob", "hash": "?"}] * 90}
    }
    row = called(request)
    assert decode(read(row)) == request


def test_references_of_a_damaged_body_are_none_too_many() -> None:
    """Whatever stands there, reading it ends, and finds what is whole."""
    tag = {"$type": "messages", "hash": "sha256:0", "count": 1}
    for body in (
        {"request": {"a": {"$type": "ordereddict", "items": [[1]]}, "m": tag}},
        {"request": {"a": {"$type": "dict", "items": 1}, "m": tag}},
        {"request": {"a": {"$type": ["x"], "items": [tag]}, "m": tag}},
        {"request": {"a": {"$type": "set", "items": [tag]}, "m": tag}},
        {"request": {"a": [{"b": tag}], "m": tag}},
    ):
        assert [(found.name, found.tag) for found in references(body)] == [("m", tag)]
    deep: Any = tag
    for _ in range(500):
        deep = {"a": deep}
    assert list(references({"request": deep})) == []


def test_a_conversation_of_an_older_release_is_read() -> None:
    """Its name is the key that it stands at, whatever that looks like; and there was no `of`."""
    messages = [{"role": "user"}]
    digest = digest_of([content_address(dumps(item)) for item in messages])
    body = {"request": {"/a/b": {"$type": "messages", "hash": digest, "count": 1}, "a": {"b": 1}}}
    names: list[str] = []

    def conversation(name: str) -> list[dict[str, str]]:
        names.append(name)
        return messages

    fill(body, conversation, lambda address: None, None)
    assert names == ["/a/b"]
    assert body == {"request": {"/a/b": messages, "a": {"b": 1}}}
