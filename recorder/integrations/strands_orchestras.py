"""Recording graphs and swarms: each execution is one run, and each agent that is a node of it a child run.

A round is what runs between two moments at which no node does: in a graph a batch of nodes, in a swarm one agent. Which
nodes ran in it is the round's decision. The graph or swarm itself calls no model and no tool; what its nodes do is in
their own runs.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Mapping
from typing import Any, Final

from strands import Agent
from strands.hooks import AfterNodeCallEvent, BeforeNodeCallEvent
from strands.multiagent.base import MultiAgentBase, Status

from ..agent_result import AgentResult, Interrupt
from ..copying import copy_value
from ..plain import is_plain
from ..run_recorder import RunRecorder
from ..scope import current
from .strands_agents import FIRST, LAST, name_of, record_agent
from .strands_blocks import RecordedInvocations, SdkBlock, SdkRun
from .strands_calls import SITE
from .strands_deeds import HANDED, given_again, given_by
from .strands_edits import refuse_answer, task_of
from .strands_kept import KEPT, keep_again, kept_of
from .strands_settings import Settings

RESTORED: Final = "multi_agent_state"
"""The parameter that holds where a graph or swarm goes on, as a session manager has restored it."""

_NOTHING_DONE: Final[dict[str, Any]] = {
    "_internal_state": {"interrupt_state": {"interrupts": {}, "context": {}, "activated": False}}
}
"""The state of a graph or swarm that begins from its beginning."""


def record_orchestra(orchestra: Any, settings: Settings, name: str | None = None) -> None:
    """Have the executions of a graph or a swarm recorded, and those of its nodes, unless they are already.

    Args:
        orchestra: which.
        settings: of the recording.
        name: how it is called; by default as the settings say, or by its id.
    """
    if RecordedOrchestra.of(orchestra) is None:
        RecordedOrchestra(orchestra, settings, name or settings.name or getattr(orchestra, "id", None))


def _record_nodes(orchestra: Any, settings: Settings) -> None:
    for node_id, node in orchestra.nodes.items():
        executor = node.executor
        if isinstance(executor, Agent):
            record_agent(executor, settings, None if is_named(executor) else node_id)
        elif isinstance(executor, MultiAgentBase):
            record_orchestra(executor, settings, node_id)


def is_named(agent: Agent) -> bool:
    """Whether an agent has a name or an id of its own."""
    return name_of(agent) not in ("Strands Agents", "default")


class RecordedOrchestra(RecordedInvocations):
    """The seams in one graph or swarm."""

    def __init__(self, orchestra: Any, settings: Settings, name: str | None) -> None:
        super().__init__(orchestra)
        self.settings = settings
        self.name = name or type(orchestra).__name__
        orchestra.hooks.add_callback(BeforeNodeCallEvent, _before_node, order=FIRST)
        orchestra.hooks.add_callback(AfterNodeCallEvent, _after_node, order=LAST)

    def block(self, prompt: Any, options: Mapping[str, Any]) -> SdkBlock:
        """The block of a new run. The nodes are looked at only now: a swarm has none yet when plugins come to it."""
        _record_nodes(self.target, self.settings)
        make = functools.partial(OrchestraRun, orchestra=self.target)
        params = _restored(self.target) or {}
        if kept := kept_of(self.target):
            params[KEPT] = kept
        params |= given_by(options.get(HANDED))
        return SdkBlock(self.name, {}, make=make, input=prompt, params=params, **self.settings.of_block())

    async def invoke_again(self, target: Any, given: Mapping[str, Any]) -> Any:
        """Execute the graph or swarm with the task that it was given, from where it was then."""
        params = dict(given["params"] or {})
        keep_again(target, params.get(KEPT) or {})
        restored = params.get(RESTORED)
        if restored is not None:
            target.deserialize_state(copy_value(restored))
        else:
            refuse_answer(given["input"])
            if _goes_on(target):
                target.deserialize_state(_NOTHING_DONE)
        return await target.invoke_async(given["input"], **given_again(params))

    def is_end(self, result: Any) -> bool:
        """Whether a result is that of the whole; nodes have their own, further in."""
        return hasattr(result, "status")


def _goes_on(orchestra: Any) -> bool:
    """Whether a session manager has brought a graph or swarm to where an earlier execution was."""
    return bool(getattr(orchestra, "_resume_from_session", False))


def _restored(orchestra: Any) -> dict[str, Any] | None:
    """Where a graph or swarm goes on, as a parameter of its execution; None where it begins from its beginning."""
    if not _goes_on(orchestra):
        return None
    state = orchestra.serialize_state()
    return {RESTORED: copy_value(state)} if is_plain(state) else None


class OrchestraRun(SdkRun):
    """The run of one execution of a graph or a swarm."""

    kind = "a graph or swarm"

    def __init__(self, recorder: RunRecorder, *, orchestra: Any, **given: Any) -> None:
        super().__init__(recorder, **given)
        self._orchestra = weakref.ref(orchestra)
        self._running = 0
        self._nodes: list[str] = []

    @property
    def orchestra(self) -> Any:
        """The graph or swarm; it is being executed, so it is there."""
        return self._orchestra()

    def begins(self, prompt: Any) -> Any:
        """Record in which order a graph goes through its edges and entry points.

        They are sets, which have another order in each process, and the input of a node is put together in it.
        """
        for name, told in (("edges", _told_of_edge), ("entry_points", _told_of_node)):
            items = getattr(self.orchestra, name, None)
            if items is None or len(items) < 2:
                continue
            by_name = {told(item): item for item in items}
            order: list[str] = self._recorder.read(f"strands.{name}", functools.partial(list, by_name), site=SITE)
            if order != list(by_name) and set(order) == set(by_name):
                setattr(self.orchestra, name, dict.fromkeys([by_name[key] for key in order]))
        return prompt

    def begins_otherwise(self, prompt: tuple[Any] | None, params: Mapping[str, Any]) -> None:
        """Give the nodes another task.

        Raises:
            UsageError: it is no text and no content.
        """
        if prompt is not None:
            self.orchestra.state.task = task_of(prompt[0])

    def takes_hold(self) -> None:
        """The nodes have the seams."""

    def lets_go(self) -> None:
        """The nodes have the seams."""

    def settles(self) -> None:
        """Say which nodes ran last."""
        if self._recorder.recording and not self.interrupts_of(self.came_to):
            self._say_nodes()

    def interrupts_of(self, result: Any) -> list[Any]:
        """The questions with which the execution has stopped."""
        return list(result.interrupts or ()) if result is not None and result.status == Status.INTERRUPTED else []

    def summed_up(self, result: Any) -> tuple[str, str, Any, AgentResult]:
        """What the execution came to."""
        status = "failed" if result.status == Status.FAILED else "completed"
        ran = result.execution_order if hasattr(result, "execution_order") else result.node_history
        order = [node.node_id for node in ran]
        value = {"status": result.status.value, "nodes": sorted(order)}
        return status, result.status.value, value, _agent_result(result)

    def goes_on(self, prompt: Any) -> None:
        """Go on with the responses of a person: the nodes that have asked run once more, in the same round."""
        self._running, self._nodes = 0, []
        super().goes_on(prompt)

    def node_begins(self, node_id: str) -> None:
        """A node begins; where none was running, with it a round."""
        if not self._running and not (self._recorder.in_round and not self._nodes):
            self._say_nodes()
            self._recorder.finish_round("continue")
            self._recorder.start_round()
        self._running += 1
        self._nodes.append(node_id)

    def node_is_through(self) -> None:
        """A node has ended."""
        self._running -= 1

    def _say_nodes(self) -> None:
        nodes, self._nodes = sorted(self._nodes), []
        if nodes and self._recorder.in_round:
            self._recorder.decide({"step": "Sub-Agent", "subAgents": [{"name": node, "message": ""} for node in nodes]})


def _told_of_edge(edge: Any) -> str:
    return f"{edge.from_node.node_id} → {edge.to_node.node_id}"


def _told_of_node(node: Any) -> str:
    return str(node.node_id)


def _agent_result(result: Any) -> AgentResult:
    interrupts = [
        Interrupt(id=one.id, name=one.name, reason=one.reason, response=one.response) for one in result.interrupts or ()
    ]
    metrics = {
        "accumulatedUsage": dict(result.accumulated_usage),
        "accumulatedMetrics": dict(result.accumulated_metrics),
        "executionCount": result.execution_count,
        "executionTime": result.execution_time,
    }
    made: dict[str, Any] = {"interrupts": interrupts} if interrupts else {}
    made["results"] = _results(result)
    return AgentResult(stop_reason=result.status.value, metrics=metrics, **made)


def _results(result: Any) -> dict[str, Any]:
    """What each node came to, as the SDK writes it."""
    return {node_id: one.to_dict() for node_id, one in result.results.items()}


def _run_of(orchestra: Any) -> OrchestraRun | None:
    scope = current.get()
    run = None if scope is None else scope.recorder.context
    return run if isinstance(run, OrchestraRun) and run.recorder.recording and run.orchestra is orchestra else None


def _before_node(event: BeforeNodeCallEvent) -> None:
    if (run := _run_of(event.source)) is not None:
        run.node_begins(event.node_id)


def _after_node(event: AfterNodeCallEvent) -> None:
    if (run := _run_of(event.source)) is not None:
        run.node_is_through()
