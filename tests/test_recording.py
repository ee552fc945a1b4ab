"""Recording a loop of one's own with `ar.record`."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from recorded import kinds, log_of, one, outline


@pytest.fixture
def store() -> EventStore:
    return MemoryStore()


def test_the_block_of_the_design(store: EventStore) -> None:
    """Rounds are marked, effects are called through the round, the payload is changed, a decision is made."""
    asked: list[Any] = []

    def call(messages: list[Any]) -> dict[str, Any]:
        asked.append(messages)
        return {"content": "search"}

    def search(q: str) -> list[str]:
        return [q]

    with ar.record("triage", payload={"ticket": 7}, store=store) as run:
        assert run.id == "run1"
        with run.round() as r:
            assert r.model("some-model", {"messages": [{"role": "user"}]}, call) == {"content": "search"}
            hits = r.tool("search", {"q": "refund"}, search, safety="pure")
            r.change(update={"hits": hits}, reason="found")
            r.decide(step="Actions", reasoning="one more look")
        run.complete({"done": True})
    assert outline(store) == [
        "round.started",
        "model.called 1.1 some-model",
        "model.returned 1.1",
        "tool.called 1.2 search",
        "tool.returned 1.2",
        "payload.changed",
        "step.decided",
        "round.finished continue",
    ]
    called = one(store, "model.called").data
    assert (called.model, called.request) == ("some-model", {"messages": [{"role": "user"}]})
    tool = one(store, "tool.called").data
    assert (tool.arguments, tool.safety) == ({"q": "refund"}, "pure")
    assert one(store, "step.decided").data.decision == {"step": "Actions", "reasoning": "one more look"}
    result = run.result
    assert result is not None
    assert (result.run.id, result.value, result.payload) == ("run1", {"done": True}, {"ticket": 7, "hits": ["refund"]})
    assert str(result) == '{"done":true}'
    assert (run.status, run.uid, asked) == ("completed", store.run("run1").uid, [[{"role": "user"}]])
    finished = one(store, "run.finished").data
    assert (finished.status, finished.stop_reason, finished.value) == ("completed", "endTurn", {"done": True})
    started = one(store, "run.started").data
    assert started.entry_point.endswith("test_recording.py:test_the_block_of_the_design")


def test_effects_outside_of_rounds_belong_to_the_round_before(store: EventStore) -> None:
    """Before the first round that is 0, between two it is the one just finished; the ids go on."""
    look = ar.tool(lambda: None)
    with ar.record("a", store=store) as run:
        look()
        with run.round():
            look()
        look()
        with run.round():
            look()
    called = [(event.round, event.data.call) for event in log_of(store) if event.kind == "tool.called"]
    assert called == [(0, "0.1"), (1, "1.1"), (1, "1.2"), (2, "2.1")]


def test_an_untouched_loop_has_a_round_for_each_model_call(store: EventStore) -> None:
    """rounds="model": what follows a model call is its round, and the payload is looked at when the next one begins."""
    state: dict[str, Any] = {"n": 0}

    @ar.model
    def ask(n: int) -> str:
        return "go on" if n < 2 else "stop"

    @ar.tool
    def work() -> None:
        state["n"] += 1

    @ar.tool
    def deep() -> str:
        return ask(5)

    with ar.record("loop", lambda: state, rounds="model", store=store) as run:
        work()
        while ask(state["n"]) != "stop":
            deep()
            work()
        assert run.result is None
    assert outline(store) == [
        "tool.called 0.1 work",
        "tool.returned 0.1",
        "round.started",
        "model.called 1.1 ask",
        "model.returned 1.1",
        "tool.called 1.2 deep",
        "model.called 1.3 ask",
        "model.returned 1.3",
        "tool.returned 1.2",
        "tool.called 1.4 work",
        "tool.returned 1.4",
        "payload.changed",
        "step.decided",
        "round.finished continue",
        "round.started",
        "model.called 2.1 ask",
        "model.returned 2.1",
        "step.decided",
        "round.finished continue",
    ]
    assert [ar.state_at("run1", step, store=store).payload for step in (0, 1, 2)] == [{"n": 0}, {"n": 2}, {"n": 2}]
    with ar.record("loop", rounds="model", store=store) as run:
        ask(5)
        with pytest.raises(ar.UsageError, match="not over"), run.round():
            pass
    with pytest.raises(ar.UsageError, match="marked"):
        ar.record("loop", rounds="all", store=store)  # type: ignore[arg-type]  # the point


def test_a_watched_payload_is_followed(store: EventStore) -> None:
    """A function that gives the state is asked at the start and after each round; only differences are recorded."""
    state: dict[str, Any] = {"items": [], "when": (1,)}
    with ar.record("a", lambda: state, store=store) as run:
        for n in range(4):
            with run.round():
                if n != 2:
                    state["items"].append(n)
        state["late"] = True
    changes = [event.data.request for event in log_of(store) if event.kind == "payload.changed"]
    assert changes == [[{"op": "add", "path": f"/items/{at}", "value": n}] for at, n in enumerate((0, 1, 3))]
    payloads = [ar.state_at("run1", step, store=store).payload for step in range(5)]
    assert [payload["items"] for payload in payloads] == [[], [0], [0, 1], [0, 1], [0, 1, 3]]
    assert payloads[4]["when"] == (1,)
    assert run.payload == payloads[4]


def test_a_payload_function_that_fails_is_noted_and_changes_nothing(
    store: EventStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The loop goes on as it would without being recorded; its own errors are raised as they are."""
    looks = iter([{"n": 0}])

    def watch() -> Any:
        for found in looks:
            return found
        raise LookupError("gone")

    with ar.record("a", watch, store=store) as run, run.round():
        pass
    assert one(store, "report").data.message == "the payload could not be looked at: gone"
    assert "gone" in caplog.text
    assert one(store, "run.finished").data.status == "completed"
    looks = iter([{"n": 0}])
    with pytest.raises(ValueError, match="own"), ar.record("a", watch, store=store) as run, run.round():
        raise ValueError("own")
    assert one(store, "run.finished").data.error.message == "own"


def test_a_payload_function_has_the_last_word(store: EventStore) -> None:
    """A change that the function would take back at the end of the round is refused; a decision's is left to it."""
    state = {"n": 0}
    with ar.record("a", lambda: state, store=store) as run, run.round() as r:
        with pytest.raises(ar.UsageError, match="payload function"):
            r.change(new={"b": 2})
        r.decide(step="Actions", payload_change_request={"newElements": {"b": 2}})
        state["n"] = 1
    assert ar.state_at("run1", 1, store).payload == {"n": 1}


def test_a_payload_that_cannot_be_recorded_is_told_of_once(store: EventStore, caplog: pytest.LogCaptureFixture) -> None:
    """An object that is no data is not passed over in silence."""

    class State:
        n = 0

    state = State()
    with ar.record("a", lambda: state, store=store) as run:
        for _ in range(3):
            with run.round():
                state.n += 1
    assert "cannot be recorded" in one(store, "report").data.message
    assert caplog.text.count("cannot be recorded") == 1


def test_a_question_that_the_block_swallows_still_waits(store: EventStore) -> None:
    """A run with an unanswered question is interrupted, whatever caught the interrupt on its way."""
    with ar.record("a", store=store) as run, run.round() as r, pytest.raises(BaseException, match="approve"):
        r.interrupt("approve")
    assert store.run("run1").status == "interrupted"
    assert run.result is not None
    assert run.result.stop_reason == "interrupt"


def test_rounds_do_not_nest(store: EventStore) -> None:
    """A round in a round is refused, and the outer one goes on."""
    with ar.record("a", store=store) as run, run.round():
        with pytest.raises(ar.UsageError, match="round 1 is not over"), run.round():
            pass
        run.report("still in round 1")
    assert one(store, "report").round == 1
    assert store.run("run1").steps == 1


def test_an_exception_is_recorded_and_goes_on_its_way(store: EventStore) -> None:
    """Round and run have failed; nothing is swallowed; the result knows the error."""
    error = ValueError("broken")
    with pytest.raises(ValueError) as caught, ar.record("a", store=store) as run, run.round():
        raise error
    assert caught.value is error
    assert outline(store) == ["round.started", "step.decided", "round.finished failed"]
    assert run.result is not None
    assert (run.status, run.result.stop_reason, run.result.error) == ("failed", "error", error)
    assert one(store, "run.finished").data.result["stopReason"] == "error"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()])
def test_a_cancelled_block_is_recorded_as_cancelled(store: EventStore, error: BaseException) -> None:
    """The exception is raised as it is."""
    with pytest.raises(type(error)) as caught, ar.record("a", store=store) as run, run.round():
        raise error
    assert caught.value is error
    assert (run.status, one(store, "round.finished").data.outcome) == ("cancelled", "cancelled")


def test_a_question_or_a_signal_ends_the_block_quietly(store: EventStore) -> None:
    """What only says how the run ends is dealt with."""
    with ar.record("a", store=store) as run, run.round():
        run.interrupt("approve")
    assert run.result is not None
    assert (run.result.stop_reason, run.status, kinds(store)[-1]) == ("interrupt", "interrupted", "run.suspended")
    signal = ar.Signal()
    signal.abort("enough")
    with ar.record("b", signal=signal, store=store) as run:
        run.signal.throw_if_aborted()
    assert run.result is not None
    assert (run.result.stop_reason, str(run.result.error)) == ("cancelled", "the run was cancelled: enough")


def test_a_last_decision_that_failed_fails_the_run(store: EventStore) -> None:
    """Without an exception the last decision says how the run ended."""
    with ar.record("a", store=store) as run, run.round():
        run.decide(step="Failed", error_message="cannot")
    assert (run.status, one(store, "run.finished").data.stop_reason) == ("failed", "failed")


async def test_an_async_block_awaits_its_effects(store: EventStore) -> None:
    """`async with`, `atool` and `amodel`; plain functions may be given too."""

    async def search(q: str) -> list[str]:
        await asyncio.sleep(0)
        return [q]

    async with ar.record("a", {"n": 0}, store=store) as run:
        with run.round() as r:
            assert await r.atool("search", {"q": "x"}, search, safety="idempotent") == ["x"]
            assert await r.atool("plain", {"q": "x"}, lambda q: q.upper()) == "X"
            assert await r.amodel("m", {"q": "y"}, search) == ["y"]
            with pytest.raises(TypeError):
                await r.atool("search", {"wrong": 1}, search)
    assert outline(store) == [
        "round.started",
        "tool.called 1.1 search",
        "tool.returned 1.1",
        "tool.called 1.2 plain",
        "tool.returned 1.2",
        "model.called 1.3 m",
        "model.returned 1.3",
        "tool.called 1.4 search",
        "tool.failed 1.4",
        "step.decided",
        "round.finished continue",
    ]
    with ar.record("plain block on a loop", store=store) as run:
        assert await run.atool("search", {"q": "x"}, search) == ["x"]
    assert run.status == "completed"


def test_a_safety_that_is_no_word_is_refused(store: EventStore) -> None:
    """Before the tool is called."""
    with ar.record("a", store=store) as run, pytest.raises(ar.UsageError, match="pure, idempotent"):
        run.tool("t", {}, lambda: 1 / 0, safety="harmless")
    assert kinds(store) == ["run.started", "run.finished"]


def test_a_block_is_entered_once(store: EventStore) -> None:
    """Each run has a block of its own; one that is never entered records nothing."""
    never = ar.record("never", store=store)
    assert store.runs() == []
    block = ar.record("a", store=store)
    with block:
        pass
    with pytest.raises(ar.UsageError, match="entered before"), block:
        pass
    with pytest.raises(ar.UsageError, match="before it was entered"):
        never.__exit__(None, None, None)
    assert len(store.runs()) == 1


def test_a_block_within_a_run_is_a_child_run(store: EventStore) -> None:
    """The parent records that it started and finished, in which call and how; the child knows its parent."""

    @ar.tool
    def delegate(fail: bool) -> str:
        with ar.record("inner", {"x": 1}) as inner, inner.round():
            if fail:
                raise ValueError("inside")
        return inner.id

    with ar.record("outer", store=store) as run, run.round():
        assert delegate(False) == "run2"
        with pytest.raises(ValueError, match="inside"):
            delegate(True)
        with ar.record("elsewhere", store=MemoryStore()):
            pass
    uid = store.run("run1").uid
    assert outline(store, "run1") == [
        "round.started",
        "tool.called 1.1 delegate",
        "subrun.started 1.1",
        "subrun.finished",
        "tool.returned 1.1",
        "tool.called 1.2 delegate",
        "subrun.started 1.2",
        "subrun.finished",
        "tool.failed 1.2",
        "step.decided",
        "round.finished continue",
    ]
    ended = [event.data for event in log_of(store, "run1") if event.kind == "subrun.finished"]
    assert [(data.run, data.status) for data in ended] == [
        (store.run("run2").uid, "completed"),
        (store.run("run3").uid, "failed"),
    ]
    assert ended[0].result["stopReason"] == "endTurn"
    assert ended[1].error.type == "builtins.ValueError"
    assert one(store, "run.started", "run2").data.parent == {"run": uid, "call": "1.1"}
    assert [store.run(name).parent for name in ("run1", "run2", "run3")] == [None, uid, uid]


def test_options_reach_the_log(store: EventStore) -> None:
    """Applier and permissions of a block hold for its changes."""
    with ar.record("a", {"a": 1}, applier="merge-patch", allowed_paths=["a"], store=store) as run:
        run.change({"b": 2})
        run.change({"a": 2})
    started = one(store, "run.started").data
    assert started.applier == {"name": "merge-patch", "version": 1}
    assert started.permissions == {"allowed_paths": ["a"]}
    assert run.payload == ar.state_at("run1", store=store).payload == {"a": 2}


def test_the_store_is_found_from_here(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a store the nearest one, or a new one, is used; runs are numbered on."""
    monkeypatch.chdir(tmp_path)
    for n in itertools.count(1):
        with ar.record("a") as run:
            assert run.id == f"run{n}"
        if n == 2:
            break
    assert (tmp_path / ".agentreplay" / "store.db").is_file()
    assert [info.id for info in ar.open_store().runs()] == ["run1", "run2"]
    ar.open_store().close()
