"""A divergence: the place where code that runs again does something else than its recording, told so that it helps.

Code that runs again asks the recording for every answer. Where it asks for something else, decides or changes
something else, the two have parted, and nothing after that can be compared. What a person then needs to know stands in
a `Difference`: where it is (step, call, line of code), what was expected and what was found there, which recorded call
is the nearest, and what can be done next.

Three things are kept apart. *Another path* through the code: it calls something else, or nothing, or once more.
*Other arguments*: it makes the call that was recorded and asks it something else; and there an argument that is new,
gone or renamed is another matter than one with another value. *Another result*: what the round decided or changed.

Everything here is a function of stored trees and stays quick and short when they are large: equal parts are skipped at
the speed of C, of many candidates few are looked at, and long values are shown by what differs in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

from .advice import COMPARED, hint_for
from .changes import MISSING, Change, Changes, to_json
from .diff import diff_values
from .equality import same, stored_tree
from .ignoring import IgnoreRules
from .nearest import Call, RecordedCall, closest
from .paths import Keys, join
from .places import reached
from .readable import readable, readable_pair, visible
from .wording import LIMIT, change_in_a_sentence, changes_in_words, excerpts, is_call, renaming, shown_call, shown_name

__all__ = [
    "CALL_KINDS",
    "Difference",
    "Kind",
    "Nearest",
    "RecordedCall",
    "arguments_differ",
    "call_difference",
    "classify_call",
    "hint_for",
    "missing_call",
    "nearest_of",
    "swapped_calls",
    "value_difference",
]

Kind: TypeAlias = Literal[
    "another call",
    "other arguments",
    "missing call",
    "extra call",
    "another value read",
    "another node",
    "another decision",
    "another payload",
    "another outcome",
    "another error",
    "another message",
    "another report",
    "another event",
    "another change",
    "another start",
    "another input",
    "another model",
    "another result",
    "another record",
    "missing step",
    "extra step",
]
"""How code parted from its recording, or a run from another; the last six are found between two runs only.

Of a message, a report, an event of the code's own or the reason of a change, that one is new is told as another one of
which the recording has none, and that one is missing as one that the code does not come to.
"""

CALL_KINDS: Final = ("another call", "missing call", "extra call")
"""Of these, what was expected and what was found are calls as a whole: `{kind, name, arguments}`."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The recorded call that is the nearest to the one that was asked for.

    Attributes:
        call: its id.
        effect: "tool" or "model".
        name: its name.
        changes: from its arguments to those that were asked for; empty if they are the same.
    """

    call: str
    effect: str
    name: str
    changes: Changes

    def __str__(self) -> str:
        differs = "; ".join(changes_in_words(self.changes)) or "with the same arguments"
        return f"call {shown_name(self.call)}, {shown_name(self.effect)} {shown_name(self.name)}: {differs}"


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where code that ran again did something else than its recording.

    Attributes:
        kind: how they parted.
        step: the round in which they did, from 1; 0 is before the first.
        seq: the event of the recording that was not met again, if there is one.
        call: id of the recorded call that this is about.
        name: of the tool or model, or of the source of a value that was read.
        path: JSON Pointer to the first place that differs within the arguments, decision or payload; "" is the whole.
        expected: what the recording has there, in stored form, or `MISSING`. Of `CALL_KINDS` it is a call.
        actual: what the code did there, likewise.
        nearest: the nearest recorded call, if this is about a call.
        site: the user's line, as "file.py:123".
        hint: what can be done.
        changes: all that differs, from what was expected to what was found.
        effect: what was called, "tool", "model" or "agent", if this is about a call.
        run: the child run in which they did, as it is called where it is typed; None for the run itself.
    """

    kind: Kind
    step: int
    seq: int | None = None
    call: str | None = None
    name: str | None = None
    path: str = ""
    expected: Any = MISSING
    actual: Any = MISSING
    nearest: Nearest | None = None
    site: str | None = None
    hint: str = ""
    changes: Sequence[Change] = ()
    effect: str | None = None
    run: str | None = None

    @property
    def headline(self) -> str:
        """Where it is and what kind of difference, as in `step 7, call 7.2: other arguments`."""
        step = f"step {self.step}" if self.step else "before step 1"
        if self.run is not None:
            step = f"{shown_name(self.run)}, {step}"
        return f"{step}, call {shown_name(self.call)}: {self.kind}" if self.call else f"{step}: {self.kind}"

    @property
    def where(self) -> str:
        """The line of code and what is done there, as in `agent.py:123, tool search`; empty if neither is known."""
        doing = self.effect or ("reading" if self.kind == "another value read" else "")
        named = f"{shown_name(doing)} {shown_name(self.name)}".strip() if self.name is not None else ""
        return ", ".join([part for part in (shown_name(self.site or ""), named) if part])

    @property
    def what(self) -> str:
        """What happened, in a sentence without its values."""
        if self.kind == "another call":
            alike = self.nearest is not None and not self.nearest.changes
            return "the code calls something else" + (" with the same arguments" if alike else "")
        if self.kind == "missing call":
            return "the code does not make this call"
        if self.kind == "extra call":
            return "the code makes a call that the recording does not have here"
        if not self.changes:
            if self.expected is MISSING:
                return "the recording has none here"
            return "the code does not come to this" if self.actual is MISSING else ""
        return change_in_a_sentence(self.changes, "argument" if self.kind == "other arguments" else "key")

    def message(self) -> str:
        """Tell it on a few lines of plain text, which stay short however large the values are."""
        expected, actual = self.shown()
        pair = renaming(self.changes)
        rest = [change for change in self.changes[1:] if pair is None or change is not pair[1]]
        lines = {
            "where": self.where,
            "what": self.what,
            "path": visible(_cut_in_the_middle(self.path)),
            "expected": expected,
            "actual": actual,
            "also": "; ".join(changes_in_words(rest)),
            "nearest": str(self.nearest) if self.nearest and self.nearest.call != self.call else "",
            "next": self.hint,
        }
        return "\n".join([self.headline, *[f"  {label:9} {text}" for label, text in lines.items() if text]])

    def of_call(self, call: str, effect: str) -> Difference:
        """The same as one of a recorded call, after its id and whether it is a tool's or a model's."""
        return replace(self, call=call, effect=effect)

    def as_note(self) -> str:
        """Tell it on a line, where it counts as none."""
        expected, actual = self.shown()
        named = f" ({shown_name(self.name)})" if self.name else ""
        return f"{self.headline}{named}, which is no divergence: expected {expected}, found {actual}"

    def shown(self, limit: int | None = LIMIT) -> tuple[str, str]:
        """What was expected and what was found: each on a line of about `limit` characters, never looking the same."""
        expected, actual = self.expected, self.actual
        if expected is MISSING or actual is MISSING or self.kind in CALL_KINDS:
            return self._one(expected, limit), self._one(actual, limit)
        if isinstance(expected, str) and isinstance(actual, str) and _is_long(limit, expected, actual):
            return excerpts(expected, actual)
        return readable_pair(expected, actual, limit)

    def _one(self, value: Any, limit: int | None) -> str:
        if value is MISSING:
            return "nothing"
        return shown_call(value) if self.kind in CALL_KINDS and is_call(value) else readable(value, limit)

    def to_json(self) -> dict[str, Any]:
        """Give it as JSON data; what is missing is null, and `changes` tells that from a null."""
        nearest = self.nearest
        return {
            **({} if self.run is None else {"run": self.run}),
            "step": self.step,
            "seq": self.seq,
            "kind": self.kind,
            "path": self.path,
            "expected": None if self.expected is MISSING else stored_tree(self.expected),
            "actual": None if self.actual is MISSING else stored_tree(self.actual),
            "call": self.call,
            "name": self.name,
            "site": self.site,
            "hint": self.hint,
            "nearest": nearest and {"call": nearest.call, "kind": nearest.effect, "name": nearest.name},
            "changes": [to_json(change) for change in self.changes],
        }


def _cut_in_the_middle(path: str) -> str:
    """A path that can be read at a glance: of a very long one how it begins, and where it leads to."""
    half = LIMIT // 2
    return path if len(path) <= LIMIT else f"{path[:half]} … {path[-half:]}"


def _is_long(limit: int | None, *texts: str) -> bool:
    return limit is not None and max(map(len, texts)) > limit


# -- making differences --------------------------------------------------------------------------------


def arguments_differ(expected: Any, actual: Any) -> tuple[Changes, str]:
    """Compare two stored trees: give all changes from the one to the other, and the path of the first."""
    changes = diff_values(expected, actual, inside_tags=True)
    return changes, _first(changes, expected, actual)[0]


def nearest_of(kind: str, name: str, arguments: Any, candidates: Iterable[RecordedCall]) -> Nearest | None:
    """Find the recorded call that is the nearest to one that was asked for; None if there are no candidates."""
    found = closest(kind, name, arguments, candidates)
    return None if found is None else _nearest(found, arguments)


def classify_call(
    kind: str, name: str, arguments: Any, strand: Sequence[Call], others: Sequence[Call] = ()
) -> tuple[Kind, Call | None]:
    """Say how a call that the recording does not hold parts from it.

    Args:
        kind: "tool" or "model".
        name: what is called.
        arguments: what it is asked with, in stored form.
        strand: the recorded calls that were not asked for yet, of the same task within the same call, in order.
        others: those of the rest of the round.

    Returns:
        The kind, and the recorded call that it is about: the one that was meant, or of an extra call the nearest.
    """
    following = strand[0] if strand else None
    if following is not None and (following.kind, following.name) == (kind, name):
        return "other arguments", following
    alike = [call for call in (*strand, *others) if (call.kind, call.name) == (kind, name)]
    if alike:
        return "other arguments", closest(kind, name, arguments, alike)
    if following is not None and same(following.arguments, arguments):
        return "another call", following
    return "extra call", closest(kind, name, arguments, (*strand, *others))


def call_difference(
    kind: str,
    name: str,
    arguments: Any,
    strand: Sequence[RecordedCall],
    others: Sequence[RecordedCall] = (),
    *,
    step: int,
    site: str | None = None,
    run: str = "RUN",
    ignore: IgnoreRules | None = None,
) -> Difference:
    """Describe a call that the recording does not hold. Arguments as for `classify_call` and `Difference`.

    Args:
        run: as the run is called where it is typed.
        ignore: rules of what does not count; it is left out of the calls before they are compared.
    """
    if ignore:
        arguments = ignore.strip(kind, name, arguments)
        strand = [_Stripped(call, ignore) for call in strand]
        others = [_Stripped(call, ignore) for call in others]
    parted, found = classify_call(kind, name, arguments, strand, others)
    meant = None if parted == "extra call" else found
    nearest = None if found is None else _nearest(found, arguments)
    changes, path = Changes(), ""
    expected: Any = MISSING if meant is None else _as_tree(meant)
    actual: Any = {"kind": kind, "name": name, "arguments": arguments}
    if parted == "other arguments" and meant is not None and nearest is not None:
        changes = nearest.changes
        path, expected, actual = _first(changes, meant.arguments, arguments)
        other = closest(kind, name, arguments, (*strand, *others))
        if other is not None and other is not meant:
            nearest = _nearest(other, arguments)
    return Difference(
        parted,
        step,
        seq=meant.seq if meant is not None else strand[0].seq if strand else None,
        call=None if meant is None else meant.call,
        name=name,
        path=path,
        expected=expected,
        actual=actual,
        nearest=nearest,
        site=site,
        hint=hint_for(parted, run, step, found, changes),
        changes=changes,
        effect=kind,
    )


def missing_call(call: RecordedCall, *, step: int, site: str | None = None, run: str = "RUN") -> Difference:
    """Describe a recorded call that the code did not make.

    Args:
        call: the recorded call.
        step: its round.
        site: where the code was when this was found, if anywhere.
        run: as the run is called where it is typed.
    """
    return Difference(
        "missing call",
        step,
        seq=call.seq,
        call=call.call,
        name=call.name,
        expected=_as_tree(call),
        site=site,
        hint=hint_for("missing call", run, step, call),
        effect=call.kind,
    )


def swapped_calls(
    first: RecordedCall, made: RecordedCall, *, step: int, site: str | None = None, run: str = "RUN"
) -> Difference:
    """Describe a recorded call that was made before another one of its task, which was recorded before it.

    Args:
        first: the call that was recorded first.
        made: the one that the code makes first.
        step: the round of both.
        site: where the code makes it.
        run: as the run is called where it is typed.
    """
    return Difference(
        "another call",
        step,
        seq=first.seq,
        call=first.call,
        name=made.name,
        expected=_as_tree(first),
        actual=_as_tree(made),
        site=site,
        hint=f"The code makes both calls, but {shown_name(made.call)} before {shown_name(first.call)}; only tools that "
        'are declared safety="pure" may be called in any order within a task. '
        + hint_for("another call", run, step, first),
        effect=made.kind,
    )


def value_difference(
    kind: Kind,
    expected: Any,
    actual: Any,
    *,
    step: int,
    seq: int | None = None,
    call: str | None = None,
    name: str | None = None,
    site: str | None = None,
    run: str = "RUN",
    ignore: IgnoreRules | None = None,
) -> Difference:
    """Describe a value, decision, payload, outcome or error that is another one than was recorded.

    Args:
        kind: which of these.
        expected: the recorded tree, or `MISSING`.
        actual: that of the code that ran again, or `MISSING`.
        run: as the run is called where it is typed.
        ignore: rules of what does not count; it is left out of both trees. The others as for `Difference`.
    """
    changes, path = Changes(), ""
    if expected is not MISSING and actual is not MISSING:
        if ignore:
            expected, actual = [ignore.strip(COMPARED.get(kind, kind), name, tree) for tree in (expected, actual)]
        changes = diff_values(expected, actual, inside_tags=True)
        path, expected, actual = _first(changes, expected, actual)
    hint = hint_for(kind, run, step, None, changes, name=name)
    return Difference(kind, step, seq, call, name, path, expected, actual, None, site, hint, changes)


def _first(changes: Changes, expected: Any, actual: Any) -> tuple[str, Any, Any]:
    """The path of the first change with what stands there on either side; of a list in another order, the list."""
    if not changes:
        return "", expected, actual
    first = changes[0]
    if first.kind != "move":
        return first.path, first.old, first.new
    return join(first.keys[:-1]), _at(expected, first.from_keys[:-1]), _at(actual, first.keys[:-1])


def _at(tree: Any, keys: Keys) -> Any:
    return reached(keys, tree).nodes[-1]


class _Stripped:
    """A recorded call without what does not count."""

    __slots__ = ("_ignore", "_whole", "call", "kind", "name", "seq")

    def __init__(self, call: RecordedCall, ignore: IgnoreRules) -> None:
        self.call, self.seq, self.kind, self.name = call.call, call.seq, call.kind, call.name
        self._whole, self._ignore = call, ignore

    @property
    def arguments(self) -> Any:
        """What is left of them; only of few calls somebody asks."""
        return self._ignore.strip(self.kind, self.name, self._whole.arguments)


def _nearest(call: RecordedCall, arguments: Any) -> Nearest:
    return Nearest(call.call, call.kind, call.name, diff_values(call.arguments, arguments, inside_tags=True))


def _as_tree(call: RecordedCall) -> dict[str, Any]:
    return {"kind": call.kind, "name": call.name, "arguments": call.arguments}
