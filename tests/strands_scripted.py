"""Strands agents without a network: a scripted model, tools that count their calls, and the scenarios of the tests.

A scenario makes its agents in a `World`. A live world answers from the scenario's script; in a dead one whatever comes
to a model or a tool is counted as a real call and fails, as it may in no replay.
"""

from __future__ import annotations

import asyncio
import json
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, field_validator
from strands import Agent, tool
from strands.agent.conversation_manager import SlidingWindowConversationManager, SummarizingConversationManager
from strands.event_loop._retry import ModelRetryStrategy
from strands.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    AfterToolCallEvent,
    AfterToolsEvent,
    BeforeInvocationEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
    MessageAddedEvent,
)
from strands.models import Model
from strands.multiagent import GraphBuilder, Swarm
from strands.tools.executors import SequentialToolExecutor
from strands.types.exceptions import ContextWindowOverflowException, ModelThrottledException
from strands.types.tools import AgentTool

USAGE = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}


@dataclass(frozen=True)
class Use:
    """A tool use in a scripted answer; `raw` is its input as the model writes it, in the place of `given`."""

    name: str
    given: dict[str, Any] = field(default_factory=dict)
    id: str = "use-1"
    raw: str | None = None


class Scripted(Model):
    """A model that gives one answer after another: a list of texts and tool uses, an exception, or a function."""

    def __init__(self, world: World, answers: Iterable[Any]) -> None:
        self.world = world
        self.answers = [*answers]
        self.given = 0
        self.asked: list[Any] = []
        self.config = {"model_id": "scripted-1"}

    def update_config(self, **config: Any) -> None:
        self.config.update(config)

    def get_config(self) -> Any:
        return self.config

    async def structured_output(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        self.world.real("model")
        self.asked.append(messages)
        answer = self.answers[min(self.given, len(self.answers) - 1)]
        self.given += 1
        if isinstance(answer, BaseException):
            raise answer
        uses = any(isinstance(part, Use) for part in answer)
        yield {"messageStart": {"role": "assistant"}}
        for part in answer:
            if callable(part):  # something that happens while the answer is on its way
                part()
                continue
            for event in events_of(part):
                await asyncio.sleep(0)
                yield event
        stop = "tool_use" if uses else "end_turn"
        yield {"messageStop": {"stopReason": "max_tokens" if "(cut off)" in answer else stop}}
        yield {"metadata": {"usage": USAGE, "metrics": {"latencyMs": 7}}}


def events_of(part: Any) -> Iterable[dict[str, Any]]:
    if isinstance(part, Use):
        text = json.dumps(part.given) if part.raw is None else part.raw
        yield {"contentBlockStart": {"start": {"toolUse": {"name": part.name, "toolUseId": part.id}}}}
        for piece in (text[:4], text[4:]):
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": piece}}}}
    else:
        yield {"contentBlockStart": {"start": {}}}
        for word in part.split():
            yield {"contentBlockDelta": {"delta": {"text": word + " "}}}
    yield {"contentBlockStop": {}}


class World:
    """What a scenario runs in.

    Args:
        plugins: makes the plugins of an agent, a graph or a swarm.
        live: whether models and tools may be reached.
        script: the answers of each model in the place of the scenario's own.
    """

    def __init__(self, plugins: Callable[[], list[Any]] = list, *, live: bool = True, script: Any = None) -> None:
        self.plugins = plugins
        self.live = live
        self.script = script
        self.calls: list[str] = []
        self.agents: list[Agent] = []
        self.hooked: list[str] = []
        self.states: list[Any] = []
        self.gates: dict[str, asyncio.Event] = {}

    def real(self, what: str) -> None:
        self.calls.append(what)
        assert self.live, f"a real call of {what}"

    def model(self, *answers: Any) -> Scripted:
        return Scripted(self, answers if self.script is None else self.script)

    def agent(self, *answers: Any, plugged: bool = True, **options: Any) -> Agent:
        made = Agent(
            model=self.model(*answers),
            callback_handler=None,
            plugins=self.plugins() if plugged else None,
            **{"name": "scripted", **options},
        )
        for event in HOOKED:
            made.hooks.add_callback(event, self._hook)
        self.agents.append(made)
        return made

    def _hook(self, event: Any) -> None:
        shown = [type(event).__name__]
        if isinstance(event, BeforeToolCallEvent | AfterToolCallEvent):
            shown += [str(event.tool_use["name"]), str(event.tool_use["toolUseId"])]
        if isinstance(event, MessageAddedEvent):
            shown.append(event.message["role"])
        if isinstance(event, AfterModelCallEvent):
            shown.append("error" if event.exception else event.stop_response.stop_reason)
        self.hooked.append(" ".join(shown))
        if isinstance(event, BeforeModelCallEvent):
            self.states.append(event.agent.state.get())

    # -- tools ---------------------------------------------------------------------------------------

    def tools(self, *names: str) -> list[Any]:
        return [getattr(self, f"_{name}")() for name in names]

    def _divide(self) -> Any:
        @tool
        def divide(a: float, b: float) -> float:
            """Divide a by b."""
            self.real("divide")
            return a / b

        return divide

    def _remember(self) -> Any:
        @tool(context=True)
        def remember(key: str, value: str, tool_context: Any) -> str:
            """Keep a value."""
            self.real("remember")
            tool_context.agent.state.set(key, value)
            return f"kept {key}"

        return remember

    def _forget(self) -> Any:
        @tool(context=True)
        def forget(key: str, tool_context: Any) -> str:
            """Forget a value."""
            self.real("forget")
            tool_context.agent.state.delete(key)
            return f"forgot {key}"

        return forget

    def _wait(self) -> Any:
        @tool(context=True)
        async def wait(mine: str, after: str, tool_context: Any) -> str:
            """Write to the state, once another call has."""
            self.real("wait")
            gates = self.gates
            if after:
                await gates.setdefault(after, asyncio.Event()).wait()
            tool_context.agent.state.set(mine, {"after": after})
            gates.setdefault(mine, asyncio.Event()).set()
            return f"{mine} came after {after or 'nothing'}"

        return wait

    def _count(self) -> Any:
        @tool
        async def count(to: int) -> Any:
            """Count, and stream each number."""
            self.real("count")
            for number in range(1, to + 1):
                yield {"number": number}
            yield f"counted to {to}"

        return count

    def _approve(self) -> Any:
        @tool(context=True)
        def approve(what: str, tool_context: Any) -> str:
            """Ask a person."""
            self.real("approve")
            answer = tool_context.interrupt("approval", reason={"what": what})
            return f"{what}: {answer}"

        return approve

    def _halt(self) -> Any:
        @tool(context=True)
        def halt(tool_context: Any) -> str:
            """Have the agent stop once the tools are through."""
            self.real("halt")
            tool_context.agent.cancel(message="halted", after_current_tools=True)
            return "stopping"

        return halt

    def _flaky(self) -> Any:
        failures = iter([True, False])

        @tool
        def flaky() -> str:
            """Fail once."""
            self.real("flaky")
            if next(failures):
                raise ConnectionError("not yet")
            return "at last"

        return flaky


class Own(AgentTool):
    """A tool that speaks none of the SDK's events: it gives values, the last of which is the result."""

    def __init__(self, world: World, fails: bool) -> None:
        super().__init__()
        self.world = world
        self.fails = fails

    @property
    def tool_name(self) -> str:
        return "own"

    @property
    def tool_spec(self) -> Any:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        return {"name": "own", "description": "A tool of one's own.", "inputSchema": {"json": schema}}

    @property
    def tool_type(self) -> str:
        return "own"

    async def stream(self, tool_use: Any, invocation_state: Any, **kwargs: Any) -> Any:
        self.world.real("own")
        yield {"half": tool_use["input"]["n"] / 2}
        if self.fails:
            raise RuntimeError("out of order")
        yield {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"json": {"n": 1}}]}


HOOKED = (
    *(BeforeInvocationEvent, AfterInvocationEvent, BeforeModelCallEvent, AfterModelCallEvent),
    *(BeforeToolsEvent, AfterToolsEvent, BeforeToolCallEvent, AfterToolCallEvent, MessageAddedEvent),
)

PIXEL = b"\x89PNG\r\n\x1a\n\x00\xff"


class Unstorable(Exception):
    """An error with something alive in it, as those of clients have."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.response = threading.Lock()


class Order(BaseModel):
    """An order."""

    item: str
    count: int

    @field_validator("count")
    @classmethod
    def _positive(cls, count: int) -> int:
        if count < 1:
            raise ValueError("count is at least 1")
        return count


# -- scenarios -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """What is recorded, and what it comes to.

    Attributes:
        make: makes what is invoked.
        invoke: invokes it; the result of the last invocation.
        rounds: model calls, retries included; of a graph or a swarm, batches of nodes.
        stop: the stop reason, or the class of the error, that it ends with.
        real: models and tools that are reached.
        another: the script of its models where it is forked.
    """

    name: str
    make: Callable[[World], Any]
    rounds: int
    stop: str
    real: int
    invoke: Callable[[Any], Any] = lambda subject: subject("go")
    another: Any = (["another way"],)

    def __str__(self) -> str:
        return self.name


def respond(subject: Any, **options: Any) -> Any:
    """Invoke, and answer what is asked, as often as it is."""
    result = subject("go", **options)
    while result.interrupts:
        result = subject(
            [{"interruptResponse": {"interruptId": one.id, "response": "yes"}} for one in result.interrupts]
        )
    return result


def respond_one_by_one(subject: Any) -> Any:
    """Invoke, and answer one question at a time."""
    result = subject("go")
    while result.interrupts:
        first = result.interrupts[0]
        result = subject([{"interruptResponse": {"interruptId": first.id, "response": "yes"}}])
    return result


def _reverse(world: World) -> Agent:
    uses = [
        Use("wait", {"mine": "s1", "after": "s3"}, "t1"),
        Use("wait", {"mine": "s2", "after": ""}, "t2"),
        Use("wait", {"mine": "s3", "after": "s2"}, "t3"),
    ]
    return world.agent(uses, ["done"], tools=world.tools("wait"), state={"start": 1})


def _duplicates(world: World) -> Agent:
    uses = [Use("divide", {"a": 1, "b": 2}, "same"), Use("divide", {"a": 1, "b": 2}, "same")]
    return world.agent(uses, ["done"], tools=world.tools("divide"))


def _tool_retry(world: World) -> Agent:
    agent = world.agent([Use("flaky")], ["done"], tools=world.tools("flaky"))

    def again(event: AfterToolCallEvent) -> None:
        event.retry = event.exception is not None

    agent.hooks.add_callback(AfterToolCallEvent, again)
    return agent


def _model_retry(world: World) -> Agent:
    agent = world.agent(["no"], ["yes"])

    def again(event: AfterModelCallEvent) -> None:
        said = event.stop_response.message["content"][0]["text"] if event.stop_response else ""
        event.retry = said == "no "

    agent.hooks.add_callback(AfterModelCallEvent, again)
    return agent


def _throttled(world: World) -> Agent:
    slow = ModelThrottledException("slow down")
    strategy = ModelRetryStrategy(max_attempts=4, initial_delay=0, max_delay=0)
    return world.agent(slow, slow, ["at last"], retry_strategy=strategy)


def _asks_before_tool(world: World) -> Agent:
    uses = [Use("divide", {"a": 1, "b": 2}, "t1"), Use("remember", {"key": "k", "value": "v"}, "t2")]
    agent = world.agent(uses, ["done"], tools=world.tools("divide", "remember"))

    def ask(event: BeforeToolCallEvent) -> None:
        if event.tool_use["name"] == "remember" and event.interrupt("sure", reason="it is kept") != "yes":
            event.cancel_tool = "no"

    agent.hooks.add_callback(BeforeToolCallEvent, ask)
    return agent


def _patched(world: World) -> Agent:
    agent = world.agent([Use("divide", {"a": 1, "b": 0})], ["done"], tools=world.tools("divide"))

    def patch(event: AfterToolCallEvent) -> None:
        event.result = {**event.result, "status": "success", "content": [{"text": "infinity"}]}

    agent.hooks.add_callback(AfterToolCallEvent, patch)
    return agent


def _cancelled(world: World) -> Agent:
    """Somebody else cancels while the second answer is on its way."""
    agents: list[Agent] = []

    def cancel() -> None:
        thread = threading.Thread(target=agents[0].cancel)
        thread.start()
        thread.join()

    agent = world.agent(
        [Use("divide", {"a": 1, "b": 2})], ["this is", cancel, "cut short"], tools=world.tools("divide")
    )
    agents.append(agent)
    return agent


def _denied(world: World) -> Agent:
    agent = world.agent([Use("divide", {"a": 1, "b": 2})], ["done"], tools=world.tools("divide"))

    def deny(event: BeforeToolCallEvent) -> None:
        event.cancel_tool = "not allowed"

    agent.hooks.add_callback(BeforeToolCallEvent, deny)
    return agent


def _with_sub_agent(world: World) -> Agent:
    helper = world.agent(
        [Use("remember", {"key": "inner", "value": "1"})],
        ["four"],
        plugged=False,
        name="adder",
        tools=world.tools("remember"),
    )
    return world.agent([Use("adder", {"input": "two and two"})], ["it is four"], tools=[helper], name="boss")


def _sub_agent_asks(world: World) -> Agent:
    helper = world.agent(
        [Use("approve", {"what": "this"})], ["it may"], plugged=False, name="helper", tools=world.tools("approve")
    )
    return world.agent([Use("helper", {"input": "may it?"})], ["yes"], tools=[helper], name="boss")


def _history() -> Any:
    return [
        {"role": "user" if turn % 2 == 0 else "assistant", "content": [{"text": f"turn {turn}"}]} for turn in range(6)
    ]


def _summary(world: World) -> Agent:
    return world.agent(
        ContextWindowOverflowException("too long"),
        ["it was about turns"],
        ["shorter"],
        messages=_history(),
        conversation_manager=SummarizingConversationManager(preserve_recent_messages=2),
    )


def _overflow(world: World) -> Agent:
    return world.agent(
        ContextWindowOverflowException("too long"),
        ["shorter"],
        messages=_history(),
        conversation_manager=SlidingWindowConversationManager(window_size=3),
    )


def _two_rounds(world: World) -> Agent:
    uses = [
        [Use("remember", {"key": "a", "value": "1"}, "t1")],
        [Use("remember", {"key": "a", "value": "2"}, "t2"), Use("forget", {"key": "start"}, "t3")],
        ["done"],
    ]
    return world.agent(
        *uses, tools=world.tools("remember", "forget"), state={"start": 1}, tool_executor=SequentialToolExecutor()
    )


def _graph(world: World) -> Any:
    builder = GraphBuilder()
    for name in ("planner", "left", "right", "last"):
        builder.add_node(world.agent([f"{name} did it"], plugged=False, name=name), name)
    for start, end in (("planner", "left"), ("planner", "right"), ("left", "last")):
        builder.add_edge(start, end)
    builder.set_entry_point("planner")
    builder.set_plugins(world.plugins())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return builder.build()


def _graph_asks(world: World) -> Any:
    builder = GraphBuilder()
    first = world.agent(
        [Use("approve", {"what": "this"})], ["it may"], plugged=False, name="first", tools=world.tools("approve")
    )
    builder.add_node(first, "first")
    builder.add_node(world.agent(["second did it"], plugged=False, name="second"), "second")
    builder.add_edge("first", "second")
    builder.set_entry_point("first")
    builder.set_plugins(world.plugins())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return builder.build()


def _swarm(world: World) -> Any:
    first = world.agent(
        [Use("handoff_to_agent", {"agent_name": "second", "message": "take it"})],
        ["handed over"],
        plugged=False,
        name="first",
    )
    second = world.agent(["second did it"], plugged=False, name="second")
    return Swarm([first, second], plugins=world.plugins())


IMAGE: Any = [{"text": "what is this"}, {"image": {"format": "png", "source": {"bytes": PIXEL}}}]

SCENARIOS = [
    Scenario("streaming", lambda w: w.agent(["one two three four"]), 1, "end_turn", 1),
    Scenario("reverse", _reverse, 2, "end_turn", 5),
    Scenario("duplicate ids", _duplicates, 2, "end_turn", 4),
    Scenario(
        "tool raises",
        lambda w: w.agent(["hm", Use("divide", {"a": 1, "b": 0})], ["done"], tools=w.tools("divide")),
        2,
        "end_turn",
        3,
    ),
    Scenario("tool retried by a hook", _tool_retry, 2, "end_turn", 4),
    Scenario("model retried by a hook", _model_retry, 2, "end_turn", 2),
    Scenario("throttled", _throttled, 3, "end_turn", 3),
    Scenario(
        "malformed input",
        lambda w: w.agent([Use("divide", raw='{"a": 1, "b"')], ["done"], tools=w.tools("divide")),
        2,
        "end_turn",
        2,
    ),
    Scenario(
        "structured output",
        lambda w: w.agent(
            ["two apples"],
            [Use("Order", {"item": "apple", "count": 0}, "o1")],
            [Use("Order", {"item": "apple", "count": 2}, "o2")],
            structured_output_model=Order,
        ),
        3,
        "tool_use",
        3,
        another=([Use("Order", {"item": "pear", "count": 3}, "o3")],),
    ),
    Scenario("asks before a tool", _asks_before_tool, 2, "end_turn", 4, respond),
    Scenario(
        "asks in a tool",
        lambda w: w.agent([Use("approve", {"what": "this"})], ["done"], tools=w.tools("approve")),
        2,
        "end_turn",
        4,
        respond,
    ),
    Scenario(
        "limits",
        lambda w: w.agent([Use("divide", {"a": 1, "b": 2})], tools=w.tools("divide")),
        2,
        "limit_turns",
        4,
        lambda subject: subject("go", limits={"turns": 2}),
    ),
    Scenario(
        "stopped by a tool",
        lambda w: w.agent([Use("halt")], ["never"], tools=w.tools("halt")),
        1,
        "cancelled",
        2,
    ),
    Scenario("cancelled while it answers", _cancelled, 2, "cancelled", 3),
    Scenario("tool denied by a hook", _denied, 2, "end_turn", 2),
    Scenario("result changed by a hook", _patched, 2, "end_turn", 3),
    Scenario("one tool after the other", _two_rounds, 3, "end_turn", 6),
    Scenario("agent as a tool", _with_sub_agent, 2, "end_turn", 5),
    Scenario("image", lambda w: w.agent(["a pixel"]), 1, "end_turn", 1, lambda subject: subject(IMAGE)),
    Scenario(
        "tool that streams",
        lambda w: w.agent([Use("count", {"to": 3})], ["done"], tools=w.tools("count")),
        2,
        "end_turn",
        3,
    ),
    Scenario(
        "tool of one's own",
        lambda w: w.agent([Use("own", {"n": 4})], ["done"], tools=[Own(w, False)]),
        2,
        "end_turn",
        3,
    ),
    Scenario(
        "tool of one's own that raises",
        lambda w: w.agent([Use("own", {"n": 4})], ["done"], tools=[Own(w, True)]),
        2,
        "end_turn",
        3,
    ),
    Scenario("unknown tool", lambda w: w.agent([Use("nope", {"x": 1})], ["done"]), 2, "end_turn", 2),
    Scenario("model raises in call 0", lambda w: w.agent(TimeoutError("gone")), 1, "TimeoutError", 1),
    Scenario(
        "model raises in call 1",
        lambda w: w.agent([Use("divide", {"a": 1, "b": 2})], TimeoutError("gone"), tools=w.tools("divide")),
        2,
        "EventLoopException",
        3,
    ),
    Scenario(
        "model raises what cannot be stored",
        lambda w: w.agent([Use("divide", {"a": 1, "b": 2})], Unstorable("gone"), tools=w.tools("divide")),
        2,
        "EventLoopException",
        3,
    ),
    Scenario("cut off", lambda w: w.agent(["too long", "(cut off)"]), 1, "MaxTokensReachedException", 1),
    Scenario("overflow", _overflow, 2, "end_turn", 2),
    Scenario("summary", _summary, 2, "end_turn", 3),
    Scenario(
        "asks twice",
        lambda w: w.agent(
            [Use("approve", {"what": "this"}, "t1")],
            [Use("approve", {"what": "that"}, "t2")],
            ["done"],
            tools=w.tools("approve"),
        ),
        3,
        "end_turn",
        7,
        respond,
    ),
    Scenario(
        "asks twice at a time",
        lambda w: w.agent(
            [Use("approve", {"what": "this"}, "t1"), Use("approve", {"what": "that"}, "t2")],
            ["done"],
            tools=w.tools("approve"),
        ),
        2,
        "end_turn",
        7,
        respond_one_by_one,
    ),
    Scenario("agent as a tool that asks", _sub_agent_asks, 2, "end_turn", 6, respond),
    Scenario("graph that asks", _graph_asks, 2, "completed", 5, respond),
    Scenario("graph", _graph, 3, "completed", 4),
    Scenario("swarm", _swarm, 2, "completed", 3),
]


def come_to(scenario: Scenario, subject: Any) -> tuple[str, Any]:
    """Invoke what a scenario made: its stop reason, or the class of its error; and the result or the error."""
    try:
        result = scenario.invoke(subject)
    except Exception as error:
        return type(error).__name__, error
    stop = getattr(result, "stop_reason", None) or result.status.value
    return stop, result
