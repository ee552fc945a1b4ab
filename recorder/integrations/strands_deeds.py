"""What a tool does beside its result: to the loop that runs it, and to the state that an invocation hands through.

`invocation_state` is the SDK's way of passing things from tool to tool, and to hooks. So what a tool changes there is
recorded with its call, key by key, and done again where the call is answered from a log. Only data can be: of
anything else the record names the key and the class, and a replay warns that it is missing. What is changed inside of
an object that is not plain is not seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Final

import orjson
from strands import Agent

from ..copying import copy_value
from ..encoding import encode
from ..errors import UsageError
from ..hashes import same
from ..likeness import likeness, value_of
from ..plain import is_plain
from ..scope import current

OF_THE_LOOP: Final = frozenset(
    (
        "agent",
        "event_loop_cycle_id",
        "event_loop_cycle_span",
        "event_loop_cycle_trace",
        "event_loop_parent_cycle_id",
        "request_state",
    )
)
"""The keys of an invocation's state that are the loop's own; it sets them in a replay, too."""

OF_THE_TOOLS: Final = frozenset(("messages", "model", "system_prompt", "tool_config"))
"""The keys that whoever calls a tool sets there before; in a graph, agents beside each other set them in one place."""

_ATOMS: Final = (str, int, float, bool, type(None), bytes, bytearray, complex)
_CONTAINERS: Final = (dict, list, tuple, set, frozenset)

HANDED: Final = "invocation_state"
LEFT_OUT: Final = "invocation_state_left_out"
"""The parameters of a run that tell what its invocation was given to hand through."""


class Deeds:
    """How an agent's signals, and what its invocation hands through, were at one moment."""

    __slots__ = ("_handed", "_is_own", "_loop")

    def __init__(self, loop: dict[str, Any], handed: dict[str, tuple[Any, bytes | None]], is_own: bool) -> None:
        self._loop = loop
        self._handed = handed
        self._is_own = is_own

    @classmethod
    def of(cls, agent: Agent, invocation_state: Mapping[str, Any]) -> Deeds:
        """How it is now."""
        handed = {
            key: (value, likeness(value) if key in OF_THE_TOOLS or is_data(value) else None)
            for key, value in invocation_state.items()
            if key not in OF_THE_LOOP
        }
        return cls(_loop_of(agent, invocation_state), handed, _is_of(agent, invocation_state))

    def since(self, agent: Agent, invocation_state: Mapping[str, Any]) -> dict[str, Any] | None:
        """What has been done since then, as an item tells it; None if nothing was."""
        did = {key: value for key, value in _loop_of(agent, invocation_state).items() if value != self._loop[key]}
        put: dict[str, Any] = {}
        lost: dict[str, str] = {}
        is_own = self._is_own and _is_of(agent, invocation_state)
        for key, value in invocation_state.items():
            if key in OF_THE_LOOP or (key in OF_THE_TOOLS and not is_own):
                continue
            if key in self._handed and _is_still(key, value, *self._handed[key]):
                continue
            if is_data(value) and isinstance(key, str):
                put[key] = copy_value(value)
            else:
                lost[str(key)] = f"{type(value).__module__}.{type(value).__qualname__}"
        gone = [key for key in self._handed if key not in invocation_state]
        told = {"set": put, "deleted": gone, "not recorded": lost}
        if any(told.values()):
            did["invocation_state"] = {name: one for name, one in told.items() if one}
        return did or None


def is_data(value: Any) -> bool:
    """Whether a value is data that a record gives back exactly: JSON, and tuples, sets, bytes, numbers of any size.

    Types are looked at before anything else: an array of numbers may be large, and is copied by whoever writes it.
    """
    return is_plain(value) or (_is_of_builtins(value) and likeness(value) is not None and not encode(value).lossy)


def _is_of_builtins(value: Any) -> bool:
    todo, seen = [value], set()
    while todo:
        one = todo.pop()
        if type(one) in _ATOMS:
            continue
        if type(one) not in _CONTAINERS:
            return False
        if id(one) not in seen:
            seen.add(id(one))
            todo += [*one, *one.values()] if type(one) is dict else one
    return True


def given_by(state: Any) -> dict[str, Any]:
    """What an invocation is given to hand through, as parameters of its run: data, and of other values the class."""
    data: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for key, value in state.items() if isinstance(state, Mapping) else ():
        if key in OF_THE_LOOP or key in OF_THE_TOOLS:
            continue
        if is_data(value):
            data[key] = copy_value(value)
        else:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            left_out[str(key)] = value.kind if type(value) is LeftOut else kind
    return {name: one for name, one in ((HANDED, data), (LEFT_OUT, left_out)) if one}


def given_again(params: dict[str, Any]) -> dict[str, Any]:
    """Take out of recorded parameters what an invocation was given to hand through, as the option that it is.

    Warns of what could not be recorded of it; something stands in its place.
    """
    left_out, handed = params.pop(LEFT_OUT, None), params.pop(HANDED, None)
    if left_out is None and handed is None:
        return {}
    stand_ins = {key: LeftOut(key, kind) for key, kind in (left_out or {}).items()}
    for one in stand_ins.values():
        warnings.warn(str(one), stacklevel=2)
    return {HANDED: {**copy_value(handed or {}), **stand_ins}}


class LeftOut:
    """Stands for what an invocation was given and a recording cannot hold; whoever makes use of it is told so.

    Attributes:
        kind: what it stands for.
    """

    def __init__(self, key: str, kind: str) -> None:
        self.kind = kind
        self._key = key

    def __str__(self) -> str:
        return (
            f"the invocation was given a {self.kind} in invocation_state[{self._key!r}], which a recording cannot "
            "hold. Hooks, and tools that are run, cannot use it; name a function that invokes the agent with one, "
            "instead of what makes the agent"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        refused, scope = UsageError(str(self)), current.get()
        if scope is not None and scope.recorder.attachment is not None:
            scope.recorder.attachment.stop(refused)  # the SDK's loop wraps what is raised in it
        raise refused


def _is_still(key: str, value: Any, before: Any, known: bytes | None) -> bool:
    """Whether a value is what was there before; of what is no data, whether it is the same object."""
    if known is None:
        return value is before
    # The conversation is long, and looked into nowhere else.
    return (key in OF_THE_TOOLS or _is_of_builtins(value)) and (
        likeness(value) == known or is_exactly(value_of(known), value)
    )


def _is_of(agent: Agent, invocation_state: Mapping[str, Any]) -> bool:
    """Whether what is set there for a tool is that of an agent; agents beside each other in a graph share the place."""
    return invocation_state.get("agent") is agent


def _loop_of(agent: Agent, invocation_state: Mapping[str, Any]) -> dict[str, Any]:
    """What a tool may do to the loop that runs it: have it stop, now or after the tools, with a last word."""
    request_state = invocation_state.get("request_state")
    return {
        "cancelled": agent.cancel_signal.is_set(),
        "after_current_tools": bool(getattr(agent, "_deferred_cancel", False)),
        "message": getattr(agent, "_cancel_message", None),
        "request_state": copy_value(request_state) if isinstance(request_state, Mapping) else {},
    }


def is_exactly(one: Any, other: Any) -> bool:
    """Whether two values are the same, types included.

    `==` takes `1`, `1.0` and `true` for one; what it denies stands. What JSON holds is told apart as that, quickly.
    """
    try:
        if one != other:
            return False
        return orjson.dumps(one, None, orjson.OPT_SORT_KEYS) == orjson.dumps(other, None, orjson.OPT_SORT_KEYS)
    except Exception:  # bytes, say; or a class of the user's own that does not let itself be compared
        return same(encode(one).stored, encode(other).stored)


def redo(agent: Agent, did: Mapping[str, Any], invocation_state: dict[str, Any]) -> None:
    """Do to an agent what a tool did that is answered from a log."""
    handed = did.get("invocation_state") or {}
    for key, value in (handed.get("set") or {}).items():
        if key not in OF_THE_TOOLS or _is_of(agent, invocation_state):
            _put(invocation_state, key, copy_value(value))
    for key in handed.get("deleted") or ():
        invocation_state.pop(key, None)
    for key, kind in (handed.get("not recorded") or {}).items():
        warnings.warn(
            f"a tool put a {kind} into invocation_state[{key!r}], which a recording cannot hold; "
            "tools and hooks that read it find nothing of it in a replay. Name the tool in steering= to have it run",
            stacklevel=2,
        )
    now = _loop_of(agent, invocation_state)
    if all(now[key] == value for key, value in did.items() if key in now):
        return
    if did.get("after_current_tools"):
        agent.cancel(message=did.get("message"), after_current_tools=True)
    if did.get("cancelled"):
        agent.cancel(message=did.get("message"))
    invocation_state.setdefault("request_state", {}).update(did.get("request_state", {}))


def _put(state: dict[str, Any], key: str, value: Any) -> None:
    """Set a value; of a dict or list that somebody may hold, what is in it."""
    kept = state.get(key)
    if type(kept) is dict and type(value) is dict:
        kept.clear()
        kept.update(value)
    elif type(kept) is list and type(value) is list:
        kept[:] = value
    else:
        state[key] = value


__all__ = ["Deeds", "given_again", "given_by", "is_exactly", "redo"]
