"""Watching an expression: what it comes to at every step of a run, and where that changed.

The language is JMESPath, over the payload, or over the whole state as `agentreplay state --all --json` prints it. It
sees the payload as whoever wrote it does (see `insides`): a tuple is a list, a dataclass an object of its fields, and
a value such as a Decimal or a date counts as the text it is written as, but is shown as what it is.

Where the payload is the same object as a step before, nothing is evaluated: most steps leave most of a payload alone.

An expression comes from anybody, and a short one can ask for more than there is memory (`[@,@]|[@,@]|…`). So what one
evaluation does is counted, and it ends as an expression that does not apply.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.visitor import TreeInterpreter, _Expression

from ..recorder.errors import UsageError
from ..recorder.values import decode, encode
from .changes import MISSING
from .equality import same
from .insides import inside_of, name_of
from .paths import Keys, display_keys, join
from .places import nearest, reached

LONGEST: Final = 2_000
"""Characters of an expression, at most."""

ROOM: Final = 500_000
"""So many parts of values are looked at, and so many characters made, by one evaluation at most."""

TOO_MUCH: Final = f"it looks at more than {ROOM:,} parts of values, or makes so long a text"
"""Why an expression does not apply that would do more."""


@dataclass(frozen=True, slots=True)
class Span:
    """Steps in which an expression came to the same.

    Attributes:
        first, last: the steps, both included; step 0 is the start.
        value: in stored form; `MISSING` where a path leads to nothing, or the expression does not apply.
        problem: why it does not apply, or None.
    """

    first: int
    last: int
    value: Any
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        """`{first, last, value, missing, problem}`; `value` is null where it is missing."""
        missing = self.value is MISSING
        return {
            "first": self.first,
            "last": self.last,
            "value": None if missing else self.value,
            "missing": missing,
            "problem": self.problem,
        }


@dataclass(frozen=True, slots=True)
class Watched:
    """What an expression came to in a run.

    Attributes:
        run: the run's id.
        expression: as it was given.
        path: the JSON Pointer that the expression is, if it is no more than a path into the payload; else None.
        spans: from the start to the last step, without a gap.
    """

    run: str
    expression: str
    path: str | None
    spans: tuple[Span, ...]

    @property
    def last(self) -> int:
        """The last step."""
        return self.spans[-1].last

    @property
    def changed(self) -> tuple[int, ...]:
        """The steps in which the value changed."""
        return tuple(span.first for span in self.spans[1:])

    def values(self) -> list[Any]:
        """The value of every step, from step 0 on; `MISSING` where there is none."""
        return [span.value for span in self.spans for _ in range(span.first, span.last + 1)]

    def to_json(self) -> dict[str, Any]:
        """`{run, expression, path, changed, spans}`."""
        return {
            "run": self.run,
            "expression": self.expression,
            "path": self.path,
            "changed": list(self.changed),
            "spans": [span.to_json() for span in self.spans],
        }


_GIVEN_NULL: Final = 'received: "null"'
"""With this JMESPath tells of a function that was given a path to nothing."""


class Expression:
    """A JMESPath expression.

    Args:
        text: the expression.

    Attributes:
        path: the keys into what it is evaluated over, if it is no more than a path without wildcards; else None.

    Raises:
        UsageError: it is none; the message says where.
    """

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise UsageError(f"an expression has {LONGEST:,} characters at most, and this one has {len(text):,}")
        try:
            self._tree: Mapping[str, Any] = jmespath.compile(text).parsed
        except (JMESPathError, ValueError, RecursionError) as error:
            why = str(error) or type(error).__name__
            raise UsageError(
                f"this is no JMESPath expression: {why}\nFor example: order.total, or items[].price"
            ) from None
        self.text = text
        self.path: Keys | None = _path_of(self._tree)

    def over(self, stored: Any) -> tuple[Any, str | None]:
        """What it comes to over a tree in stored form, in stored form; and why it does not apply, if it does not."""
        if self.path is not None:
            place = reached(self.path, stored)
            found = len(place.keys) == len(self.path)
            return (place.nodes[-1], None) if found else (MISSING, None)
        room = _Room()
        try:
            return _stored(_SeenThrough(room).visit(self._tree, stored), room), None
        except (JMESPathError, ArithmeticError, TypeError, ValueError, RecursionError) as error:
            return MISSING, str(error) or type(error).__name__


def watch_in(trees: Iterable[tuple[int, Any]], expression: Expression, *, run: str = "", root: Keys = ()) -> Watched:
    """Evaluate an expression at every step.

    Args:
        trees: (step, what it is evaluated over), from step 0 on.
        expression: what is watched.
        run: the run's id.
        root: of the payload in the trees.

    Raises:
        UsageError: there is no step, or the expression applies to none, or it is a path to what never was.
    """
    spans: list[Span] = []
    before: Any = MISSING
    telling = None  # the last problem of a value that was there; that a function was given null says least
    for step, tree in trees:
        if tree is before and spans:
            spans[-1] = _until(spans[-1], step)
            continue
        before = tree
        value, problem = expression.over(tree)
        if problem is not None and not problem.endswith(_GIVEN_NULL):
            telling = problem
        if spans and is_same(spans[-1], value, problem):
            spans[-1] = _until(spans[-1], step)
        else:
            spans.append(Span(step, step, value, problem))
    if not spans:
        raise UsageError(f"{run or 'the run'} has no events yet")
    if all(span.problem is not None for span in spans):
        raise UsageError(f"{expression.text} applies to no step of {run or 'the run'}: {telling or spans[-1].problem}")
    path = expression.path
    if path is not None and all(span.value is MISSING for span in spans):
        meant = display_keys(nearest(join(path), before))
        raise UsageError(f"{run or 'the run'} has no {display_keys(path)} at any step; did you mean {meant}?")
    inside = path is not None and path[: len(root)] == root
    return Watched(run, expression.text, join(path[len(root) :]) if path is not None and inside else None, tuple(spans))


def _until(span: Span, step: int) -> Span:
    return Span(span.first, step, span.value, span.problem)


def is_same(span: Span, value: Any, problem: str | None) -> bool:
    """Whether an expression that came to this goes on with a span."""
    if span.value is MISSING or value is MISSING:
        return span.value is value and (span.problem is None) is (problem is None)
    return same(span.value, value)


def _path_of(tree: Mapping[str, Any]) -> Keys | None:
    """The keys that an expression leads along, if it is nothing but a path."""
    kind = tree["type"]
    if kind == "field":
        return (tree["value"],)
    if kind == "index":
        return (tree["value"],) if tree["value"] >= 0 else None
    if kind in ("current", "identity"):
        return ()
    if kind not in ("subexpression", "index_expression"):
        return None
    parts = [_path_of(child) for child in tree["children"]]
    return None if any(part is None for part in parts) else tuple(key for part in parts for key in part or ())


# -- stored values as JMESPath sees them -------------------------------------------------------------------------------


class _Text(str):
    """A value without insides that JSON does not have, as the text that it is written as."""

    stored: Any

    @classmethod
    def of(cls, stored: Any) -> _Text:
        text = cls(name_of(stored))
        text.stored = stored
        return text


def _seen(value: Any) -> Any:
    """A value of the log as its user sees it, one level deep.

    An object that came out of a tag is an OrderedDict, so that a key `$type` of its own makes it no tag.
    """
    if type(value) is not dict or "$type" not in value:
        return value
    inside = inside_of(value)
    if inside is not None:
        return OrderedDict(inside) if isinstance(inside, dict) else inside
    if value["$type"] in ("int", "float"):
        number = decode(value)
        return number if isinstance(number, int | float) else _Text.of(value)
    return _Text.of(value)


class _Room:
    """What an evaluation may still do; see `ROOM`."""

    def __init__(self) -> None:
        self.left = ROOM

    def take(self, number: int = 1) -> None:
        """Do so much of it.

        Raises:
            ValueError: there is not so much room.
        """
        self.left -= number
        if self.left < 0:
            raise ValueError(TOO_MUCH)


def _plain(value: Any, room: _Room) -> Any:
    """An argument of a function, which knows none but JSON's types, one level deep."""
    room.take(1 + len(value) if isinstance(value, str) else 1)
    if type(value) is _Text:
        return str(value)
    if type(value) is list:
        return [_plain(_seen(item), room) for item in value]
    return value


def _weigh(value: Any, room: _Room) -> None:
    """Count the parts of a value each time that it is referred to: that is what comparing or writing it takes."""
    room.take(1 + len(value) if isinstance(value, str) else 1)
    if isinstance(value, dict):
        for part in value.values():
            _weigh(part, room)
    elif isinstance(value, list):
        for part in value:
            _weigh(part, room)


class _SeenThrough(TreeInterpreter):  # type: ignore[misc]  # jmespath has no types
    """Evaluates expressions over stored values."""

    def __init__(self, room: _Room) -> None:
        super().__init__()
        self._room = room

    def visit(self, node: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        self._room.take()
        return _seen(super().visit(node, *map(_seen, args), **kwargs))

    def visit_flatten(self, node: Mapping[str, Any], value: Any) -> Any:
        base = self.visit(node["children"][0], value)
        if not isinstance(base, list):
            return None
        items = map(_seen, base)
        found: list[Any] = []
        for item in items:
            parts = item if isinstance(item, list) else (item,)
            self._room.take(len(parts))
            found += parts
        return found

    def visit_comparator(self, node: Mapping[str, Any], value: Any) -> Any:
        sides = [self.visit(child, value) for child in node["children"]]
        if all(isinstance(side, dict | list) for side in sides):
            for side in sides:
                _weigh(side, self._room)
        found = [{"type": "literal", "value": side, "children": []} for side in sides]
        return super().visit_comparator({**node, "children": found}, value)

    def visit_expref(self, node: Mapping[str, Any], value: Any) -> Any:
        return _Expression(node["children"][0], _ForFunctions(self))

    def visit_function_expression(self, node: Mapping[str, Any], value: Any) -> Any:
        given = [_plain(self.visit(child, value), self._room) for child in node["children"]]
        if node["value"] == "join" and len(given) == 2 and isinstance(given[0], str) and isinstance(given[1], list):
            self._room.take(len(given[0]) * len(given[1]))
        elif node["value"] == "to_string":
            _weigh(given, self._room)
        return self._functions.call_function(node["value"], given)


class _ForFunctions:
    """Evaluates what functions such as `sort_by` ask of each item."""

    def __init__(self, interpreter: _SeenThrough) -> None:
        self._interpreter = interpreter

    def visit(self, node: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        return _plain(self._interpreter.visit(node, *args, **kwargs), self._interpreter._room)


def _stored(found: Any, room: _Room) -> Any:
    """A result in stored form: what stood in the log as it stood there."""
    room.take()
    if type(found) is _Text:
        return found.stored
    if type(found) is OrderedDict and "$type" in found:
        return {"$type": "dict", "items": [[name, _stored(part, room)] for name, part in found.items()]}
    if isinstance(found, dict):
        if type(found) is dict and "$type" in found:
            return found
        return {name: _stored(part, room) for name, part in found.items()}
    if isinstance(found, list):
        return [_stored(item, room) for item in found]
    return encode(found).stored if isinstance(found, int | float) else found


def numbers_of(values: Iterable[Any]) -> Iterator[float | None]:
    """Values as numbers for a chart: None for what is none. Truth is 0 or 1."""
    for value in values:
        seen = _seen(value)
        if isinstance(seen, bool | int | float):
            yield float(seen) if abs(seen) < 1e300 else None  # NaN is no less than anything, and an integer may be huge
        elif type(seen) is _Text and seen.stored.get("$type") == "decimal":
            yield _number(seen)
        else:
            yield None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < 1e300 else None
