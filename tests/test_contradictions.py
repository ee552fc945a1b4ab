"""Edits of which only one can take effect are refused, all together, before anything runs or is written."""

from __future__ import annotations

from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.replay.edits import edits_of
from hypothesis import given
from hypothesis import strategies as st
from journal import Journal
from recorded import log_of


@ar.tool(safety="pure")
def inner(x: int) -> int:
    return x


@ar.tool(safety="pure")
def outer(x: int) -> int:
    return inner(x) + 1


@ar.model
def ask(messages: list[Any]) -> str:
    return "so"


@ar.agent("planner")
def planner(round_index: int, context: ar.Context) -> Any:
    ask([{"role": "user", "content": "?"}])
    outer(round_index)
    return ar.Complete("done") if round_index == 2 else ar.Continue()


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ({"tool_results": {"1.2": 1}, "skip": ["1.2"]}, "call 1.2 is given both a tool result and to be skipped"),
        (
            {"tool_results": {"1.2": 1}, "model_responses": {"1.2": 1}},
            "call 1.2 is given both a tool result and a model response",
        ),
        ({"model_responses": {"1.1": 1}, "skip": ["1.1"]}, "1.1 is given both a model response and to be skipped"),
        ({"skip": ["1.2", "1.2"]}, "call 1.2 is given to be skipped twice"),
        (
            {"tool_results": {"1.3": 1}, "skip": ["1.2"]},
            "call 1.3 is made inside of call 1.2, which is given an answer",
        ),
        ({"set": {"/a/b": 1, "/a": {}}}, "set /a/b has no effect, since set /a comes after it"),
        ({"set": {"a.b": 1, "/a/b": 2}}, "a value is given twice for one place, as 'a.b' and as '/a/b'"),
        ({"set": {"/a/b": 1, "": {}}}, "set /a/b has no effect, since set (payload) comes after it"),
        ({"set": {"/a": 1}, "patch": [{"op": "remove", "path": "/a"}]}, "since the remove of /a in the patch comes"),
        ({"set": {"/a/b": 1}, "patch": [{"op": "replace", "path": "/a", "value": 1}]}, "since the replace of /a in"),
        (
            {"set": {"/a": 1}, "patch": [{"op": "move", "from": "/a", "path": "/c"}]},
            "since the move of /a in the patch",
        ),
        ({"set": {"/a": 1}, "secrets": {"/a": "s"}}, "set /a has no effect, since the secret at /a comes after it"),
        ({"secrets": {"/a/b": "s", "/a": "t"}}, "the secret at /a/b has no effect, since the secret at /a comes after"),
        ({"tool_results": {"2.2": 1}}, "step 1 of run1 has no call 2.2; it has 1.1, 1.2, 1.3"),
        ({"model_responses": {"1.2": 1}}, "call 1.2 is a tool call (outer), not one of a model"),
        ({"tool_results": {"9.9": 1}, "set": {"/x": 1}}, "step 1 of run1 has no call 9.9"),
    ],
)
def test_edits_that_contradict_each_other_are_refused(edits: dict[str, Any], says: str) -> None:
    """Whichever way round they are given; the error names both, and the store is as it was."""
    store = Journal()
    planner.run({"a": {"b": 0}}, store=store)
    written = len(store.entries)
    with pytest.raises(UsageError) as caught:
        ar.rerun("run1", planner, 1, store=store, **edits)
    assert says in str(caught.value)
    assert len(store.entries) == written


@pytest.mark.parametrize(
    "edits",
    [
        {"set": {"/a": {}, "/a/b": 1}},
        {"set": {"/a/b": 1, "/ab": 2}},
        {"set": {"/a": {"c": 1}}, "patch": [{"op": "replace", "path": "/a/c", "value": 2}]},
        {"set": {"/x": 1}, "patch": [{"op": "copy", "from": "/x", "path": "/y"}]},
        {"tool_results": {"1.3": 5}},
        {"tool_results": {"1.2": 5}, "model_responses": {"1.1": "no"}},
    ],
)
def test_edits_that_complete_each_other_are_taken(edits: dict[str, Any]) -> None:
    """What a value is in comes first, then the value; neighbours and other calls have nothing to do with it."""
    store = MemoryStore()
    planner.run({"a": {"b": 0}}, store=store)
    run = ar.rerun("run1", planner, 1, store=store, **edits).run.id
    assert ar.replay(run, planner, store=store).verdict == "identical"


paths = st.lists(st.sampled_from("abc"), max_size=3).map(lambda keys: "".join(f"/{key}" for key in keys))


@given(st.lists(paths, unique=True, max_size=5))
def test_what_is_set_is_there_or_refused(places: list[str]) -> None:
    """Whatever places are set in whatever order: if that is taken, each of them holds what was set there at the end."""
    leaf: Any = {}
    for _ in range(4):
        leaf = {"a": leaf, "b": leaf, "c": leaf, "new": 1}
    given = dict.fromkeys(places, leaf)
    if any(b != a and a.startswith(f"{b}/") for n, a in enumerate(places) for b in places[n:]):
        with pytest.raises(UsageError, match="has no effect"):
            edits_of(set=given)
        return
    edited = edits_of(set=given).apply({one: {two: {"a": 0} for two in "abc"} for one in "abc"})
    for place in places:
        node = edited
        for key in place.split("/")[1:]:
            node = node[key]
        assert node["new"] == 1


# -- secrets -----------------------------------------------------------------------------------------------

SECRET = "hunter2-hunter2-xyz"
sent: list[str] = []


@ar.tool(safety="pure")
def send(x: str) -> int:
    sent.append(x)
    return len(x)


@ar.agent("sender")
def sender(round_index: int, context: ar.Context) -> Any:
    if round_index == 2:
        context.interrupt("sure", None)
    return ar.Complete(send(context.payload["copy"])) if round_index == 2 else ar.Continue()


def recorded_elsewhere(copy: str) -> MemoryStore:
    """A run that waits, with tokens for what another process knew to be a secret."""
    store = MemoryStore()
    digest = store.redactor.redact({"api_key": SECRET})
    assert type(digest) is dict
    token = digest["api_key"]
    sender.run({"api_key": token, "copy": copy.replace("TOKEN", str(token)), "plain": "x"}, store=store)
    store._redactor = None  # as in a process that has seen nothing
    return store


def test_a_secret_that_is_given_is_known_for_one() -> None:
    """It stands in the log nowhere, though the name under which it is given says nothing of it."""
    for copy in ("TOKEN", "key=TOKEN;"):
        store = recorded_elsewhere(copy)
        whole = copy.replace("TOKEN", SECRET)
        sent.clear()
        ar.resume("run1", sender, answers={"sure": True}, secrets={"copy": whole}, store=store)
        assert sent == [whole]
        (called,) = [event for event in log_of(store, "run1") if event.kind == "tool.called"]
        assert called.data.arguments["x"].startswith(copy.partition("TOKEN")[0] + "[redacted:api-key:")
        assert SECRET.encode() not in b"".join(row.body or b"" for row in store.rows("run1"))


@pytest.mark.parametrize(
    ("secrets", "says"),
    [
        ({"/plain": SECRET}, "there is no token at /plain, so a secret given for it would be recorded"),
        ({"/new": SECRET}, "there is no token at /new"),
        ({"": SECRET}, "there is no token at (payload)"),
        ({"/copy": "1234"}, "so short or common a text that it could not be kept out of the log"),
    ],
)
def test_a_secret_is_given_for_a_token_alone(secrets: dict[str, str], says: str) -> None:
    """What would be recorded, since nothing says that it is a secret, is refused; in a re-run as in a resumed run."""
    store = recorded_elsewhere("TOKEN")
    before = store.run("run1").head_seq
    for go_on in (
        lambda: ar.resume("run1", sender, answers={"sure": True}, secrets=secrets, store=store),
        lambda: ar.rerun("run1", sender, 2, secrets=secrets, store=store),
    ):
        with pytest.raises(UsageError) as caught:
            go_on()
        assert says in str(caught.value)
    assert ([info.id for info in store.runs()], store.run("run1").head_seq) == (["run1"], before)
