"""The state log: what is written to `agent.state` while a run is recorded, as changes of the run's payload.

Strands has no event for a write, and looking at the state after each tool would blame the wrong one where tools run
beside each other. So for as long as a run lasts the state object is of a class that tells each `set` and `delete`. In
which call that happened, the scope of the running code says, as for any change of a payload.

The other way round, what the record says is put into the agent: what a tool that is answered from a log had written,
and what a person has edited.
"""

from __future__ import annotations

import copy
import functools
import weakref
from collections.abc import Mapping
from typing import Any, Final

from strands import Agent
from strands.types.json_dict import JSONSerializableDict

from ..errors import UsageError
from ..live_payload import LivePayload
from ..run_recorder import RunRecorder
from ..scope import current
from .strands_deeds import is_exactly

_logs: Final[weakref.WeakKeyDictionary[JSONSerializableDict, list[StateLog]]] = weakref.WeakKeyDictionary()
"""Who is told of the writes to a state: the runs of its agent that are in progress."""


class StateLog:
    """Records the writes to one agent's state in one run.

    Args:
        agent: whose state it is.
        recorder: of the run; its payload is the state.
    """

    def __init__(self, agent: weakref.ref[Agent], recorder: RunRecorder) -> None:
        self._agent = agent
        self._recorder = recorder
        self._state: JSONSerializableDict | None = None
        self._seen: Any = recorder.payload.tree

    def _of(self) -> Agent:
        agent = self._agent()
        assert agent is not None  # it is being invoked
        return agent

    @property
    def recorder(self) -> RunRecorder:
        """Of the run."""
        return self._recorder

    def begin(self) -> None:
        """Tell of writes from now on."""
        self._state = state = self._of().state
        _logs.setdefault(state, []).append(self)
        if not isinstance(state, _Told):
            cls: Any = type(state)
            state.__class__ = _told(cls)

    def end(self) -> None:
        """Tell of no more; the state is what it was before."""
        state, self._state = self._state, None
        if state is None:
            return
        logs = _logs.get(state, [])
        if self in logs:
            logs.remove(self)
        if not logs and isinstance(state, _Told):
            _logs.pop(state, None)
            state.__class__ = type(state).__mro__[2]

    def catch_up(self) -> None:
        """Record what came past `set` and `delete`: another state object in the place of the first."""
        if self._state is None or self._of().state is self._state:
            return
        self.end()
        self.begin()
        state = self._of().state.get()
        self._recorder.change_whole(
            lambda _: state, source={"kind": "code"}, reason="the agent was given another state"
        )
        self._seen = self._recorder.payload.tree

    def take_over(self) -> None:
        """Begin with the recorded payload, where the agent's own state is another one. A secret is no other value."""
        recorder, state = self._recorder, self._of().state
        own = state.get()
        if LivePayload(own, recorder.store.redactor).hash == recorder.payload.hash:
            return
        live: Any = recorder.live()
        for key in [key for key in own if key not in live]:
            JSONSerializableDict.delete(state, key)
        for key, value in live.items():
            if key not in own or not is_exactly(own[key], value):
                JSONSerializableDict.set(state, key, copy.deepcopy(value))

    def written(self, key: str, value: Any) -> None:
        """Record that a value was set."""
        self._change([{"op": "add", "path": _pointer(key), "value": value}])

    def deleted(self, key: str) -> None:
        """Record that a value was deleted, if there was one."""
        if key in self._recorder.payload.tree:
            self._change([{"op": "remove", "path": _pointer(key)}])

    def _change(self, patch: list[dict[str, Any]]) -> None:
        if self._recorder.recording:
            self.follow()
            self._recorder.change(patch, applier="json-patch")
            self._seen = self._recorder.payload.tree

    def follow(self) -> None:
        """Put into the agent's state what the payload has and the agent did not write: the record says so."""
        payload, seen = self._recorder.payload.tree, self._seen
        if payload is seen or self._state is None:
            return
        self._seen = payload
        live: Any = self._recorder.live()
        if not isinstance(live, Mapping):
            refused = UsageError(
                f"the state of an agent of Strands holds values by their keys, so it cannot be {live!r}; "
                "set a key of it, such as /name"
            )
            if self._recorder.attachment is not None:
                self._recorder.attachment.stop(refused)  # the SDK's loop wraps what is raised in it
            raise refused
        before: Mapping[str, Any] = seen if isinstance(seen, Mapping) else {}
        for key in live:
            if key not in before or before[key] is not payload[key]:
                JSONSerializableDict.set(self._state, key, copy.deepcopy(live[key]))
        for key in before:
            if key not in live:
                JSONSerializableDict.delete(self._state, key)


class _Told:
    """Marks the classes whose instances tell of writes."""


@functools.lru_cache(maxsize=64)
def _told(cls: Any) -> Any:
    """A subclass, of the same layout, that tells of writes. Nothing else about it is different."""

    class Told(_Told, cls):  # type: ignore[misc]  # the class is known at run time only
        def set(self, key: str, value: Any) -> None:
            with self._lock:  # so that the record has the writes of threads in the order in which they came
                super().set(key, value)
                if (log := _log_of(self)) is not None:
                    log.written(key, self._data[key])

        def delete(self, key: str) -> None:
            with self._lock:
                super().delete(key)
                if (log := _log_of(self)) is not None:
                    log.deleted(key)

    Told.__name__, Told.__qualname__, Told.__module__ = cls.__name__, cls.__qualname__, cls.__module__
    return Told


def _log_of(state: JSONSerializableDict) -> StateLog | None:
    """Where a write to a state is recorded: in the run in which it happens, else in the last that has begun."""
    logs = _logs.get(state)
    if not logs:
        return None
    scope = current.get()
    here = (log for log in logs if scope is not None and log.recorder is scope.recorder)
    return next(here, logs[-1])


def _pointer(key: str) -> str:
    return "/" + key.replace("~", "~0").replace("/", "~1")
