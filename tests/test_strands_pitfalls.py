"""What is easily got wrong about Strands, each of it a law: see what the SDK does, and what the record says of it."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.errors import Divergence, LiveCallRefused, UsageError
from agentreplay.recorder.integrations.strands_answers import AnswerSoFar
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from strands import Agent, tool
from strands.event_loop._retry import ModelRetryStrategy
from strands.hooks import BeforeModelCallEvent, BeforeToolCallEvent
from strands.middleware import ExecuteToolStage
from strands.multiagent import GraphBuilder
from strands.session.file_session_manager import FileSessionManager
from strands.tools.decorator import DecoratedFunctionTool
from strands.types.exceptions import EventLoopException, ModelThrottledException
from strands_scripted import PIXEL, SCENARIOS, Order, Scripted, Unstorable, Use, World, come_to, respond

SCENARIO = {scenario.name: scenario for scenario in SCENARIOS}


@pytest.fixture
def store() -> Iterator[EventStore]:
    store = ar.open_store("memory:")
    yield store
    store.close()


def world(store: EventStore, *, live: bool = True, script: Any = None, **options: Any) -> World:
    return World(lambda: [ar.strands.Recorder(store=store, **options)], live=live, script=script)


def played(name: str, store: EventStore) -> tuple[Any, World, Any]:
    """A scenario, recorded: its run, its world and what it came to."""
    made = world(store)
    _, result = come_to(SCENARIO[name], SCENARIO[name].make(made))
    return store.runs()[0], made, result


def events(store: EventStore, run: Any, *kinds: str) -> list[Any]:
    return [event for event in store.events(run) if not kinds or event.kind in kinds]


# -- 1: tools beside each other ----------------------------------------------------------------------------


def test_a_write_to_the_state_is_blamed_on_the_tool_that_wrote_it(store: EventStore) -> None:
    """Three tools write at a time and end in another order than they were called in; each write has its own cause."""
    run, _, _ = played("reverse", store)
    called = {event.data.call: event.data for event in events(store, run, "tool.called")}
    writes = [
        (called[event.data.source["call"]].arguments["mine"], event.data.request[0]["path"])
        for event in events(store, run, "payload.changed")
    ]
    assert writes == [("s2", "/s2"), ("s3", "/s3"), ("s1", "/s1")]
    assert [called[event.data.call].index for event in events(store, run, "tool.returned")] == [1, 2, 0]
    assert ar.blame(run, "/s3", store=store)[0].cause.call == events(store, run, "tool.called")[2].data.call


def test_results_stand_in_the_order_of_the_requests(store: EventStore) -> None:
    """The message of the results follows the model's message, whichever tool was first."""
    _, made, _ = played("reverse", store)
    ids = [block["toolResult"]["toolUseId"] for block in made.agents[0].messages[2]["content"]]
    assert ids == ["t1", "t2", "t3"]


# -- 2: ids are no keys ------------------------------------------------------------------------------------


def test_calls_of_the_same_id_are_told_apart_by_their_place(store: EventStore) -> None:
    """Two uses with one id in one message are two calls, of place 0 and 1."""
    run, _, _ = played("duplicate ids", store)
    calls = [(one.data.tool_call, one.data.index, one.data.attempt) for one in events(store, run, "tool.called")]
    assert calls == [("same", 0, 1), ("same", 1, 1)]


def test_a_retried_tool_is_the_same_place_and_another_attempt(store: EventStore) -> None:
    """A hook that has a tool tried again makes a second attempt, with the first one's error in the record."""
    run, _, _ = played("tool retried by a hook", store)
    calls = [(one.data.index, one.data.attempt) for one in events(store, run, "tool.called")]
    assert calls == [(0, 1), (0, 2)]
    (failed,) = events(store, run, "tool.failed")
    assert failed.data.error.type == "builtins.ConnectionError"
    assert failed.data.error.message == "not yet"


def test_a_direct_call_between_two_invocations_is_in_the_conversation_of_the_next(store: EventStore) -> None:
    """`agent.tool.divide(…)` belongs to no run; the run after it begins with the messages that it has left."""
    made = world(store)
    agent = made.agent(["one"], ["two"], tools=made.tools("divide"))
    agent("first")
    agent.tool.divide(a=1, b=2)
    agent("second")
    _, second = store.runs()
    assert len(ar.state_at(second, 0, store=store).messages) == 2 + 4 + 1
    dead = world(store, live=False)
    assert ar.replay(second, lambda: dead.agent(tools=dead.tools("divide")), store=store).verdict == "identical"
    assert dead.agents[0].messages == agent.messages


# -- 3: retries of the model -------------------------------------------------------------------------------


def test_a_throttled_call_is_decided_as_a_retry(store: EventStore) -> None:
    """Whether the SDK tries again is known after its own hook; the attempts are counted."""
    run, _, _ = played("throttled", store)
    assert [one.data.attempt for one in events(store, run, "model.called")] == [1, 2, 3]
    assert [one.data.decision["step"] for one in events(store, run, "step.decided")] == ["Retry", "Retry", "Success"]
    assert [one.data.error.type for one in events(store, run, "model.failed")] == [
        "strands.types.exceptions.ModelThrottledException"
    ] * 2


def test_a_pause_before_a_retry_is_a_timer_of_the_run(store: EventStore) -> None:
    """The SDK sleeps before it tries again: that fires by the log in a replay."""

    def make(made: World) -> Agent:
        strategy = ModelRetryStrategy(max_attempts=3, initial_delay=0.02, max_delay=1)  # type: ignore[arg-type]
        return made.agent(ModelThrottledException("slow"), ["done"], retry_strategy=strategy)

    make(world(store))("go")
    run = store.runs()[0]
    assert len(events(store, run, "timer.fired")) == 1
    assert ar.replay(run, lambda: make(world(store, live=False)), store=store).verdict == "identical"


# -- 4 and 5: what is different each time ---------------------------------------------------------------------


def test_a_request_has_neither_ids_nor_metadata(store: EventStore) -> None:
    """The provider gets role and content; the conversation keeps the rest."""
    run, made, _ = played("tool raises", store)
    last = events(store, run, "model.called")[-1]
    assert [set(message) for message in last.data.request["messages"]] == [{"role", "content"}] * 3
    assert all("tracking_id" in message for message in made.agents[0].messages)


def test_ids_and_latencies_are_pinned(store: EventStore) -> None:
    """What the SDK draws and measures for a message is read once, and the same in a replay to the last byte."""
    run, made, _ = played("streaming", store)
    pinned = [one.data.value for one in events(store, run, "value.read")]
    assert [one["tracking_id"] for one in pinned] == [one["tracking_id"] for one in made.agents[0].messages]
    assert pinned[1]["metrics"] == made.agents[0].messages[1]["metadata"]["metrics"]


def test_a_streamed_answer_is_told_as_a_whole_too(store: EventStore) -> None:
    """Beside the raw events stands the message, as the SDK has put it together, with usage and stop reason."""
    run, made, _ = played("tool raises", store)
    returned = [one.data for one in events(store, run, "model.returned")]
    said = [message for message in made.agents[0].messages if message["role"] == "assistant"]
    assert [one.response for one in returned] == [
        {"role": "assistant", "content": message["content"]} for message in said
    ]
    assert [one.stop_reason for one in returned] == ["tool_use", "end_turn"]
    assert [one.usage for one in returned] == [{"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}] * 2


def test_a_stream_of_another_form_is_no_message() -> None:
    """Whatever a provider sends, putting it together raises nothing."""
    answer = AnswerSoFar()
    for event in (
        {"contentBlockDelta": {"delta": {"reasoningContent": {"text": "hm", "signature": "s"}}}},
        {"contentBlockDelta": {"delta": {"reasoningContent": {"text": "m"}}}},
        {"contentBlockStop": {}},
        {"contentBlockStart": {"start": {"toolUse": {"name": "x", "toolUseId": "1"}}}},
        {"contentBlockDelta": {"delta": {"toolUse": {"input": "{no"}}}},
        {"contentBlockStop": {}},
        *({"contentBlockDelta": None}, {"contentBlockStart": {"start": {"toolUse": {}}}}, None, 7, "text", {}),
    ):
        answer.add(event)
    assert answer.message == {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "hmm", "signature": "s"}}},
            {"toolUse": {"toolUseId": "1", "name": "x", "input": "{no"}},
        ],
    }
    assert AnswerSoFar().message is None


# -- 6: questions to a person ----------------------------------------------------------------------------------


def ask(made: World) -> Agent:
    return SCENARIO["asks before a tool"].make(made)


def test_an_invocation_that_asks_leaves_an_interrupted_run(store: EventStore) -> None:
    """The run waits, with the question; the tool beside it has returned, and the conversation has no results yet."""
    made = world(store)
    result = ask(made)("go")
    run = store.runs()[0]
    assert result.stop_reason == "interrupt"
    assert run.status == "interrupted"
    state = ar.state_at(run, store=store)
    assert [(one.name, one.reason) for one in state.open_interrupts.values()] == [("sure", "it is kept")]
    assert [one.data.name for one in events(store, run, "tool.called")] == ["divide"]
    assert len(events(store, run, "tool.returned")) == 1
    assert [message["role"] for message in state.messages] == ["user", "assistant"]


def test_the_responses_go_on_with_the_same_run(store: EventStore) -> None:
    """The next invocation with the responses appends to the run that asked; no model is called for that."""
    run, made, _ = played("asks before a tool", store)
    assert len(store.runs()) == 1
    kinds = [one.kind for one in store.events(run)]
    assert kinds.count("run.suspended") == kinds.count("run.resumed") == kinds.count("interrupt.raised") == 1
    assert made.calls == ["model", "divide", "remember", "model"]
    resumed = events(store, run, "run.resumed")[0]
    assert list(resumed.data.answers.values()) == ["yes"]
    assert [(one.data.interrupt, one.data.response) for one in events(store, run, "interrupt.answered")] == [
        ("1.sure.1", "yes")
    ]


def test_an_interrupted_run_is_resumed_by_an_agent_that_is_made_anew(store: EventStore) -> None:
    """Whoever has the answer resumes the run elsewhere: what was done is answered from the log, the rest is live."""
    ask(world(store))("go")
    run = store.runs()[0]
    other = world(store, script=[["done"]])
    result = ar.resume(run, lambda: ask(other), answers={"sure": "yes"}, store=store)
    assert (result.stop_reason, result.run.id) == ("end_turn", run.id)
    assert other.calls == ["remember", "model"]
    assert other.agents[0].state.get() == {"k": "v"}
    dead = world(store, live=False)
    assert ar.replay(run, lambda: ask(dead), store=store).verdict == "identical"
    assert dead.agents[0].messages == other.agents[0].messages


def test_a_question_of_a_tool_is_resumed_by_calling_the_tool_again(store: EventStore) -> None:
    """The SDK calls a tool that has asked from its beginning; the first attempt is in the record, and answered."""

    def make(made: World) -> Agent:
        return SCENARIO["asks in a tool"].make(made)

    make(world(store))("go")
    run = store.runs()[0]
    other = world(store, script=[["done"]])
    ar.resume(run, lambda: make(other), answers={"approval": "fine"}, store=store)
    assert other.calls == ["approve", "model"]
    assert [one.data.attempt for one in events(store, run, "tool.called")] == [1, 2]
    assert other.agents[0].messages[2]["content"][0]["toolResult"]["content"] == [{"text": "this: fine"}]


def test_code_that_answers_by_itself_is_resumed_to_its_end(store: EventStore) -> None:
    """Resumed with one answer, it asks again and has its own answer to that: all of it is the one run."""

    def make(made: World) -> Agent:
        return SCENARIO["asks twice"].make(made)

    make(world(store))("go")
    run = store.runs()[0]
    script = [[Use("approve", {"what": "that"}, "t2")], ["done"]]
    other = world(store, script=script)
    ar.resume(run.id, lambda: respond(make(other)), answers={"approval": "yes"}, store=store)
    assert store.run(run.id).status == "completed"
    assert len(store.runs()) == 1
    assert other.calls == ["approve", "model", "approve", "approve", "model"]
    dead = world(store, live=False)
    assert ar.replay(run.id, lambda: make(dead), store=store).verdict == "identical"
    assert dead.agents[0].messages == other.agents[0].messages


# -- 7: structured output --------------------------------------------------------------------------------------


def test_the_result_is_kept_with_what_the_sdk_leaves_out(store: EventStore) -> None:
    """Structured output, metrics and traces are in the record of a result; `to_dict` has none of them."""
    run, _, result = played("structured output", store)
    (finished,) = events(store, run, "run.finished")
    kept = finished.data.result
    assert set(result.to_dict()) == {"type", "message", "stop_reason", "checkpoint"}
    assert kept["structuredOutput"]["fields"] == {"item": "apple", "count": 2}
    assert kept["metrics"]["cycleCount"] == 3
    assert kept["metrics"]["accumulatedUsage"]["totalTokens"] == 45
    assert kept["metrics"]["toolMetrics"]["Order"]["errorCount"] == 1
    assert [trace["name"] for trace in kept["traces"]] == ["Cycle 1", "Cycle 2", "Cycle 3"]


def test_the_steps_to_structured_output_are_decisions(store: EventStore) -> None:
    """A text is no structured output, so the loop goes on; what the model gave wrong is in the record."""
    run, _, result = played("structured output", store)
    assert [one.data.decision["step"] for one in events(store, run, "step.decided")] == ["Retry", "Actions", "Actions"]
    assert [one.data.arguments for one in events(store, run, "tool.called")] == [
        {"item": "apple", "count": 0},
        {"item": "apple", "count": 2},
    ]
    assert result.structured_output == Order(item="apple", count=2)


def test_interrupts_are_in_the_result(store: EventStore) -> None:
    """What the SDK's own JSON loses: the questions with which the run waits."""
    made = world(store)
    result = ask(made)("go")
    assert "interrupts" not in result.to_dict()
    run = store.runs()[0]
    assert [one.data.reason for one in events(store, run, "interrupt.raised")] == ["it is kept"]
    (suspended,) = events(store, run, "run.suspended")
    assert suspended.data.result["interrupts"][0]["name"] == "sure"
    assert suspended.data.result["metrics"]["cycleCount"] == 1


# -- 8: malformed input ------------------------------------------------------------------------------------------


def test_input_that_is_no_json_is_kept_as_text(store: EventStore) -> None:
    """The SDK goes on with an empty input; what the model wrote is told with the call."""
    run, made, _ = played("malformed input", store)
    (called,) = events(store, run, "tool.called")
    assert called.data.arguments == {}
    assert called.data.raw == '{"a": 1, "b"'
    assert made.agents[0].messages[1]["content"][0]["toolUse"]["input"] == {}


# -- 9 and 12: errors ----------------------------------------------------------------------------------------------


def test_the_caller_gets_the_errors_of_the_sdk(store: EventStore) -> None:
    """In call 0 it is the error itself, later the SDK's own around it; the call's record has the error in both."""
    for name, cls in (("model raises in call 0", TimeoutError), ("model raises in call 1", EventLoopException)):
        run, _, error = played(name, store)
        assert type(error) is cls
        (failed,) = events(store, run, "model.failed")
        assert failed.data.error.type == "builtins.TimeoutError"
        assert run.status == "failed"


def test_an_error_that_cannot_be_stored_is_stood_in_for(store: EventStore) -> None:
    """Its text is the same in a replay, and so is all that the SDK makes of it."""
    run, _, error = played("model raises what cannot be stored", store)
    assert type(error.original_exception) is Unstorable
    raised = []

    def app() -> None:
        try:
            SCENARIO["model raises what cannot be stored"].make(world(store, live=False))("go")
        except EventLoopException as again:
            raised.append(again)
            raise

    assert ar.replay(run, app, store=store).verdict == "identical"
    assert str(raised[0]) == "gone"
    assert isinstance(raised[0].original_exception, ar.RecordedError)


def test_a_replay_that_parts_surfaces_as_a_divergence(store: EventStore) -> None:
    """What stops the code is none of the errors that the SDK wraps."""
    run, _, _ = played("tool raises", store)

    def make(made: World) -> Agent:
        return made.agent(system_prompt="be brief", tools=made.tools("divide"))

    with pytest.raises(Divergence) as parted:
        ar.replay(run, lambda: make(world(store, live=False)), store=store)
    assert parted.value.difference.step == 1


# -- 10: unknown tools, bytes, live objects ---------------------------------------------------------------------------


def test_a_tool_that_there_is_not_is_a_failed_call(store: EventStore) -> None:
    """The model asked for it, so it is in the record; it failed."""
    run, _, _ = played("unknown tool", store)
    (called,) = events(store, run, "tool.called")
    (failed,) = events(store, run, "tool.failed")
    assert (called.data.name, called.data.arguments) == ("nope", {"x": 1})
    assert failed.data.error.message == "Unknown tool: nope"


def test_bytes_come_back_as_bytes(store: EventStore) -> None:
    """An image in a message is stored exactly."""
    run, _, _ = played("image", store)
    state = ar.state_at(run, store=store)
    assert state.messages[0]["content"][1]["image"]["source"]["bytes"] == PIXEL


def test_what_is_alive_in_an_invocation_is_not_recorded(store: EventStore) -> None:
    """What a caller hands through is kept as far as it is data; of a lock there is the class, and of spans nothing."""
    made = world(store)
    agent = made.agent([Use("divide", {"a": 1, "b": 2})], ["done"], tools=made.tools("divide"))
    agent("go", invocation_state={"tenant": 7, "lock": threading.Lock()})
    run = store.runs()[0]
    (started,) = events(store, run, "run.started")
    assert started.data.params == {
        "invocation_state": {"tenant": 7},
        "invocation_state_left_out": {"lock": "_thread.lock"},
    }
    text = json.dumps([one.data.model_dump(mode="json") for one in store.events(run)])
    assert "event_loop_cycle_span" not in text
    assert '"opaque"' not in text


# -- 11: limits -----------------------------------------------------------------------------------------------------


def test_an_invocation_after_a_limit_goes_on_and_is_a_run_of_its_own(store: EventStore) -> None:
    """`agent(None)` goes on from the conversation, which the next run begins with and can be begun again with."""
    made = world(store)
    agent = made.agent([Use("divide", {"a": 1, "b": 2})], ["done"], tools=made.tools("divide"))
    assert agent("go", limits={"turns": 1}).stop_reason == "limit_turns"
    assert agent(None).stop_reason == "end_turn"
    first, second = store.runs()
    assert ar.state_at(first, store=store).stop_reason == "limit_turns"
    assert [one.data.why for one in events(store, second, "messages.replaced")] == ["the conversation so far"]
    dead = world(store, live=False)
    assert ar.replay(second, lambda: dead.agent(tools=dead.tools("divide")), store=store).verdict == "identical"
    assert dead.agents[0].messages == agent.messages


# -- what reaches the caller ------------------------------------------------------------------------------------------


def streamed(agent: Agent, prompt: Any = "go") -> list[Any]:
    """The events of an invocation, without what is different each time; then the error that ended it."""
    found: list[Any] = []

    async def collect() -> None:
        async for event in agent.stream_async(prompt):
            found.append(told(event))

    try:
        asyncio.run(collect())
    except Exception as error:
        found.append(str(error))
    return found


def told(event: Any) -> Any:
    kept = {key: event[key] for key in ("event", "data", "delta", "current_tool_use", "type") if key in event}
    if "message" in event:
        kept["message"] = {"role": event["message"]["role"], "content": event["message"]["content"]}
    if "result" in event:
        kept["result"] = (event["result"].stop_reason, event["result"].message["content"])
    if "tool_stream_event" in event:
        data = event["tool_stream_event"]["data"]
        kept["streamed"] = told(data) if isinstance(data, dict) else data
    return sorted(event), kept


@pytest.mark.parametrize(
    "name", [name for name, one in SCENARIO.items() if one.stop not in ("completed", "limit_turns")]
)
def test_the_events_of_a_stream_are_those_without_the_recorder(name: str, store: EventStore) -> None:
    """Whoever iterates over an invocation gets the same events while it is recorded, and in a replay."""
    plain = streamed(SCENARIO[name].make(World()))
    assert streamed(SCENARIO[name].make(world(store))) == plain
    again = []
    ar.replay(
        store.runs()[0],
        lambda: again.append(streamed(SCENARIO[name].make(world(store, live=False)))),
        store=store,
    )
    assert again == [plain]


def test_metrics_of_tools_are_those_of_the_sdk_in_a_replay(store: EventStore) -> None:
    """The tools are answered inside the SDK's own middleware, so what it counts is counted."""
    run, made, _ = played("tool raises", store)
    dead = world(store, live=False)
    ar.replay(run, lambda: SCENARIO["tool raises"].make(dead), store=store)
    for one in (made, dead):
        metrics = one.agents[0].event_loop_metrics
        assert (metrics.tool_metrics["divide"].call_count, metrics.tool_metrics["divide"].error_count) == (1, 1)
        assert metrics.accumulated_usage["totalTokens"] == 30


def test_what_a_caller_does_between_two_events_is_no_part_of_the_run(store: EventStore) -> None:
    """A tool that is called by whoever reads the stream is not recorded in the run whose stream it is."""
    calls = []

    @ar.tool(safety="pure")
    def log(text: str) -> None:
        calls.append(text)

    async def read() -> None:
        async for event in world(store).agent(["one two"]).stream_async("go"):
            if "data" in event:
                log(event["data"])

    asyncio.run(read())
    assert calls == ["one ", "two "]
    assert events(store, store.runs()[0], "tool.called") == []


def test_a_caller_who_leaves_ends_the_run_as_cancelled(store: EventStore) -> None:
    """Somebody who breaks off the iteration has cancelled the invocation; the agent can be used again."""
    made = world(store)
    agent = made.agent(["one two three"], ["again"])

    async def leave() -> None:
        events = agent.stream_async("go")
        async for event in events:
            if "data" in event:
                break
        await events.aclose()

    asyncio.run(leave())
    assert store.runs()[0].status == "cancelled"
    assert agent("more").stop_reason == "end_turn"


# -- edits ---------------------------------------------------------------------------------------------------------


def fork(store: EventStore, run: Any, step: int, name: str, **edits: Any) -> World:
    other = world(store, script=[["another end"]])
    ar.rerun(run, lambda: SCENARIO[name].make(other), step, store=store, **edits)
    return other


def test_the_result_of_a_tool_can_be_edited(store: EventStore) -> None:
    """A text, JSON, or content in the SDK's own form goes into the conversation in the place of the tool's work."""
    run, _, _ = played("one tool after the other", store)
    answer = {
        "role": "assistant",
        "content": [{"toolUse": {"name": "remember", "toolUseId": "t1", "input": {"key": "a", "value": "1"}}}],
    }
    for given, content in (
        ("edited", [{"text": "edited"}]),
        ({"n": 1}, [{"json": {"n": 1}}]),
        ({"status": "error", "content": [{"text": "no"}]}, [{"text": "no"}]),
    ):
        other = fork(
            store, run, 1, "one tool after the other", model_responses={"1.1": answer}, tool_results={"1.2": given}
        )
        assert other.agents[0].messages[2]["content"][0]["toolResult"]["content"] == content
        assert other.calls == ["model"]


def test_the_response_of_a_model_can_be_edited(store: EventStore) -> None:
    """A text or a message in the place of what the model said; the loop goes on from it."""
    run, _, _ = played("one tool after the other", store)
    other = fork(store, run, 2, "one tool after the other", model_responses={"2.1": "enough"})
    assert other.agents[0].messages[-1]["content"] == [{"text": "enough"}]
    assert other.calls == []


def test_the_state_can_be_edited(store: EventStore) -> None:
    """An edit of the payload is in the agent's state when the step begins."""
    run, _, _ = played("one tool after the other", store)
    other = fork(store, run, 2, "one tool after the other", set={"/a": "edited", "/new": [1]})
    assert other.states[-1] == {"start": 1, "a": "edited", "new": [1]}


def test_messages_can_be_added(store: EventStore) -> None:
    """An added message is in the agent's conversation, and in what the model is asked."""
    run, _, _ = played("one tool after the other", store)
    hurry = {"role": "user", "content": [{"text": "hurry"}]}
    other = fork(store, run, 3, "one tool after the other", messages=[hurry])
    assert other.agents[0].model.asked[0][-1] == hurry  # type: ignore[attr-defined]  # of the scripted model
    assert other.agents[0].messages[-2]["content"] == [{"text": "hurry"}]


def test_a_folded_prefix_is_the_agents_state_and_conversation(store: EventStore) -> None:
    """With the rounds before taken from the log, the agent begins with what they had come to, and is not asked anew."""
    run, made, _ = played("one tool after the other", store)
    other = fork(store, run, 3, "one tool after the other", prefix="fold")
    assert other.agents[0].state.get() == made.agents[0].state.get()
    assert len(other.agents[0].messages) == len(made.agents[0].messages)
    assert other.calls == ["model"]


def test_a_live_tool_obeys_its_safety(store: EventStore) -> None:
    """A re-run calls no tool that may do harm, unless it is allowed, or declared to do none."""
    run, _, _ = played("one tool after the other", store)
    script = [[Use("remember", {"key": "a", "value": "9"}, "t9")], ["done"]]
    with pytest.raises(LiveCallRefused):
        ar.rerun(run, lambda: SCENARIO["one tool after the other"].make(world(store, script=script)), 2, store=store)
    safe = world(store, script=script, safety={"remember": "idempotent"})
    ar.rerun(run, lambda: SCENARIO["one tool after the other"].make(safe), 2, store=store)
    assert safe.agents[0].state.get()["a"] == "9"


# -- the rest ------------------------------------------------------------------------------------------------------


def test_secrets_are_redacted(store: EventStore) -> None:
    """A key in the state, in arguments or in a message is a token in the log; the agent has it."""
    key = "sk-ant-api03-" + "a1B2" * 20
    made = world(store)
    agent = made.agent(
        [Use("remember", {"key": "note", "value": f"use {key}"})],
        ["kept"],
        tools=made.tools("remember"),
        state={"api_key": key},
    )
    agent(f"keep {key}")
    assert agent.state.get() == {"api_key": key, "note": f"use {key}"}
    text = "".join(str(row.body) for row in store.rows(store.runs()[0])) + repr(list(store.events(store.runs()[0])))
    assert "a1B2a1B2" not in text
    dead = world(store, live=False)

    def app() -> None:
        dead.agent(tools=dead.tools("remember"), state={"api_key": key})(f"keep {key}")

    assert ar.replay(store.runs()[0], app, store=store).verdict == "identical"
    assert dead.agents[0].state.get("api_key") == key


def test_a_state_that_is_replaced_is_recorded_as_its_difference(store: EventStore) -> None:
    """Another state object in the place of the first is found at the next boundary."""
    made = world(store)
    agent = made.agent([Use("divide", {"a": 1, "b": 2})], ["done"], tools=made.tools("divide"), state={"a": 1, "b": 2})

    def replace(event: BeforeToolCallEvent) -> None:
        event.agent.state = type(agent.state)({"a": 1, "c": 3})

    agent.hooks.add_callback(BeforeToolCallEvent, replace)
    agent("go")
    assert ar.state_at(store.runs()[0], store=store).payload == {"a": 1, "c": 3}


def test_the_state_object_is_as_it_was_after_the_run(store: EventStore) -> None:
    """What tells of writes is gone with the run: the same class, and nothing on the model."""
    made = world(store)
    agent = made.agent(["done"])
    cls, model = type(agent.state), agent.model
    seen = []
    agent.hooks.add_callback(BeforeModelCallEvent, lambda event: seen.append(isinstance(event.agent.state, cls)))
    agent("go")
    assert seen == [True]
    assert type(agent.state) is cls
    assert "stream" not in vars(model)


def test_an_agent_ends_with_its_last_reference(store: EventStore) -> None:
    """The SDK closes what an agent has when nobody holds it any more; the recorder holds none, nor one that asks."""
    gc.collect()
    gc.disable()
    try:
        for name in ("one tool after the other", "asks before a tool"):
            made = world(store)
            agent = SCENARIO[name].make(made)
            agent("go")
            made.agents.clear()
            agent.hooks._registered_callbacks.clear()  # the tests' own, which know the world
            gone = weakref.ref(agent)
            del agent
            assert gone() is None
    finally:
        gc.enable()


def test_each_invocation_is_a_run_with_its_name_and_tags(store: EventStore) -> None:
    """The recorder takes what `record` takes; the entry point is the code that made it."""
    made = World(lambda: [ar.strands.Recorder("triage", store=store, tags=["nightly"])])
    made.agent(["done"])("go")
    (run,) = store.runs()
    (started,) = events(store, run, "run.started")
    assert (started.data.agent, started.data.tags, started.data.input) == ("triage", ["nightly"], "go")
    assert started.data.entry_point.endswith(
        "test_strands_pitfalls.py:test_each_invocation_is_a_run_with_its_name_and_tags.<locals>.<lambda>"
    )
    with pytest.raises(UsageError):
        ar.strands.Recorder(safety={"x": "harmless"})


def test_agents_of_one_recorder_that_run_beside_each_other_have_runs_of_their_own(store: EventStore) -> None:
    """Two agents with one recorder and one model, at a time: each run has its own calls."""
    recorder = ar.strands.Recorder(store=store)
    made = World(lambda: [recorder])
    one, two = made.agent(["first"], name="one"), made.agent(["second"], name="two")
    two.model = one.model
    one.model.answers = [["same"]]  # type: ignore[attr-defined]  # of the scripted model

    async def both() -> None:
        await asyncio.gather(one.invoke_async("a"), two.invoke_async("b"))

    asyncio.run(both())
    asked = {
        run.agent: [one.data.request["messages"][0]["content"][0]["text"] for one in events(store, run, "model.called")]
        for run in store.runs()
    }
    assert asked == {"one": ["a"], "two": ["b"]}


def fan_in(made: World, *, other_order: bool = False) -> Any:
    builder = GraphBuilder()
    for name in ("planner", "a", "b", "c", "last"):
        builder.add_node(made.agent([f"{name} did it"], plugged=False, name=name), name)
    for name in "abc":
        builder.add_edge("planner", name)
        builder.add_edge(name, "last")
    builder.set_entry_point("planner")
    builder.set_max_node_executions(9)
    builder.set_plugins(made.plugins())
    graph = builder.build()
    if other_order:  # as in another process, where texts have other hashes
        graph.edges = dict.fromkeys(reversed(list(graph.edges)))  # type: ignore[assignment]  # which is ordered
    return graph


def test_a_graph_goes_through_its_edges_in_the_recorded_order(store: EventStore) -> None:
    """Edges are a set, and the input of a node is put together in its order: another process has another one."""
    fan_in(world(store))("go")
    (run,) = [one for one in store.runs() if one.parent is None]
    again = world(store, live=False)
    assert ar.replay(run, lambda: fan_in(again, other_order=True), store=store).verdict == "identical"
    assert again.calls == []


def test_each_node_of_a_graph_can_be_forked_by_itself(store: EventStore) -> None:
    """A child run is a run: what makes the node's agent is enough to begin it again with its recorded input."""
    fan_in(world(store))("go")
    for child in [one for one in store.runs() if one.parent is not None]:
        other = world(store, script=[["another way"]])
        result = ar.rerun(child, lambda other=other, name=child.agent: other.agent(name=name), 1, store=store)
        assert (result.value, other.calls) == ("another way ", ["model"])


def test_a_tool_named_as_steering_is_run_in_a_replay_too(store: EventStore) -> None:
    """It acts on the agent itself, which no record of its result could do."""

    def make(made: World) -> Agent:
        @tool(context=True)
        def rename(name: str, tool_context: Any) -> str:
            """Give the agent another system prompt."""
            made.calls.append("rename")
            tool_context.agent.system_prompt = f"you are {name}"
            return "renamed"

        return made.agent([Use("rename", {"name": "Ann"})], ["hello"], tools=[rename])

    make(world(store))("go")
    with pytest.raises(Divergence):
        ar.replay(store.runs()[0], lambda: make(world(store, live=False)), store=store)
    make(world(store, steering=["rename"]))("go")
    dead = world(store, live=False, steering=["rename"])
    assert ar.replay(store.runs()[1], lambda: make(dead), store=store).verdict == "identical"
    assert dead.calls == ["rename"]


def test_a_count_of_tokens_is_not_asked_for_again(store: EventStore) -> None:
    """Some providers count the tokens of a request themselves, before each call: a replay has what they said."""

    class Counting(Scripted):
        async def count_tokens(self, *args: Any, **kwargs: Any) -> int:
            self.world.real("count")
            return 41 + len(self.asked)

    counts: list[Any] = []

    def make(made: World) -> Agent:
        agent = made.agent([Use("divide", {"a": 1, "b": 2})], ["done"], tools=made.tools("divide"))
        agent.model = Counting(made, agent.model.answers)  # type: ignore[attr-defined]  # of the scripted model
        agent.hooks.add_callback(BeforeModelCallEvent, lambda event: counts.append(event.projected_input_tokens))
        return agent

    made = world(store)
    make(made)("go")
    assert made.calls == ["count", "model", "divide", "count", "model"]
    dead = world(store, live=False)
    assert ar.replay(store.runs()[0], lambda: make(dead), store=store).verdict == "identical"
    assert dead.calls == []
    assert counts[:2] == counts[2:] == [41, 15 + 42]
    assert "count_tokens" not in vars(made.agents[0].model)


def test_an_agent_that_is_invoked_in_another_run_is_a_child_run(store: EventStore) -> None:
    """A loop of one's own that asks an agent has its run as a child, and replays with it."""

    def loop(made: World) -> None:
        with ar.record("outer", payload={}, store=store) as run, run.round():
            run.change(new={"said": str(made.agent(["hello"])("go")).strip()})

    loop(world(store))
    outer, inner = store.runs()
    assert (outer.agent, inner.agent, inner.parent) == ("outer", "scripted", outer.uid)
    dead = world(store, live=False)
    assert ar.replay(outer, lambda: loop(dead), store=store).verdict == "identical"
    assert dead.calls == []


def test_an_agent_with_a_session_is_recorded_and_replays_without_it(store: EventStore, tmp_path: Path) -> None:
    """What the session brought is the conversation before the run; the session has the ids that the run has."""

    def session() -> FileSessionManager:
        return FileSessionManager("s", storage_dir=str(tmp_path))

    made = world(store)
    made.agent(["one"], session_manager=session(), agent_id="a")("first")
    again = made.agent(["two"], session_manager=session(), agent_id="a")
    again("second")
    _, second = store.runs()
    assert len(ar.state_at(second, 0, store=store).messages) == 2 + 1
    files = sorted(tmp_path.rglob("message_*.json"))
    assert [json.loads(file.read_text())["message"]["tracking_id"] for file in files] == [
        message["tracking_id"] for message in again.messages
    ]
    dead = world(store, live=False)
    assert ar.replay(second, lambda: dead.agent(agent_id="a"), store=store).verdict == "identical"
    assert dead.agents[0].messages == again.messages


class Full(MemoryStore):
    """A store that fails after a while."""

    left = 14

    def append_rows(self, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise ar.StoreError("the disk is full")
        return super().append_rows(*args, **kwargs)


def test_a_store_that_fails_stops_the_agent_with_one_error_or_not_at_all() -> None:
    """As the recorder was told; the agent can be used afterwards, and nothing is left on it."""
    for policy, raised in (("raise", ar.RecordingFailed), ("warn", None)):
        made = world(Full(), on_store_error=policy)
        agent = SCENARIO["one tool after the other"].make(made)
        if raised is None:
            with pytest.warns(UserWarning, match="goes on unrecorded"):
                assert agent("go").stop_reason == "end_turn"
            assert agent.state.get() == {"a": "2"}
        else:
            with pytest.raises(raised):
                agent("go")
        assert "stream" not in vars(agent.model)
        assert type(agent.state).__mro__[1] is object


def test_what_the_code_reads_is_captured(store: EventStore) -> None:
    """`capture=` works as for any run: a hook that asks for the time has the recorded one in a replay."""

    def make(made: World) -> Agent:
        agent = made.agent(["done"])

        def stamp(event: BeforeModelCallEvent) -> None:
            event.agent.state.set("at", time.time())

        agent.hooks.add_callback(BeforeModelCallEvent, stamp)
        return agent

    made = world(store, capture={"clock"})
    make(made)("go")
    dead = world(store, live=False, capture={"clock"})
    assert ar.replay(store.runs()[0], lambda: make(dead), store=store).verdict == "identical"
    assert dead.agents[0].state.get() == made.agents[0].state.get()


def test_tools_in_the_background_are_not_replayed(store: EventStore) -> None:
    """They are no part of the run, so a replay is refused instead of calling them."""

    def make(made: World) -> Agent:
        return made.agent(["done"], tools=made.tools("divide"), background_tasks=True)

    assert make(world(store))("go").stop_reason == "end_turn"
    dead = world(store, live=False)
    with pytest.raises(UsageError):
        ar.replay(store.runs()[0], lambda: make(dead), store=store)
    assert dead.calls == []


def test_middleware_further_in_sees_the_tool_as_what_it_is(store: EventStore) -> None:
    """What stands in for a tool is of its class, for whoever asks."""
    made = world(store)
    agent = made.agent([Use("divide", {"a": 1, "b": 2})], ["done"], tools=made.tools("divide"))
    seen = []

    async def look(context: Any, call: Any) -> Any:
        seen.append((isinstance(context.tool, DecoratedFunctionTool), context.tool.tool_name))
        async for event in call(context):
            yield event

    agent.add_middleware(ExecuteToolStage, look)
    agent("go")
    assert seen == [(True, "divide")]
    assert len(events(store, store.runs()[0], "tool.returned")) == 1


KILLED = """
import os, sys
sys.path.insert(0, {tests!r})
import agentreplay as ar
from strands_scripted import Use, World
from strands import tool

@tool
def pay(amount: int) -> str:
    '''Pay.'''
    os._exit(9)

def make(live=True):
    made = World(lambda: [ar.strands.Recorder()])
    return made.agent([Use("pay", {{"amount": 7}})], ["paid"], tools=[pay])

if __name__ == "__main__":
    make()("go")
"""


def test_a_run_whose_process_was_killed_in_a_tool_is_resumed(tmp_path: Path) -> None:
    """The call was in the log before the tool ran; whether it was done a person says, and the run goes on."""
    tests = str(Path(__file__).parent)
    (tmp_path / "payer.py").write_text(KILLED.format(tests=tests))
    store = f"sqlite:///{tmp_path / 'store.db'}"
    environment = {**os.environ, "AGENTREPLAY_STORE": store}
    killed = subprocess.run([sys.executable, "payer.py"], cwd=tmp_path, env=environment, check=False)
    assert killed.returncode == 9
    opened = ar.open_store(store)
    assert opened.run("run1").status == "crashed"

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        raise AssertionError("it was paid")

    def make() -> Agent:
        return world(opened, script=[["paid"]]).agent(tools=[pay])

    with pytest.raises(LiveCallRefused):
        ar.resume("run1", make, store=opened)
    result = ar.resume("run1", make, assume={"1.2": "paid 7"}, store=opened)
    assert (result.value, opened.run("run1").status) == ("paid ", "completed")
    opened.close()
