"""What a re-run is asked for, as data: the edits in stored form, and how it is to go.

The command line reads it from options, the web debugger from a form or from JSON, and hands it on to the process that
executes code, as JSON again. So there is one reader, which takes nothing that it does not understand: a request that
is mistyped must not run with half of its edits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from ..recorder.errors import UsageError
from ..recorder.values import decode
from .edits import Edits, edits_of

PREFIXES: Final = ("execute", "fold")

MOST_PARTS: Final = 1_000
"""Parts of a path, at most."""

MOST: Final = 10_000
"""Edits of one kind, at most."""

NAME: Final = 20_000
"""Characters of a path, a rule or the name of a tool, at most."""

_OPERATIONS: Final = {
    "add": ("value",),
    "replace": ("value",),
    "test": ("value",),
    "remove": (),
    "move": ("from",),
    "copy": ("from",),
}


@dataclass(frozen=True, slots=True)
class RerunRequest:
    """What a re-run is asked for; values are in stored form.

    Attributes:
        step: the first live round; None where it is found otherwise.
        input: `...` where it stays.
        secrets: place in the payload → the secret itself; never part of the JSON.
        others: as for `rerun`.
    """

    step: int | None = None
    set: Mapping[str, Any] = field(default_factory=dict)
    patch: Sequence[Mapping[str, Any]] | None = None
    tool_results: Mapping[str, Any] = field(default_factory=dict)
    model_responses: Mapping[str, Any] = field(default_factory=dict)
    skip: Sequence[str] = ()
    messages: Sequence[Any] = ()
    params: Mapping[str, Any] | None = None
    input: Any = ...
    secrets: Mapping[str, str] = field(default_factory=dict)
    allow: Sequence[str] = ()
    reuse: bool = False
    prefix: str = "execute"
    compensate: bool = False
    max_rounds: int | None = None
    ignore: Sequence[str] = ()

    def edits(self, read: Callable[[Any], Any] = decode) -> Edits:
        """The edits.

        Args:
            read: gives the value that one in stored form stands for. `values.already_stored` leaves it in stored form,
                for where nothing is executed and the classes of the agent are not known.

        Raises:
            UsageError: as for `edits_of`.
        """
        return edits_of(
            set=_each(self.set, read),
            patch=[
                {name: read(part) if name == "value" else part for name, part in one.items()}
                for one in (self.patch or ())
            ],
            tool_results=_each(self.tool_results, read),
            model_responses=_each(self.model_responses, read),
            skip=list(self.skip),
            messages=[read(message) for message in self.messages],
            params=_each(self.params or {}, read),
            input=self.input if self.input is ... else read(self.input),
            secrets=self.secrets,
        )

    def values(self) -> list[tuple[str, Any]]:
        """Every value that is given, with where it stands, for messages."""
        found = [(f"the value at {path}", value) for path, value in self.set.items()]
        found += [(f"the value at {one['path']}", one["value"]) for one in (self.patch or ()) if "value" in one]
        for answers in (self.tool_results, self.model_responses):
            found += [(f"the answer of call {call}", value) for call, value in answers.items()]
        found += [("a message", message) for message in self.messages]
        found += [(f"parameter {name}", value) for name, value in (self.params or {}).items()]
        return found if self.input is ... else [*found, ("the input", self.input)]

    def to_json(self) -> dict[str, Any]:
        """As `from_json` reads it; what is as it would be anyhow is left out, and secrets always are."""
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "secrets"}
        default = RerunRequest()
        return {
            name: value
            for name, value in given.items()
            if value is not ... and value not in (getattr(default, name), [])
        } | ({"input": self.input} if self.input is not ... else {})

    @classmethod
    def from_json(cls, data: Any) -> RerunRequest:
        """Read a request.

        Args:
            data: an object with the names of `RerunRequest`, all of them optional, and no others.

        Raises:
            UsageError: something else stands there, or edits that contradict each other. The message says where.
        """
        if type(data) is not dict:
            raise UsageError(f"a re-run is asked for by a JSON object, not by {_kind(data)}")
        unknown = [name for name in data if name not in _READERS]
        if unknown:
            raise UsageError(f"there is no {unknown[0][:60]!r} in a re-run; there is {', '.join(_READERS)}")
        request = cls(**{name: _READERS[name](name, value) for name, value in data.items()})
        request.refuse_contradictions()
        return request

    def refuse_contradictions(self) -> None:
        """Refuse edits of which only one can take effect.

        Raises:
            UsageError: a call is edited in more than one way.
        """
        ways: dict[str, str] = {}
        told = [("tool_results", self.tool_results), ("model_responses", self.model_responses), ("skip", self.skip)]
        for way, calls in told:
            for call in calls:
                if call in ways:
                    raise UsageError(f"call {call[:80]} stands in {ways[call]} and in {way}: one of them can be meant")
                ways[call] = way


def _each(given: Mapping[str, Any], read: Callable[[Any], Any]) -> dict[str, Any]:
    return {name: read(value) for name, value in given.items()}


# -- reading ----------------------------------------------------------------------------------------------------------


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a number"}
    return "null" if value is None else names.get(type(value), "a number")


def _wrong(name: str, expected: str, value: Any) -> UsageError:
    return UsageError(f"{name} is {expected}, not {_kind(value)}")


def _text(name: str, value: Any) -> str:
    if type(value) is not str:
        raise _wrong(name, "a text", value)
    if not value or len(value) > NAME:
        raise UsageError(f"{name} has from 1 to {NAME:,} characters, not {len(value):,}")
    return value


def _path(name: str, value: Any) -> str:
    text = value if value == "" else _text(name, value)
    if text.count("/") > MOST_PARTS or text.count(".") > MOST_PARTS:
        raise UsageError(f"{name}: a path has at most {MOST_PARTS:,} parts: {text[:60]}…")
    return str(text)


def _few(name: str, value: Any) -> None:
    if len(value) > MOST:
        raise UsageError(f"{name} holds {len(value):,} entries; at most {MOST:,} are taken")


def _step(name: str, value: Any) -> int:
    if type(value) is not int:
        raise _wrong(name, "a whole number", value)
    return value


def _bound(name: str, value: Any) -> int | None:
    return None if value is None else _step(name, value)


def _flag(name: str, value: Any) -> bool:
    if type(value) is not bool:
        raise _wrong(name, "true or false", value)
    return value


def _prefix(name: str, value: Any) -> str:
    if value not in PREFIXES:
        raise UsageError(f"{name} is one of {', '.join(PREFIXES)}, not {str(value)[:40]!r}")
    return str(value)


def _names(name: str, value: Any) -> list[str]:
    if type(value) is not list:
        raise _wrong(name, "a list of texts", value)
    _few(name, value)
    return [_text(f"an entry of {name}", one) for one in value]


def _distinct_names(name: str, value: Any) -> list[str]:
    names = _names(name, value)
    if len(set(names)) < len(names):
        raise UsageError(f"{name} names something twice")
    return names


def _list(name: str, value: Any) -> list[Any]:
    if type(value) is not list:
        raise _wrong(name, "a list", value)
    _few(name, value)
    return value


def _object(name: str, value: Any) -> dict[str, Any]:
    if type(value) is not dict or "$type" in value:
        raise _wrong(name, "an object", value)
    _few(name, value)
    for key in value:
        _text(f"a name in {name}", key)
    return value


def _places(name: str, value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise _wrong(name, "an object: path → value", value)
    _few(name, value)
    return {_path(f"a path in {name}", path): one for path, one in value.items()}


def _patch(name: str, value: Any) -> list[dict[str, Any]]:
    operations = _list(name, value)
    for at, one in enumerate(operations):
        where = f"operation {at} of {name}"
        if type(one) is not dict:
            raise _wrong(where, 'an object such as {"op": "remove", "path": "/draft"}', one)
        op = one.get("op")
        if type(op) is not str or op not in _OPERATIONS:
            raise UsageError(f"{where}: op is one of {', '.join(_OPERATIONS)}, not {str(op)[:40]!r}")
        wanted = {"op", "path", *_OPERATIONS[op]}
        if one.keys() != wanted:
            raise UsageError(f"{where}: {op} has {', '.join(sorted(wanted))}, not {', '.join(sorted(one))[:200]}")
        for key in wanted & {"path", "from"}:
            pointer = _path(f"{key} in {where}", one[key])
            if pointer and not pointer.startswith("/"):
                raise UsageError(f'{key} in {where} is a JSON Pointer such as "/draft", not {pointer[:60]!r}')
    return operations


def _any(name: str, value: Any) -> Any:
    return value


_READERS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "step": _step,
    "set": _places,
    "patch": _patch,
    "tool_results": _object,
    "model_responses": _object,
    "skip": _distinct_names,
    "messages": _list,
    "params": _object,
    "input": _any,
    "allow": _names,
    "reuse": _flag,
    "prefix": _prefix,
    "compensate": _flag,
    "max_rounds": _bound,
    "ignore": _names,
}
