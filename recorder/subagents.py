"""Child runs: an agent run from within another run.

The child has a log of its own; its parent records that it started and finished, and how its payload came back. What it
sees of the parent's payload, and what it may bring back, follow MemberJunction's rules for sub-agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .agent_result import AgentResult
from .events import SubrunFinishedData, SubrunStartedData
from .payload import apply_scope, extract_downstream, merge_upstream, reverse_scope
from .run_recorder import RunRecorder, error_info
from .scope import current

if TYPE_CHECKING:
    from .loop import Agent, Execution


@dataclass(slots=True)
class Child:
    """A child run about to start."""

    parent: RunRecorder
    agent: Agent
    payload: Any
    upstream: Sequence[str] | None
    scope: str | None
    name: str
    call: str | None

    def run(self, **options: Any) -> Any:
        """Run it to its end; in a running event loop, return an awaitable of that."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            execution = self._begin(background=self.agent.is_async, **options)
            try:
                result = execution.run()
            except BaseException as error:
                self._failed(execution, error)
                raise
            return self._finished(execution, result)
        return self._arun(**options)

    async def _arun(self, **options: Any) -> AgentResult:
        execution = self._begin(background=True, **options)
        try:
            result = await execution.arun()
        except BaseException as error:
            self._failed(execution, error)
            raise
        return self._finished(execution, result)

    def _begin(self, **options: Any) -> Execution:
        parent = {"run": self.parent.info.uid, "call": self.call}
        execution = self.agent.begin(self.payload, store=self.parent.store, parent=parent, **options)
        self.parent.emit(
            "subrun.started", SubrunStartedData(run=execution.recorder.info.uid, name=self.name, call=self.call)
        )
        return execution

    def _failed(self, execution: Execution, error: BaseException) -> None:
        if self.parent.recording:
            data = SubrunFinishedData(run=execution.recorder.info.uid, status=execution.status, error=error_info(error))
            self.parent.emit("subrun.finished", data)

    def _finished(self, execution: Execution, result: AgentResult) -> AgentResult:
        merge: dict[str, Any] | None = None
        if self.upstream is not None and execution.status == "completed":
            merge = self._bring_back(execution.recorder.payload.live, execution.recorder.info.uid)
        self.parent.emit(
            "subrun.finished",
            SubrunFinishedData(
                run=execution.recorder.info.uid, status=execution.status, result=result.to_json(), merge=merge
            ),
        )
        return result

    def _bring_back(self, payload: Any, uid: str) -> dict[str, Any]:
        """Merge the child's payload into the parent's, as far as the path specs allow; one change of the parent's."""
        sub = reverse_scope(payload, self.scope) if self.scope else payload
        merged = merge_upstream(self.parent.payload.live, sub, list(self.upstream or ()), self.name)
        self.parent.change_whole(
            merged.result,
            reason=f"brought back by {self.name}",
            source={"kind": "sub-agent", "run": uid, **({"call": self.call} if self.call else {})},
        )
        return {
            "upstream": list(self.upstream or ()),
            "scope": self.scope,
            "counts": merged.applied,
            "warnings": merged.warnings,
            "blocked": merged.blocked_operations,
        }


def start_child(
    parent: RunRecorder,
    agent: Agent,
    payload: Any = ...,
    downstream: Sequence[str] = ("*",),
    upstream: Sequence[str] | None = None,
    scope: str | None = None,
    name: str | None = None,
) -> Child:
    """Prepare a child run; see `Context.run_agent` for the arguments."""
    if payload is ...:
        payload = extract_downstream(parent.payload.live, list(downstream))
        if scope:
            payload = apply_scope(payload, scope)
    here = current.get()
    call = here.within if here is not None and here.recorder is parent else None
    return Child(parent, agent, payload, upstream, scope, name or agent.name, call)
