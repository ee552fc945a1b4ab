"""Recording a Strands agent: one run for each invocation, a round for each model call.

This module says what of an agent goes where in a run. The payload is `agent.state` (`strands_state`), the messages are
the agent's conversation (`strands_conversation`), calls come from the model and the tools (`strands_model`,
`strands_tools`), and what the model decided follows from its stop reason. Hooks of the SDK tell when a round begins.
"""

from __future__ import annotations

import functools
import json
import weakref
from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Any, Final

from strands import Agent
from strands.agent._agent_as_tool import _AgentAsTool
from strands.hooks import (
    AfterInvocationEvent,
    AfterModelCallEvent,
    BeforeModelCallEvent,
    BeforeToolCallEvent,
    BeforeToolsEvent,
    HookOrder,
    MessageAddedEvent,
)
from strands.interrupt import _InterruptState
from strands.middleware import ExecuteToolContext, ExecuteToolStage, InvokeModelContext, InvokeModelStage
from strands.types.tools import AgentTool

from ..agent_result import AgentResult
from ..attaching import waiting
from ..calls import Effect
from ..copying import copy_value
from ..error_info import text_of
from ..errors import UsageError
from ..plain import is_plain
from ..run_recorder import RunRecorder
from ..scope import current
from .strands_blocks import RecordedInvocations, SdkBlock, SdkRun
from .strands_conversation import ConversationLog
from .strands_deeds import HANDED, given_again, given_by, is_exactly
from .strands_edits import limits_of, prompt_messages, refuse_answer
from .strands_model import ModelSeam
from .strands_results import ended_with, text_of_message
from .strands_settings import Settings
from .strands_state import StateLog
from .strands_tools import Place, RecordedTool, effect_for, place, redo, unknown_tool

FIRST: Final = HookOrder.SDK_FIRST - 1
LAST: Final = HookOrder.SDK_LAST + 1

ASKED_BEFORE: Final = "interrupt_state"
"""The parameter that holds what an agent waits for when a run begins: it was restored from what a session has kept."""

DEFAULT_NAMES: Final = ("Strands Agents", "default")
"""What the SDK calls an agent that was given no name, and no id."""


def record_agent(agent: Agent, settings: Settings, name: str | None = None) -> None:
    """Have the invocations of an agent recorded, unless they are already.

    Args:
        agent: which.
        settings: of the recording.
        name: of the agent; by default its own.
    """
    known = RecordedAgent.of(agent)
    if known is None:
        RecordedAgent(agent, settings, name)
    elif name is not None:
        known.name = name


class RecordedAgent(RecordedInvocations):
    """The seams in one agent."""

    def __init__(self, agent: Agent, settings: Settings, name: str | None) -> None:
        super().__init__(agent)
        self.settings = settings
        self.name = name
        agent.add_middleware(InvokeModelStage, _hold_model)
        agent.add_middleware(ExecuteToolStage, functools.partial(_execute_tool, settings=settings))
        for event, order, callback in _HOOKS:
            agent.hooks.add_callback(event, callback, order=order)

    def block(self, prompt: Any, options: Mapping[str, Any]) -> SdkBlock:
        """The block of a new run.

        Raises:
            UsageError: the code is executed against a recording, and the agent has tools in the background.
        """
        agent: Agent = self.target
        if getattr(agent, "_background_tasks", None) is not None and waiting.get() is not None:
            raise UsageError(
                "tools that run in the background are no part of the run of their agent, so they would be called for "
                "real here; make the agent without background_tasks to execute it against a recording"
            )
        return SdkBlock(
            self.name or name_of(agent),
            agent.state.get(),
            make=functools.partial(AgentRun, agent=agent, settings=self.settings),
            input=prompt,
            params=_params_of(agent, options),
            **self.settings.of_block(),
        )

    async def invoke_again(self, target: Any, given: Mapping[str, Any]) -> Any:
        """Invoke the agent as it was invoked when the run was recorded, from the state that it had then."""
        agent: Agent = target
        params = dict(given["params"] or {})
        agent.messages[:] = given["messages"]
        agent._interrupt_state = _asked_before(params.pop(ASKED_BEFORE, None), given["input"])
        kept = agent.state.get()
        for key in [key for key in kept if key not in (given["payload"] or {})]:
            agent.state.delete(key)
        for key, value in (given["payload"] or {}).items():
            if key not in kept or not is_exactly(kept[key], value):
                agent.state.set(key, value)
        wanted = params.pop("structured_output_model", None)
        model = agent._default_structured_output_model
        if wanted is not None and (model is None or model.__name__ != wanted):
            raise UsageError(
                f"the run was asked for structured output of a {wanted}, which a recording cannot hold; name a "
                "function that invokes the agent with it, instead of one that makes the agent"
            )
        return await agent.invoke_async(given["input"], **given_again(params), **params)


def name_of(agent: Agent) -> str:
    """How an agent is called: by its name, else by its id."""
    return next((one for one in (agent.name, agent.agent_id) if one and one not in DEFAULT_NAMES), agent.name)


def _asked_before(recorded: Mapping[str, Any] | None, prompt: Any) -> _InterruptState:
    """What an agent had asked before a run began; nothing, whatever it has asked by now, unless the run says so."""
    if recorded is not None:
        return _InterruptState.from_dict(copy_value(dict(recorded)))
    refuse_answer(prompt)
    return _InterruptState()


def _params_of(agent: Agent, options: Mapping[str, Any]) -> dict[str, Any]:
    """What an invocation was given beside its prompt, as far as it can be recorded, and what it is an answer to."""
    params = {key: options[key] for key in ("limits", "structured_output_prompt") if options.get(key) is not None}
    model = options.get("structured_output_model") or agent._default_structured_output_model
    if model is not None:
        params["structured_output_model"] = model.__name__
    params |= given_by(options.get(HANDED))
    if agent._interrupt_state.activated and is_plain(asked := agent._interrupt_state.to_dict()):
        params[ASKED_BEFORE] = copy_value(asked)  # of which the invocation takes the answers out
    return params


class AgentRun(SdkRun):
    """The run of one agent.

    Attributes:
        agent, settings: as for `RecordedAgent`.
        state, conversation: what is recorded of the agent beside its calls.
    """

    editable = ("limits",)

    def __init__(self, recorder: RunRecorder, *, agent: Agent, settings: Settings, **given: Any) -> None:
        super().__init__(recorder, **given)
        self._agent = weakref.ref(agent)
        self.settings = settings
        self.state = StateLog(self._agent, recorder)
        self.conversation = ConversationLog(self._agent, self.messages, recorder, self._cancel)
        self._effects: dict[int, tuple[AgentTool, Effect]] = {}
        self._is_begun = False  # whether the round that runs has come to anything
        self._attempt = 1
        self._attempts: dict[tuple[int, int], int] = {}
        self._pending: dict[str, Any] | None = None
        self._raw: list[list[str]] = []
        self._limits: dict[str, Any] | None = None  # of the invocation, where they may be edited

    @property
    def agent(self) -> Agent:
        """The agent; it is being invoked, so it is there."""
        agent = self._agent()
        assert agent is not None
        return agent

    @property
    def steering(self) -> Collection[str]:
        """The names of tools that are run in a replay, too."""
        return self.settings.steering

    # -- the invocation --------------------------------------------------------------------------------

    def begins(self, prompt: Any) -> Any:
        """Record the conversation that the agent brings with it; or take over that of a folded prefix."""
        attachment = self._recorder.attachment
        if attachment is not None:
            self.state.take_over()
            if attachment.restores():
                self.agent._interrupt_state.deactivate()  # which was answered in the rounds before
                self.conversation.follow()
                return None  # it has been asked in the rounds before
        self.conversation.begin()
        return prompt

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Where limits may be edited, the invocation has a dict of this run's: the loop looks at it each time."""
        limits = given.get("limits")
        if self._recorder.attachment is None or not (limits is None or isinstance(limits, Mapping)):
            return dict(given)
        if self._limits is None:
            self._limits = dict(limits or {})
        return {**given, "limits": self._limits}

    def begins_otherwise(self, prompt: tuple[Any] | None, params: Mapping[str, Any]) -> None:
        """Put the messages of another prompt in the place of the first ones; and have the loop go by other limits.

        Raises:
            UsageError: they are none of the SDK's; or what the prompt became is not in the conversation any more.
        """
        if "limits" in params:
            limits = limits_of(params["limits"])
            if self._limits is None:
                self._limits = limits
            else:
                self._limits.clear()
                self._limits.update(limits)
        if prompt is not None:
            messages = prompt_messages(prompt[0])
            if self._recorder.in_round:  # else the conversation is that of a folded prefix, which has them
                self.conversation.begins_otherwise(prompt_messages(copy_value(self.input)), messages)

    def takes_hold(self) -> None:
        """Enter the seams of the model and the state."""
        self.state.begin()
        ModelSeam.hold(self.agent.model, self)
        if self.agent.aux_model is not self.agent.model:
            ModelSeam.hold(self.agent.aux_model, self)

    def lets_go(self) -> None:
        """Leave the seams."""
        self.state.end()
        ModelSeam.let_go(self)

    def settles(self) -> None:
        """Record what is not recorded yet."""
        if self._recorder.recording:
            self.conversation.catch_up()
            self.state.catch_up()
            if self.came_to is not None and not self.interrupts_of(self.came_to):
                self._say_decision()

    def interrupts_of(self, result: Any) -> list[Any]:
        """The questions with which the invocation has stopped."""
        return list(result.interrupts or ()) if result is not None and result.stop_reason == "interrupt" else []

    def summed_up(self, result: Any) -> tuple[str, str, Any, AgentResult]:
        """What the run came to."""
        return ended_with(result)

    def _cancel(self, now: bool) -> bool:
        signal = self.agent.cancel_signal
        external = getattr(self.agent, "_external_cancel_signal", None)
        if now:
            signal.set()
        return signal.is_set() or (external is not None and external.is_set())

    # -- rounds ----------------------------------------------------------------------------------------

    def model_is_asked(self) -> None:
        """A model call is about to be made: a round begins."""
        self.conversation.catch_up()
        self.state.catch_up()
        if self._is_begun or not self.in_round:
            if self._pending is not None and self.in_round:
                self._pending = _again(self._pending)
            self._say_decision()
            self._recorder.finish_round("continue")
            self._recorder.start_round()
            self._is_begun = False
        self.state.follow()
        self.conversation.follow()
        self._raw = []

    @property
    def in_round(self) -> bool:
        """Whether a round is under way."""
        return self._recorder.in_round

    def model_has_answered(self, event: AfterModelCallEvent) -> None:
        """A model call is over: what it decided is known, unless the round goes on otherwise."""
        self._is_begun = True
        if event.stop_response is None:
            error = text_of(event.exception)
            decision = (
                {"step": "Retry", "retryReason": error} if event.retry else {"step": "Failed", "errorMessage": error}
            )
        elif event.retry:
            decision = {"step": "Retry", "retryReason": "a hook asked for another answer"}
        else:
            decision = self._decision(event.stop_response.stop_reason, event.stop_response.message)
        self._attempt = self._attempt + 1 if event.retry else 1
        self._pending = decision
        if decision["step"] in ("Actions", "Sub-Agent", "Retry", "Failed"):
            self._say_decision()

    def _decision(self, stop_reason: str, message: Any) -> dict[str, Any]:
        text = text_of_message(message)
        match stop_reason:
            case "tool_use":
                return self._actions(message, text)
            case "end_turn" | "stop_sequence":
                return {"step": "Success", "message": text}
            case "max_tokens" | "cancelled":
                return {"step": "Failed", "errorMessage": stop_reason, "message": text}
        return {"step": "Chat", "message": text, "reasoning": stop_reason}

    def _actions(self, message: Any, text: str) -> dict[str, Any]:
        uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
        registry = self.agent.tool_registry.registry
        of_agents = [use for use in uses if isinstance(registry.get(use["name"]), _AgentAsTool)]
        told = {"message": text} if text else {}
        if of_agents and len(of_agents) == len(uses):
            agents = [{"name": use["name"], "message": _input_of(use)} for use in uses]
            return {"step": "Sub-Agent", "subAgents": agents, **told}
        return {"step": "Actions", "actions": [{"name": use["name"], "params": use["input"]} for use in uses], **told}

    def _say_decision(self) -> None:
        decision, self._pending = self._pending, None
        if decision is not None and self.in_round:
            self._recorder.decide(decision)

    # -- calls -----------------------------------------------------------------------------------------

    def told_of_model_call(self) -> dict[str, Any]:
        """What is told with the call of the model."""
        return {"attempt": self._attempt}

    def model_streams(self, event: Any) -> None:
        """Keep the text of tool inputs: what is no JSON becomes an empty input, without a word, in the SDK."""
        if not isinstance(event, Mapping):
            return
        if "contentBlockStart" in event:
            if (event["contentBlockStart"].get("start") or {}).get("toolUse"):
                self._raw.append([])
        elif self._raw and "contentBlockDelta" in event:
            use = (event["contentBlockDelta"].get("delta") or {}).get("toolUse")
            if use is not None:
                self._raw[-1].append(str(use.get("input", "")))

    def raw_input_of(self, index: int | None) -> str | None:
        """The text of a tool's input, if that was no JSON."""
        if index is None or index >= len(self._raw):
            return None
        text = "".join(self._raw[index])
        try:
            json.loads(text or "{}")
        except ValueError:
            return text
        return None

    def tools_are_asked(self) -> None:
        """Tools are about to be called, perhaps without a model call before: a person has answered."""
        if not self.in_round:
            self._recorder.start_round()
            self.state.follow()
            self.conversation.follow()
        self._is_begun = True

    def tool_is_asked(self, tool_use: Any) -> None:
        """A tool is about to be called."""
        index = next((at for at, use in enumerate(self._tool_uses()) if use is tool_use), None)
        attempt = 1
        if index is not None:
            key = (self._recorder.round, index)
            attempt = self._attempts[key] = self._attempts.get(key, 0) + 1
        place.set(Place(index, attempt))

    def _tool_uses(self) -> list[Any]:
        pending = self.agent._interrupt_state.pending_tool_execution
        message: Any = {}
        if pending is not None:
            message = pending.assistant_message
        elif self.agent.messages:
            message = self.agent.messages[-1]
        return [block["toolUse"] for block in message.get("content", ()) if "toolUse" in block]

    def effect_of(self, tool: AgentTool) -> Effect:
        """A tool as an effect."""
        known = self._effects.get(id(tool))
        if known is None:
            known = self._effects[id(tool)] = tool, effect_for(tool, self.settings.safety, self.steering)
        return known[1]

    def redo(self, did: Mapping[str, Any], invocation_state: dict[str, Any]) -> None:
        """Do what an answered tool did to the agent."""
        redo(self.agent, did, invocation_state)


def _again(decision: dict[str, Any]) -> dict[str, Any]:
    """A decision that was to be the last, where the loop asks the model once more."""
    if decision["step"] != "Success":
        return decision
    return {"step": "Retry", "retryReason": "the loop goes on", "message": decision.get("message", "")}


def _input_of(use: Any) -> str:
    given = use["input"]
    return str(given.get("input", given)) if isinstance(given, Mapping) else str(given)


# -- hooks and middleware ------------------------------------------------------------------------------


def run_of(agent: Any) -> AgentRun | None:
    """The run of an agent in which the running code is; None outside of any."""
    scope = current.get()
    run = None if scope is None else scope.recorder.context
    return run if isinstance(run, AgentRun) and run.recorder.recording and run.agent is agent else None


def _before_model(event: BeforeModelCallEvent) -> None:
    if (run := run_of(event.agent)) is not None:
        run.model_is_asked()


def _after_model(event: AfterModelCallEvent) -> None:
    if (run := run_of(event.agent)) is not None:
        run.model_has_answered(event)


def _added(event: MessageAddedEvent) -> None:
    if (run := run_of(event.agent)) is not None:
        run.conversation.added(event.message)


def _before_tools(event: BeforeToolsEvent) -> None:
    if (run := run_of(event.agent)) is not None:
        run.tools_are_asked()


def _before_tool(event: BeforeToolCallEvent) -> None:
    if (run := run_of(event.agent)) is not None:
        run.tool_is_asked(event.tool_use)


def _after(event: AfterInvocationEvent) -> None:
    if (run := run_of(event.agent)) is not None:
        run.conversation.catch_up()


_HOOKS: Final[tuple[tuple[Any, float, Any], ...]] = (
    (BeforeModelCallEvent, FIRST, _before_model),
    (AfterModelCallEvent, LAST, _after_model),
    (MessageAddedEvent, FIRST, _added),
    (BeforeToolsEvent, FIRST, _before_tools),
    (BeforeToolCallEvent, FIRST, _before_tool),
    (AfterInvocationEvent, LAST, _after),
)


async def _hold_model(context: InvokeModelContext, call: Any) -> AsyncGenerator[Any, None]:
    """Have the model that is asked recorded, whichever it is: a router may have chosen another."""
    if (run := run_of(context.agent)) is not None:
        ModelSeam.hold(context.model, run)
    async for event in call(context):
        yield event


async def _execute_tool(context: ExecuteToolContext, call: Any, *, settings: Settings) -> AsyncGenerator[Any, None]:
    """Have a tool recorded, or the agent that it is."""
    run = run_of(context.agent)
    tool = context.tool
    if type(context) is not ExecuteToolContext:  # in the background, beside the loop: that is no part of its run
        run = None
    if run is not None and isinstance(tool, _AgentAsTool):
        record_agent(tool.agent, settings)
    elif run is not None and tool is None:
        await unknown_tool(context.tool_use, run)
    elif run is not None and tool is not None:
        context = context.replace(tool=RecordedTool(tool, run))
    async for event in call(context):
        yield event


__all__ = ["AgentRun", "RecordedAgent", "name_of", "record_agent", "run_of"]
