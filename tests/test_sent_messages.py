"""A request is encoded from what is new in it, and what is stored is what encoding all of it would give."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder import kept_apart
from agentreplay.recorder.event_codec import StoredEvent, encode_data
from agentreplay.recorder.events import ModelCalledData
from agentreplay.recorder.frozen import FrozenDict, freeze
from agentreplay.recorder.redaction import RedactionRules, Redactor, SecretPattern
from agentreplay.recorder.sent_messages import FEWEST, SPARE, SentMessages
from hypothesis import given, settings
from hypothesis import strategies as st

SECRET = "hunter2-Kx93-lmq8"
SECRETS = (
    {"role": "user", "content": f"password: {SECRET}"},
    {"role": "tool", "content": {"api_key": "q8Zr-51kd-Tpw0-Xe77"}},
    {"role": "user", "content": ["--token", "abcdEFGH1234ijkl"]},
)
MENTIONS = ({"role": "tool", "content": f"it is {SECRET}"}, {"role": "tool", "content": "or q8Zr-51kd-Tpw0-Xe77?"})
ODD = (
    {"role": "user", "content": (1, 2)},
    {"role": "user", "content": b"\x00image"},
    {"role": "user", "content": bytearray(b"\x00image")},
    {"role": "user", "content": object},
    {"role": "user", "content": lambda: None},
    {"$type": "tuple", "items": [1]},
    {1: "one"},
    {"role": "user", "content": freeze({"text": ["frozen inside"]})},
    freeze({"role": "user", "content": [{"text": "frozen"}]}),
    FrozenDict({"role": "user", "content": ["not frozen inside"]}),
    {"role": "user", "content": "\ud800"},
    {"role": "user", "content": "long " * 20_000},
)
ALIKE = tuple({"role": "user", "content": value} for value in (1, 1.0, True, 0.0, -0.0, False, 2**53, None, "1"))


def message(number: int) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": f"message {number}"}]}


def called(redactor: Redactor, request: Any, sent: SentMessages | None = None) -> StoredEvent:
    """The row of a model call."""
    data = ModelCalledData(call="1.1", name="ask", request=request)
    return encode_data(data, redactor, seq=0, round=1, kind="model.called", version=1, time=0, sent=sent)


def new_redactor() -> Redactor:
    own = (SecretPattern("voucher", "VOUCHER-[0-9]{6}", ("VOUCHER-",)),)
    return Redactor(b"key", RedactionRules(patterns=own))


class Both:
    """Encodes each request with what was sent before it and without; each way has its redactor, of the same key."""

    def __init__(self, new: Any = new_redactor) -> None:
        self.sent = SentMessages()
        self._redactors = new(), new()

    def call(self, request: Any) -> StoredEvent:
        whole = called(self._redactors[0], request)
        row = called(self._redactors[1], request, self.sent)
        assert row == whole
        assert [*row.messages] == [*whole.messages]
        assert [*row.conversations] == [*whole.conversations]
        return row


one_message = st.one_of(
    st.integers(0, 30).map(message),
    st.sampled_from(SECRETS + MENTIONS + ODD + ALIKE),
    st.sampled_from(("text " * 20, ["pair", "of two"], ("a", "tuple"), 7, None)),
    st.just({"role": "user", "content": "VOUCHER-123456"}),
)
edit = st.one_of(
    st.tuples(st.just("append"), st.lists(one_message, min_size=1, max_size=3)),
    st.tuples(st.just("drop"), st.integers(0, 12)),
    st.tuples(st.just("insert"), one_message),
    st.tuples(st.just("change"), st.sampled_from((1, 1.0, True, f"say {SECRET}", "else", [{"text": "else"}]))),
    st.tuples(st.just("copy"), st.just(None)),
    st.tuples(st.just("freeze"), st.just(None)),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(edit, min_size=1, max_size=12),
    st.sampled_from(("messages", "input", "value", "tokens", "password", "/at", "a/b", f"k {SECRET}", "path")),
    st.sampled_from(({}, {"tools": [{"name": "x" * 9_000}]}, {"tools": ("a", 1)}, {"name": "password"}, {3: 4})),
)
def test_what_is_stored_is_the_same_with_what_was_sent_before_and_without(
    edits: list[tuple[str, Any]], name: str, beside: dict[Any, Any]
) -> None:
    """Whatever is added to a conversation, removed, changed in place, copied or frozen between two calls."""
    both, messages = Both(), [message(number) for number in range(FEWEST + 2)]
    for what, value in [("append", []), *edits]:
        if what == "append":
            messages += value
        elif what == "drop":
            del messages[:value]
        elif what == "insert":
            messages.insert(len(messages) // 2, value)
        elif what == "change" and messages and type(messages[-1]) is dict:
            messages[-1]["content"] = value
        elif what == "copy":
            messages = deepcopy(messages)
        elif what == "freeze":
            messages = [freeze(one) for one in messages]
        both.call({**beside, name: messages} if beside.keys() != {3} else {"body": beside, name: messages})


def test_of_a_conversation_that_is_sent_again_only_the_new_messages_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others are known: copies by their likeness, frozen ones by being the same."""
    written: list[Any] = []
    dumps = kept_apart.dumps
    monkeypatch.setattr(kept_apart, "dumps", lambda one: written.append(one) or dumps(one))
    redactor, sent = new_redactor(), SentMessages()
    mine = [message(number) for number in range(20)]
    frozen = [freeze(message(number)) for number in range(100, 120)]

    first = called(redactor, {"messages": mine, "input": frozen}, sent)
    assert written == mine + frozen
    written.clear()
    last = {"role": "assistant", "content": "the last one"}
    second = called(redactor, {"messages": [*deepcopy(mine[5:]), last], "input": [*frozen[:-1], message(200)]}, sent)

    assert written == [last, message(200)]
    assert second.conversations["messages"][:-1] == first.conversations["messages"][5:]
    assert second.conversations["input"][:-1] == first.conversations["input"][:-1]


def test_a_secret_that_is_learnt_later_is_redacted_in_messages_that_were_sent_before() -> None:
    """What was stored of them then is not what stands for them now."""
    both = Both()
    messages: list[Any] = [*(message(number) for number in range(10)), MENTIONS[0]]
    before = both.call({"messages": messages})
    messages.append(SECRETS[0])
    after = both.call({"messages": messages})

    assert any(SECRET.encode() in content for content in before.messages.values())
    assert not any(SECRET.encode() in content for content in after.messages.values())
    assert before.conversations["messages"][:10] == after.conversations["messages"][:10]


def test_rules_of_ones_own_count_and_none_do_too() -> None:
    """A key that the user says is secret makes secret all that is sent under it; without rules all stays."""
    for rules in (RedactionRules(keys=("messages",)), RedactionRules(enabled=False)):
        both = Both(lambda rules=rules: Redactor(b"key", rules))
        messages: list[Any] = [*(message(number) for number in range(10)), SECRETS[0]]
        for _ in range(3):
            row = both.call({"messages": messages})
            messages.append(message(50))
        assert (b"message 3" in b"".join(row.messages.values())) is not rules.enabled


def test_a_window_that_slides_over_a_long_conversation_leaves_no_trail() -> None:
    """Messages that were not sent for long are forgotten."""
    redactor, sent = new_redactor(), SentMessages()
    for start in range(3 * SPARE):
        called(redactor, {"messages": [message(number) for number in range(start, start + 20)]}, sent)
    assert len(sent._known["messages"]) <= SPARE + 41


def test_a_long_conversation_reads_back_as_it_was_sent(tmp_path: Any) -> None:
    """In a run of the native loop, whose messages are frozen."""
    requests: list[Any] = []

    @ar.model
    def ask(messages: list[Any]) -> dict[str, Any]:
        requests.append(deepcopy(messages))
        return {"role": "assistant", "content": f"answer {len(messages)}"}

    @ar.agent("long", max_rounds=40)
    def step(round_index: int, context: ar.Context) -> Any:
        context.messages.append({"role": "user", "content": f"question {round_index}"})
        if round_index == 30:
            context.messages.replace([{"role": "system", "content": "in short"}], 0, 10)
        context.messages.append(ask([*context.messages]))
        return ar.Complete("done") if round_index == 40 else ar.NextStep(step="Actions", reasoning="more")

    store = ar.open_store(tmp_path / "store.db")
    step.run({}, store=store)

    recorded = [event.data.request["messages"] for event in store.events("run1") if event.kind == "model.called"]
    assert recorded == requests
    assert len(recorded[-1]) == 70
    assert store.verify("run1") == []
    assert ar.replay("run1", step, store=store).verdict == "identical"
