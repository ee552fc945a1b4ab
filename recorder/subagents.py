"""Child runs: an agent, or a recorded loop, that runs from within another run.

The child has a log of its own; its parent records that it started and finished, and how its payload came back. What it
sees of the parent's payload, and what it may bring back, follow MemberJunction's rules for sub-agents.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from .agent_result import AgentResult
from .attaching import Guard
from .error_info import error_info
from .events import Data, SubrunFinishedData, SubrunStartedData
from .introspection import clean
from .leaves import live_tree
from .live_payload import LivePayload
from .locate import find_store
from .payload import ChangeResult, apply_scope, extract_downstream, merge_upstream, reverse_scope
from .run_recorder import RunRecorder
from .scope import Scope, current
from .store import EventStore
from .turns import in_turn
from .values import already_stored, encode


@dataclass(frozen=True, slots=True)
class Parent:
    """Where in another run a child run starts.

    Attributes:
        scope: in the parent.
        name: what the parent calls the child.
        upstream: path specs of what the child may bring back; None brings nothing back.
        part: pointer of the part of the parent's payload that is the child's whole payload, or None.
    """

    scope: Scope
    name: str
    upstream: Sequence[str] | None = None
    part: str | None = None

    @property
    def recorder(self) -> RunRecorder:
        """The parent's."""
        return self.scope.recorder

    @property
    def reference(self) -> dict[str, Any]:
        """What the child's log says of its parent."""
        return {"run": self.recorder.info.uid, "call": self.scope.within}

    def guard(self, payload: Any, input: Any, params: Mapping[str, Any] | None) -> Guard | None:
        """What is asked before the child makes a call, where it is not attached to a recording itself.

        Args:
            payload, input, params: what the child begins with.
        """
        around = self.recorder.attachment or self.recorder.guard
        begun_with = {"payload": payload, "input": input, "params": params or {}}
        return None if around is None else around.of_child(self.name, begun_with, self.scope)

    def started(self, child: RunRecorder, cancelled: bool = False) -> None:
        """Record in the parent that the child has started; or was cancelled before any of its code ran."""

        def make() -> Data:
            uid, name, call = child.info.uid, clean(self.name), self.scope.within
            return SubrunStartedData(run=uid, name=name, call=call, turn=self._turn(), cancelled=cancelled)

        self.recorder.emit("subrun.started", make, scope=self.scope)

    async def astarted(self, child: RunRecorder, cancelled: BaseException | None = None) -> None:
        """`started`, in its turn: a thread has recorded the child's start, and came back whenever it was through.

        Args:
            child: the child's recorder.
            cancelled: what has cancelled it meanwhile; that is recorded at once, and raised.
        """
        started = functools.partial(self.started, child)
        if cancelled is not None:
            started(True)
            raise cancelled
        await self._in_turn("subrun.started", child, started)

    def finished(
        self, child: RunRecorder, status: str, result: AgentResult | None, error: BaseException | None = None
    ) -> None:
        """Record in the parent how the child ended, and bring its payload back."""
        merge = self._bring_back(child) if self.upstream is not None and status == "completed" else None

        def make() -> Data:
            return SubrunFinishedData(
                run=child.info.uid,
                status=status,
                result=None if result is None else result.to_json(),
                error=None if error is None else error_info(error),
                merge=merge,
                turn=self._turn(),
            )

        self.recorder.emit("subrun.finished", make, scope=self.scope)

    async def afinished(
        self, child: RunRecorder, status: str, result: AgentResult | None, error: BaseException | None = None
    ) -> None:
        """`finished`, in its turn: the child's end is committed, which took whatever time it took."""
        finished = functools.partial(self.finished, child, status, result, error)
        if type(error) is GeneratorExit:  # a coroutine that is closed may not await
            finished()
        else:
            await self._in_turn("subrun.finished", child, lambda _: finished())

    async def _in_turn(self, kind: str, child: RunRecorder, append: Callable[[bool], None]) -> None:
        attachment = self.recorder.attachment
        cancelled = True
        async with AsyncExitStack() as stack:
            try:
                if attachment is None or not await attachment.turn(kind, child.info.uid, self.scope):
                    await stack.enter_async_context(in_turn(self.scope))
                cancelled = False
            finally:  # at once, if that was cancelled: the child has started, or ended, all the same
                append(cancelled)

    def _turn(self) -> int | None:
        return self.recorder.log.turn_of_event() if self.scope.within is None else None

    def _bring_back(self, child: RunRecorder) -> dict[str, Any]:
        """Merge the child's payload into the parent's, as far as the path specs allow; one change of the parent's."""
        upstream, merged = list(self.upstream or ()), ChangeResult(None, {})
        theirs = reverse_scope(child.payload.tree, self.part) if self.part else child.payload.tree

        def payload(ours: LivePayload) -> Any:
            nonlocal merged
            merged = merge_upstream(ours.tree, theirs, upstream, self.name)
            return live_tree(merged.result)

        source = {"kind": "sub-agent", "run": child.info.uid}
        if self.scope.within is not None:
            source["call"] = self.scope.within
        self.recorder.change_whole(payload, source=source, reason=f"brought back by {self.name}")
        return {
            "upstream": upstream,
            "scope": self.part,
            "counts": merged.applied,
            "warnings": merged.warnings,
            "blocked": [self._redacted(operation) for operation in merged.blocked_operations],
        }

    def _redacted(self, operation: dict[str, Any]) -> dict[str, Any]:
        """A blocked operation, its values redacted as they are at its path in the payload."""
        redactor, path = self.recorder.store.redactor, str(operation.get("path", "")).split(".")
        values = {name: encode(live_tree(operation[name])).stored for name in ("from", "to") if name in operation}
        return operation | {name: already_stored(redactor.redact(stored, path)) for name, stored in values.items()}


def parent_of(store: EventStore | str | None, name: str) -> Parent | None:
    """The place in another run from which a run starts here; None if it is a run of its own.

    It is one inside of no run, and where it is to be recorded in another store than the run around it.
    """
    scope = current.get()
    if scope is None or not scope.recorder.recording:
        return None
    around = scope.recorder.store
    inside = store is around if isinstance(store, EventStore) else store is None or find_store(store) == around.url
    return Parent(scope, name) if inside else None


def downstream_payload(parent: RunRecorder, downstream: Sequence[str], part: str | None) -> Any:
    """What a child sees of its parent's payload; see `Context.run_agent`."""
    payload = extract_downstream(parent.live(), list(downstream))
    return apply_scope(payload, part) if part else payload
