"""Recorded answers, as the objects that the agent got.

A replay answers a call from the log, where the answer has its stored form. The agent must not notice: it gets an object
of exactly the recorded type, or none at all. A dict in the place of an order, or a description in the place of a
connection, would lead the agent somewhere else, and the replay would blame the agent. So what cannot be had exactly
stops the replay, before any of the answer is handed out, with an error that says what to declare.

Errors are looser, since most code does not look at one closer than to catch it. Their classes need no declaration where
the program has loaded them (`loaded_errors`), and of such a one the parts that cannot be had are described. Where the
class of an exception is not known at all, a `RecordedError` stands for it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from operator import is_
from types import MethodType
from typing import Any, Final, NamedTuple

from ..recorder.calls import Effect
from ..recorder.decoding import decode_noting
from ..recorder.errors import LossyAnswer, RecordedError, UnknownType, UnregisteredType
from ..recorder.events import ErrorInfo
from ..recorder.introspection import inherits, isinstance_of
from ..recorder.rebuilding import PLAIN_DATA
from ..recorder.structured_types import BUILTIN_ERRORS
from ..recorder.values import TypeRegistry, default_types, has_tags, is_tag
from ..recorder.verbatim import Opaque
from .declared_types import DeclaredTypes
from .paths import Keys, join

_NEVER_RAISED: Final = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)
"""What comes from outside of the code; where a recording has it in an error, it must not seem to come again."""

_NAMED: Final = 3
"""Annotations that a message names."""

_SHOWN: Final = 200
"""Characters of a `repr` that a message shows."""


class AnswerTypes:
    """The classes that the recorded answers of one effect may become.

    What its return annotation and `returns=` reach, `raises=`, registered and built-in types.

    Args:
        effect: for messages.
        declared: the classes that its code declares.
    """

    __slots__ = ("_declared", "_effect")

    def __init__(self, effect: Effect, declared: DeclaredTypes) -> None:
        self._effect = effect
        self._declared = declared

    @classmethod
    def of(cls, effect: Effect, fn: Callable[..., Any] | None, types: TypeRegistry | None = None) -> AnswerTypes:
        """Find the classes of an effect; from memory where it was asked before.

        Args:
            effect: as it was declared.
            fn: the callable that was made an effect, if there is one.
            types: the registered types; by default those of `register_type`.
        """
        function = fn.__func__ if isinstance(fn, MethodType) else fn
        return cls(effect, _declared(_Sources(effect.returns, effect.raises, function, types or default_types)))

    def value(self, stored: Any, where: str) -> Any:
        """Return a recorded result as the agent got it.

        Plain parts are the objects of the stored tree themselves, so the tree must be the caller's to give away.

        Args:
            stored: the result in stored form.
            where: the place in the recording, which begins the message of an error: "run42, step 3, call c7".

        Raises:
            UnknownType: it holds an instance of a class that is neither declared nor registered, or that has changed
                so that it cannot hold what was recorded.
            LossyAnswer: a part of it was not stored exactly, or cannot be read.
        """
        return self._read(stored, f"{where}: the recorded answer of") if has_tags(stored) else stored

    def chunks(self, stored: list[Any], where: str) -> list[Any]:
        """Return the items of a recorded stream, in a new list; all of them, or an error as in `value`."""
        return [*self.value(stored, where)]

    def error(self, info: ErrorInfo, where: str) -> BaseException:
        """Return a recorded exception, a new object each time, ready to be raised.

        It is of its class if that is declared, registered, built in, or loaded; else a RecordedError. So are its cause
        and the members of an exception group. What was raised from outside (a cancellation, Ctrl-C) is a RecordedError
        too. Of a class that is not declared but loaded, what was not stored exactly is an `Opaque` in an attribute.

        Args:
            info: the error as an event holds it, its `value` in stored form.
            where: as in `value`.

        Raises:
            UnknownType, LossyAnswer: its class is declared, and something in it is not, or was not stored exactly.
        """
        tag = info.value
        made = None
        if is_tag(tag) and tag["$type"] in ("exception", "registered", "opaque") and self._error_class(tag) is not None:
            try:
                made = self._read(tag, f"{where}: the recorded error of", in_error=True)
            except (UnknownType, LossyAnswer):
                if not self._is_only_loaded(tag):
                    raise
        if made is not None and isinstance_of(made, BaseException):
            return made  # type: ignore[no-any-return]  # as was just asked
        return RecordedError(info.type, info.message, info.traceback)

    def lacks(self, info: ErrorInfo, made: BaseException, where: str) -> str | None:
        """What code may do otherwise because of what `error` has made of a recorded error, and what to do about it.

        Returns:
            A sentence or two; None where the error is what the agent got.
        """
        tag = info.value
        if not is_tag(tag) or type(tag.get("class")) is not str:
            return None
        found = _Found(tag, ())
        if type(made) is RecordedError:
            return (
                f"{where}: it had failed with {found.wanted}, and no class of that name is declared or loaded, so a "
                f"RecordedError was raised, which `except {found.short}` does not catch: "
                f"{self._to_declare_error(found.short)}"
            )
        *_, described = self._look_into(tag, True)
        if not described:
            return None
        places = ", ".join(one.described for one in described[:_NAMED])
        return f"{where}: of the {found.wanted} that was raised only a description is known of {places}"

    def _to_declare_error(self, short: str) -> str:
        return f"give @ar.{self._effect.kind}(raises=({short},)), or call ar.register_type({short}) beforehand"

    # -- reading -------------------------------------------------------------------------------------

    def _read(self, stored: Any, what: str, *, in_error: bool = False) -> Any:
        given, lossy, _ = self._look_into(stored, in_error)
        if lossy:
            raise self._lossy(lossy, what)
        value, unread = decode_noting(stored, self._declared, given)
        if unread:
            by_id = {id(one.tag): one for one in unread.values()}
            found = [
                _Found(node, keys, by_id[id(node)].why, by_id[id(node)].category is UnregisteredType)
                for node, keys in containers(stored, given)
                if id(node) in by_id
            ]
            raise self._unreadable(found, what)
        return value

    def _look_into(self, stored: Any, in_error: bool) -> tuple[dict[int, Any], list[_Found], list[_Found]]:
        """What is known without reading it, by the id of its tag; what is lossy of all else; what is only described."""
        given: dict[int, Any] = {}
        lossy, described = [], []
        within: set[int] = set()  # the containers in errors that nobody declared
        for node, keys in containers(stored, given):
            if in_error and (id(node) in within or self._is_only_loaded(node)):
                within.update(map(id, node.values() if type(node) is dict else node))
            kind = node.get("$type") if type(node) is dict else None
            if type(kind) is not str:
                continue
            if kind in PLAIN_DATA:
                # From the outside in: a subclass of what is declared is found now, and declares what is within it.
                self._class(node)
            if kind == "enum" and (member := self._member(node)) is not None:
                given[id(node)] = member
            elif (
                in_error
                and kind == "exception"
                and ((keys and node.get("lossy") is True) or self._error_class(node) is None)
            ):
                given[id(node)] = _stand_in(node)
            elif id(node) in within and self._is_only_described(node):
                given[id(node)] = Opaque(str(node.get("class")), str(node.get("repr", "…")))
                described.append(_Found(node, keys))
            elif kind == "opaque" or node.get("lossy") is True:
                lossy.append(_Found(node, keys))
        return given, lossy, described

    def _is_only_loaded(self, node: Any) -> bool:
        """Whether this is an exception of a class that nobody declared; it may be known because it is loaded."""
        name = node.get("class") if type(node) is dict and node.get("$type") == "exception" else None
        return type(name) is str and self._declared.find(name) is None and name not in BUILTIN_ERRORS

    def _is_only_described(self, tag: dict[str, Any]) -> bool:
        kind = tag["$type"]
        if kind in PLAIN_DATA and kind not in ("exception", "class") and self._class(tag) is None:
            return True
        return kind == "opaque" or tag.get("lossy") is True

    def _class(self, tag: dict[str, Any]) -> Any:
        name = tag.get("class")
        if type(name) is not str:
            return None
        entry = self._declared.find_error(name) if tag["$type"] == "exception" else self._declared.find(name)
        return entry and entry.cls

    def _member(self, tag: dict[str, Any]) -> Any:
        """The member of a known enum, by name: its value may be something that cannot be stored."""
        cls, name = self._class(tag), tag.get("name")
        return cls.__members__.get(name) if cls is not None and inherits(cls, Enum) and type(name) is str else None

    def _error_class(self, tag: dict[str, Any]) -> Any:
        cls = self._class(tag) or BUILTIN_ERRORS.get(str(tag.get("class")))
        if cls is None or not inherits(cls, BaseException) or any(inherits(cls, kind) for kind in _NEVER_RAISED):
            return None
        return cls

    # -- saying what is missing ----------------------------------------------------------------------

    def _lossy(self, found: list[_Found], what: str) -> LossyAnswer:
        first = found[0]
        others = f", and {len(found) - 1} more" if len(found) > 1 else ""
        message = (
            f"{what} {self._named} was not stored exactly: of {first.described} only a part is known{others}. "
            f"Record the run again, with an ar.register_type({first.short}, encode=…, decode=…) that makes it "
            f"something that can be stored, or with plain data in its place."
        )
        return LossyAnswer(message, effect=self._effect.name, pointer=first.pointer, wanted=first.wanted)

    def _unreadable(self, found: list[_Found], what: str) -> UnknownType | LossyAnswer:
        first = found[0]
        facts = {"effect": self._effect.name, "pointer": first.pointer, "wanted": first.wanted}
        if first.is_undeclared:
            others = ", ".join(dict.fromkeys(one.described for one in found[1:] if one.is_undeclared))
            return UnknownType(
                f"{what} {self._named} has {first.described}, and only classes that the code declares come back. "
                + self._to_declare(first)
                + (f" So with {others}." if others else ""),
                **facts,
            )
        if "class" in first.tag:
            return UnknownType(
                f"{what} {self._named} has {first.described}, which cannot be built: {first.why}. "
                "The class is not what it was; replay with the code that was recorded, or record the run again.",
                **facts,
            )
        return LossyAnswer(
            f"{what} {self._named} has {first.described}, which cannot be read: {first.why}. "
            "`agentreplay verify` tells whether the recording is sound; if it is, a newer version has written it.",
            **facts,
        )

    def _to_declare(self, missing: _Found) -> str:
        name, short = self._effect.name, missing.short
        if self._declared.is_ambiguous(missing.wanted):
            return f"{name} declares two classes of that name; call ar.register_type with the one that is meant."
        if missing.tag["$type"] == "registered":
            return "It was stored by the encode= of an ar.register_type; call that one, decode= included, beforehand."
        advice = (
            f"Annotate that {name} returns it, or give @ar.{self._effect.kind}(returns={short}), "
            f"or call ar.register_type({short}) beforehand."
        )
        if unresolved := self._declared.unresolved:
            texts = ", ".join(map(repr, unresolved[:_NAMED]))
            advice += f" Annotations in which a name could not be resolved: {texts}."
        return advice

    @property
    def _named(self) -> str:
        return f"the {self._effect.kind} {self._effect.name}"


class _Found(NamedTuple):
    """A tag that keeps an answer from being handed out: where it is, and what is wrong with it."""

    tag: dict[str, Any]
    keys: Keys
    why: str = ""
    is_undeclared: bool = False

    @property
    def pointer(self) -> str:
        return join(self.keys)

    @property
    def wanted(self) -> str:
        name = self.tag.get("class")
        return name if type(name) is str else str(self.tag["$type"])

    @property
    def short(self) -> str:
        """The class as its own module calls it."""
        return self.wanted.rpartition(":")[2].rpartition("<locals>.")[2]

    @property
    def described(self) -> str:
        shown = self.tag.get("repr")
        text = f" ({shown[:_SHOWN]})" if type(shown) is str else ""
        return f"a {self.wanted}{text} at {self.pointer!r}" if self.keys else f"a {self.wanted}{text}"


def containers(root: Any, closed: Mapping[int, Any]) -> Iterator[tuple[Any, Keys]]:
    """The dicts and lists of a stored tree with their paths, in order; none within one that `closed` has by then."""
    todo: list[tuple[Any, Keys]] = [(root, ())]
    while todo:
        node, keys = todo.pop()
        yield node, keys
        if id(node) not in closed:
            inner: Any = node.items() if type(node) is dict else enumerate(node)
            todo.extend([(item, (*keys, key)) for key, item in inner if type(item) is dict or type(item) is list][::-1])


def _stand_in(tag: dict[str, Any]) -> RecordedError:
    """Stands for an exception of which there is a tag only."""
    args, message = tag.get("args"), tag.get("message")
    if type(message) is not str:  # it is stored where the arguments do not tell it
        args = args if type(args) is list else []
        message = str(args[0]) if len(args) == 1 else str(tuple(args)) if args else ""
    return RecordedError(str(tag.get("class")).replace(":", ".", 1), message)


class _Sources:
    """What the classes of an effect follow from: the same only where all of it is the same objects."""

    __slots__ = ("function", "parts", "raises", "returns", "types")

    def __init__(self, returns: Any, raises: Any, function: Any, types: TypeRegistry) -> None:
        self.returns = returns
        self.raises = raises
        self.function = function
        self.types = types
        self.parts = (returns, raises, function, types)

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.parts)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sources) and all(map(is_, self.parts, other.parts))


@functools.lru_cache(maxsize=512)
def _declared(by: _Sources) -> DeclaredTypes:
    return DeclaredTypes(by.types, fn=by.function, also=(by.returns, by.raises))
