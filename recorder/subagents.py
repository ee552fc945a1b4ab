"""Child runs: an agent, or a recorded loop, that runs from within another run.

The child has a log of its own; its parent records that it started and finished, and how its payload came back. What it
sees of the parent's payload, and what it may bring back, follow MemberJunction's rules for sub-agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .agent_result import AgentResult
from .events import SubrunFinishedData, SubrunStartedData
from .introspection import clean
from .leaves import live_tree
from .live_payload import LivePayload
from .locate import find_store
from .payload import ChangeResult, apply_scope, extract_downstream, merge_upstream, reverse_scope
from .run_recorder import RunRecorder, error_info
from .scope import Scope, current
from .store import EventStore
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

    def started(self, child: RunRecorder) -> None:
        """Record in the parent that the child has started."""
        data = SubrunStartedData(run=child.info.uid, name=clean(self.name), call=self.scope.within)
        self.recorder.emit("subrun.started", data, scope=self.scope)

    def finished(
        self, child: RunRecorder, status: str, result: AgentResult | None, error: BaseException | None = None
    ) -> None:
        """Record in the parent how the child ended, and bring its payload back."""
        merge = self._bring_back(child) if self.upstream is not None and status == "completed" else None
        data = SubrunFinishedData(
            run=child.info.uid,
            status=status,
            result=None if result is None else result.to_json(),
            error=None if error is None else error_info(error),
            merge=merge,
        )
        self.recorder.emit("subrun.finished", data, scope=self.scope)

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
