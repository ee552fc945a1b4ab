"""The engine: runs a workflow, or a step function, round by round, bounded and recorded.

An engine with a workflow is an agent. A round of it is a walk from a node that starts one to the next that does, or to
a route that delivers. The payload of the run is the state. Each visit of a node is told in the log before the node
runs, what it changes is recorded as the difference, and the round's decision says in words which way was gone.

The decision also says where the next round begins, and how often each node was visited. The engine keeps nothing of a
run: it looks at the decision of the round before. So it is right in concurrent runs, when rounds are executed again,
and where they are not executed but taken from the log.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Any, Final, Generic, overload

from .agent_result import AgentResult
from .ambient import Capture
from .context import Context
from .copying import copy_value
from .decisions import Complete, Continue
from .environment import code_name, name_of
from .errors import UsageError, WorkflowError
from .flow_logger import Logger, say
from .introspection import class_name, clean, is_awaitable, isinstance_of
from .loop import Agent, Execution, Step
from .run_log import StorePolicy
from .scope import Visit
from .store import EventStore
from .workflow import Node, Route, State, Workflow

_NO_STEP: Final = (
    "has no workflow, so it has nothing to run by itself: give it a step, engine.run(step); to execute a run of such a "
    "step again, engine.agent(step) is its agent"
)


class CoreEngine(Agent, Generic[State]):
    """Runs a workflow, `CoreEngine(workflow=…).run(state)`, or a step function, `CoreEngine().run(step)`.

    With a workflow it is an agent, and stands wherever one can: `ar.replay`, `ar.rerun`, `ar.resume`, `--app
    file.py:engine`, `context.run_agent`.

    Args:
        workflow: what `define_workflow` made.
        name: as runs show it; by default the workflow's id, or the name of the step.
        max_rounds: after so many rounds without an end, the run has failed; 20 by default.
        logger: at `context.logger`: a `logging.Logger`, or True for "agentreplay.agent.NAME"; None by default.
        tags: of all its runs.
        capture: which reads of code that does not use the context are recorded; see `agent`.
        on_store_error: "raise" (default) or "warn": what a failing store means for the run.

    Attributes:
        workflow: as given.
        cache: at `context.agent_cache`; see `Agent`.
    """

    @overload
    def __init__(
        self,
        *,
        workflow: Workflow[State],
        name: str | None = ...,
        max_rounds: int | None = ...,
        logger: Logger = ...,
        tags: Sequence[str] | None = ...,
        capture: Capture = ...,
        on_store_error: StorePolicy = ...,
    ) -> None: ...

    @overload
    def __init__(
        self: CoreEngine[Any],
        *,
        workflow: None = ...,
        name: str | None = ...,
        max_rounds: int | None = ...,
        logger: Logger = ...,
        tags: Sequence[str] | None = ...,
        capture: Capture = ...,
        on_store_error: StorePolicy = ...,
    ) -> None: ...

    def __init__(
        self,
        *,
        workflow: Workflow[State] | None = None,
        name: str | None = None,
        max_rounds: int | None = None,
        logger: Logger = None,
        tags: Sequence[str] | None = None,
        capture: Capture = None,
        on_store_error: StorePolicy = "raise",
    ) -> None:
        if workflow is not None and not isinstance(workflow, Workflow):
            raise UsageError(f"workflow is what ar.define_workflow(…) makes, not {type(workflow).__name__}")
        self.workflow = workflow
        self._options: dict[str, Any] = {"logger": logger, "tags": tags, "capture": capture}
        self._options |= {"on_store_error": on_store_error}
        self._name, self._bound = name, max_rounds
        name = name or (workflow.id if workflow is not None else "engine")
        super().__init__(self._round, name, max_rounds=max_rounds, **self._options)
        caller = sys._getframe(1)
        self._made_by, self._module = caller.f_code, caller.f_globals
        self.__name__ = self.__qualname__ = self.name
        self.__doc__, self.__module__ = type(self).__doc__, str(caller.f_globals.get("__name__"))

    @property
    def has_a_step(self) -> bool:
        """Whether it is an agent that can be run by itself."""
        return self.workflow is not None

    def run(
        self,
        payload: State | Step | None = None,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AgentResult:
        """Run the workflow from a state, or without a workflow a step, to its end.

        Args:
            payload: the state, a dict, which is copied; {} by default. Without a workflow: the step.
            input, params: at `context.input` and `context.params`.
            options: `max_rounds`, `tags`, `logger`, `signal`, `invocation_state`, `store`: as for `Agent.run`.

        Returns:
            How it ended: `result.value` is what was delivered, `result.payload` the last state.

        Raises:
            UsageError: the state is no dict with texts as keys; or as for `Agent.run`.
            WorkflowError: no route held, what was to be delivered is missing, or a node gave no changes.
            Exception: what a node, a condition or the step raises is recorded, and raised as it is.
        """
        if self.workflow is None:
            return self.agent(payload).run(None, input, params, **self._given(options))
        return super().run(payload, input, params, **options)

    async def arun(
        self,
        payload: State | Step | None = None,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AgentResult:
        """`run` for code in an event loop; plain functions are called on it."""
        if self.workflow is None:
            return await self.agent(payload).arun(None, input, params, **self._given(options))
        return await super().arun(payload, input, params, **options)

    def agent(self, step: Any) -> Agent:
        """The agent as which a step runs here, for `ar.replay(run, engine.agent(step))` and the like.

        Raises:
            UsageError: the engine has a workflow, or the step is none.
        """
        if self.workflow is not None:
            raise UsageError(f"{self.name} runs its workflow, and is an agent itself; a step runs in ar.CoreEngine()")
        if isinstance(step, Agent):
            raise UsageError(f"{step.name} is an agent already: {step.name}.run()")
        if not callable(step):
            raise UsageError(f"this engine {_NO_STEP}")
        made = Agent(step, self._name or name_of(step), max_rounds=self.max_rounds, **self._options)
        made.cache = self.cache
        return made

    def _given(self, options: dict[str, Any]) -> dict[str, Any]:
        """What the engine gives a run of a step; it is recorded, since the step, which is executed again, lacks it."""
        return {"max_rounds": self._bound, "logger": self.logger} | options

    def begin(self, payload: Any, *, store: EventStore | str | None = None, **given: Any) -> Execution:
        """As of `Agent`."""
        return super().begin(self._state(payload), store=store, **given)

    async def _abegin(self, payload: Any, *, store: EventStore | str | None, **given: Any) -> Execution:
        return await super()._abegin(self._state(payload), store=store, **given)

    def _state(self, payload: Any) -> Any:
        if self.workflow is None:
            raise UsageError(f"{self.name} {_NO_STEP}")
        if payload is None:
            return {}
        if not isinstance_of(payload, dict) or not all(isinstance(key, str) for key in payload):
            raise UsageError(f"the state of {self.name} is a dict with texts as keys, not {payload!r:.200}")
        return payload if type(payload) is dict else dict(payload)

    def _round(self, round_index: int, context: Context) -> Any:
        """One round; an awaitable of its outcome if a node gives one."""
        if self.workflow is None:
            raise UsageError(f"{self.name} {_NO_STEP}")
        return _Walk(self.workflow, context).go()

    def _code(self) -> tuple[CodeType | None, dict[str, Any] | None, str | None]:
        """The code that made the engine; the entry point is the engine, by the name that it has in that module."""
        code, names = self._made_by, self._module
        name = next((name for name, value in list(names.items()) if value is self), None)
        entry_point = code_name(code)
        if entry_point is not None and name is not None:
            entry_point = f"{entry_point.rpartition(':')[0]}:{name}"
        elif entry_point is not None and code.co_name != "<module>":
            entry_point = f"{entry_point}.<locals>.{self.name}"
        return code, names, entry_point


class _Walk:
    """One round of a workflow: the visits of its nodes, in order.

    Args:
        workflow: what to walk.
        context: of the run.
    """

    def __init__(self, workflow: Workflow[Any], context: Context) -> None:
        self._workflow = workflow
        self._context = context
        self._recorder = context._recorder
        self._node, self._visits = self._begins_at()
        self._way: list[str] = []
        self._at: Visit | None = None

    def go(self) -> Any:
        """The outcome of the round, or an awaitable of it from the first node on that gives one."""
        returned = self._visit()
        while not is_awaitable(returned):
            if (outcome := self._leave(returned)) is not None:
                return outcome
            returned = self._visit()
        return self._ago(returned)

    async def _ago(self, returned: Any) -> Any:
        while True:
            if is_awaitable(returned):
                returned = await returned
            if (outcome := self._leave(returned)) is not None:
                return outcome
            returned = self._visit()

    def _begins_at(self) -> tuple[Node[Any], dict[str, int]]:
        """The node with which the round begins, and how often each was visited before."""
        if self._recorder.round == 1:
            return self._workflow.first, {}
        said = (self._recorder.decided_before or {}).get("workflow")
        going_on = said if isinstance(said, Mapping) else {}
        name = going_on.get("next")
        found = self._workflow.nodes.get(name) if isinstance(name, str) else None
        if found is None:
            there = ", ".join(map(repr, self._workflow.nodes))
            raise WorkflowError(
                f"round {self._recorder.round} is to begin with "
                f"{'no node' if name is None else f'node {name!r}'}, as the round before decided, but workflow "
                f"{self._workflow.id!r} has {there}; go on from a step before, with the workflow as it is now",
                round=self._recorder.round,
            )
        return found, {one["node"]: one["times"] for one in going_on.get("visited", ())}

    def _visit(self) -> Any:
        """Visit the node that has been come to; what it returns."""
        if self._way:  # the loop looks before each round
            self._context.signal.throw_if_aborted()
        node, visits = self._node, self._visits
        visits[node.id] = visits.get(node.id, 0) + 1
        self._be_at(Visit(clean(node.id), visits[node.id], self._recorder.round))
        again = "" if visits[node.id] == 1 else f" (visit {visits[node.id]})"
        about = "" if node.description is None else f": {node.description}"
        first = self._recorder.round == 1 and not self._way
        content = {"workflow": self._workflow.id} if first else None
        say(self._recorder, source="node", message=clean(f"{node.id}{again}{about}"), content=content)
        self._way.append(node.id)
        state = self._context.payload
        return node.run(state, self._context) if node.takes_context else node.run(state)

    def _leave(self, returned: Any) -> Continue | Complete[Any] | None:
        """Record what the visit changes, and go on to the next node; the outcome, if the round is over."""
        if self._recorder.interrupts:  # a question that the node swallowed; the loop has the run wait for its answer
            return Continue()
        self._change(returned)
        if not isinstance(self._context.payload, Mapping):
            raise self._error("has made the state something else than a dict")
        taken = self._route()
        if taken.key is not None:
            return self._deliver(taken.key)
        assert taken.target is not None  # it does not deliver
        self._node = self._workflow.nodes[taken.target]
        if not self._node.starts_round:
            return None
        way = " → ".join([*self._way, self._node.id])
        self._context.decide(step="Retry", reasoning=way, workflow={"next": self._node.id, "visited": self._visited()})
        self._be_at(None)
        return Continue()

    def _change(self, returned: Any) -> None:
        if returned is None:
            return
        if not isinstance(returned, Mapping) or not all(isinstance(key, str) for key in returned):
            what = class_name(type(returned)).rpartition(":")[2]
            what = f"keys that are no texts: {list(returned)!r:.200}" if isinstance(returned, Mapping) else what
            raise self._error(f"returned {what}; expected the keys of the state that change, {{…}}, or None")
        visit = self._at
        assert visit is not None  # which is being left
        source = {"kind": "node", "node": visit.node, "visit": visit.number}
        self._recorder.change_keys(returned, source=source, reason=visit.node)

    def _route(self) -> Route:
        state = self._context.payload
        for each in self._node.routes:
            holds = True if each.when is None else each.when(state)
            if is_awaitable(holds):
                raise self._error(f"has a condition that is to be awaited, of {each}; when= is a plain function")
            if holds:
                return each
        tried = ", ".join(map(str, self._node.routes))
        raise self._error(f"has no route that holds, of {tried}; add a last one without a condition")

    def _deliver(self, key: str) -> Complete[Any]:
        state = self._context.payload
        if key not in state:
            raise self._error(
                f"delivers {key!r}, which the state does not have; it has {', '.join(state) or 'nothing'}"
            )
        reasoning = f"{' → '.join(self._way)}, delivers {key}"
        self._context.decide(step="Success", terminate=True, reasoning=reasoning, workflow={"visited": self._visited()})
        self._be_at(None)
        return Complete(copy_value(state[key]))

    def _be_at(self, visit: Visit | None) -> None:
        """Have what this code says belong to a visit, and what is said by the tasks and threads that it starts."""
        self._at = visit
        if (scope := self._recorder.here()) is not None:
            scope.task.visit = visit

    def _visited(self) -> list[dict[str, Any]]:
        """How often each node was visited. Not by the nodes' ids as keys: one may be called "password"."""
        return [{"node": node, "times": times} for node, times in self._visits.items()]

    def _error(self, what: str) -> WorkflowError:
        node, round = self._node.id, self._recorder.round
        return WorkflowError(
            f"workflow {self._workflow.id!r}, round {round}: node {node!r} {what}", node=node, round=round
        )
