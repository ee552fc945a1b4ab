"""Which differences do not count: rules that name, by JSONPath, what is different each time.

| rule | what it leaves out |
|---|---|
| `$.timestamp` | the key `timestamp` of whatever is compared |
| `tool:search:$.options.request_id` | of the arguments of the tool `search` |
| `model:*:$.messages[*].id` | of every message of every model call |
| `decision:$.confidence`, `payload:$.updated_at` | of what a round decided, of the payload after it |
| `read:clock`, `tool:now` | the whole: whatever the clock said, whatever `now` is asked with |
| `message:$.id`, `change:$.reason` | of each message that is added to the conversation; why the payload is changed |
| `start:$.payload.now` | of what the code begins the run with: payload, input and params |
| `report`, `event:x.seen:$.at` | all reports; of the code's own events of that name, when |

A rule is applied to both sides, and what is left of them is compared. So a rule that is too wide hides differences; a
rule that never matched anything is worth a word too, since it may be a misspelt one (`IgnoreRules.unused`).

Paths are those of RFC 9535, filters and `..` included. All rules look at the tree as it was recorded, before anything
is taken out of it. A tagged value (`{"$type": …}`, a Decimal, a data class) is a leaf: it is left out or stays as a
whole, and no path leads into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..recorder.errors import UsageError
from ..recorder.values import is_tag
from .changes import Change
from .paths import Keys, quote
from .readable import visible

if TYPE_CHECKING:
    from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathQuery

NAMED: Final = ("tool", "model", "read", "report", "event")
"""Kinds of what is compared that have a name: of the tool, of the model's callable, of the source of a read value or
report, of the code's own event."""

NAMELESS: Final = ("decision", "payload", "outcome", "error", "message", "change", "start")
"""Kinds that have none. Of the first four a round has one; a message is one that is added, or the edit of the list; the
start is what a run began with, `{payload, input, params}`."""

SAID: Final = ("message", "report", "event", "change")
"""Kinds of what code says without asking anything."""

KINDS: Final = (*NAMED, *NAMELESS)

_DEPTH: Final = 300  # containers within containers; the writers of stored trees stop at 254
_SHORTHAND = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_NAME = re.compile(r"[\w.\-]+")
_STARTS_NO_NAME = (".", "[", "@", "/")


class _Gone:
    """The mark of a place that is left out."""


_GONE: Final = _Gone()
_Branches: TypeAlias = dict[str | int, Any]  # key → _GONE, or the branches below it


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule that was read. No kind or name: any of them. No query: the whole."""

    text: str
    kind: str | None
    name: re.Pattern[str] | None
    query: JSONPathQuery | None

    def applies(self, kind: str, name: str | None) -> bool:
        if self.kind is not None and self.kind != kind:
            return False
        return self.name is None or (name is not None and self.name.fullmatch(name) is not None)

    def places(self, tree: Any) -> Iterable[Keys]:
        if self.query is None or not isinstance(tree, (dict, list)):
            return ()
        from jsonpath_rfc9535 import JSONPathRecursionError

        try:
            return [node.location for node in self.query.finditer(tree)]
        except JSONPathRecursionError:
            raise UsageError(
                f"the ignore rule {self.text!r} meets a value nested more than {_DEPTH} deep, where `..` stops; "
                "name the path to what it means"
            ) from None


class IgnoreRules:
    """Rules that take volatile fields out of what is compared.

    Args:
        texts: one rule each: `[KIND[:NAME]:]PATH` or `KIND[:NAME]`. KIND is one of `KINDS`; in NAME a `*` stands for
            any characters.

    Raises:
        UsageError: a rule cannot be read; the message shows where.
    """

    __slots__ = ("_rules", "_used")

    def __init__(self, texts: Iterable[str] = ()) -> None:
        if isinstance(texts, str):
            raise UsageError(f"ignore rules are a list of texts, not one text; write [{texts!r}]")
        self._rules = tuple([_parse(text) for text in dict.fromkeys(text.strip() for text in texts)])
        self._used: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._rules)

    @property
    def texts(self) -> tuple[str, ...]:
        """The rules, as they were given."""
        return tuple(rule.text for rule in self._rules)

    def applies(self, kind: str, name: str | None = None) -> bool:
        """Say whether a rule may take something out of what is of this kind and name."""
        return any(rule.applies(kind, name) for rule in self._rules)

    def ignores(self, kind: str, name: str | None = None) -> bool:
        """Say whether a rule leaves out the whole of what is of this kind and name: nothing is left to compare."""
        whole = [rule.text for rule in self._rules if rule.query is None and rule.applies(kind, name)]
        self._used.update(whole)
        return bool(whole)

    def strip(self, kind: str, name: str | None, tree: Any) -> Any:
        """Give a stored tree without what the rules name.

        Args:
            kind: of what it is; one of `KINDS`.
            name: of the tool or model that the tree is the arguments of, or of the source that it was read from.
            tree: in stored form. It stays as it is; what is left shares its parts.

        Returns:
            The same object if no rule names a place in it. Keys are taken out; an item of a list becomes null, so that
            the others keep their places, and so does the whole.
        """
        branches: _Branches = {}
        whole = False
        for rule in self._rules:
            if not rule.applies(kind, name):
                continue
            places = [keys for keys in rule.places(tree) if not _is_in_tag(tree, keys)]
            for keys in places:
                _mark(branches, keys)
            whole = whole or rule.query is None
            if places or rule.query is None:
                self._used.add(rule.text)
        return None if whole else _without(tree, branches) if branches else tree

    def used(self) -> tuple[str, ...]:
        """The rules that matched something so far."""
        return tuple([rule.text for rule in self._rules if rule.text in self._used])

    def unused(self) -> tuple[str, ...]:
        """The rules that matched nothing so far."""
        return tuple([rule.text for rule in self._rules if rule.text not in self._used])


def rule_for(kind: str, name: str | None, keys: Keys) -> str:
    """Write the rule that leaves out just one place.

    Args:
        kind: one of `KINDS`.
        name: if things of that kind have one.
        keys: the place; none for the whole.
    """
    path = "$" + "".join(
        [f"[{key}]" if isinstance(key, int) else f".{key}" if _is_short(key) else f"[{quote(key)}]" for key in keys]
    )
    if name is None:
        return f"{kind}:{path}" if keys else kind
    if not keys and _PLAIN_NAME.fullmatch(name):
        return f"{kind}:{name}"
    # Not every name can be written in a rule: a path may seem to begin in it, or it may hide or do something.
    written = name if name and name.isprintable() and not name.startswith("$") and ":$" not in name else "*"
    return f"{kind}:{written}:{path}"


def rules_for(kind: str, name: str | None, changes: Iterable[Change]) -> tuple[str, ...]:
    """Write the rules that leave out all that differs, as exactly as rules can.

    Where items of a list were added, removed or moved, no place in it is the same on both sides, so the rule names the
    list. Rules do not lead into tags, so of a tuple in which something differs they name the whole.
    """
    told = tuple(changes)
    changes = [change for change in told if change.whole is None]
    shifted = {change.keys[:-1] for change in changes if change.kind != "replace" and isinstance(change.keys[-1], int)}
    shifted |= {change.from_keys[:-1] for change in changes if change.kind == "move"}
    at = [change.keys if change.whole is None else change.whole.keys for change in told]
    places = dict.fromkeys([_up_to(keys, shifted) for keys in at])
    return tuple([rule_for(kind, name, keys) for keys in places])


def _up_to(keys: Keys, ends: set[Keys]) -> Keys:
    return next((keys[:length] for length in range(len(keys)) if keys[:length] in ends), keys)


def _is_short(key: str) -> bool:
    return _SHORTHAND.fullmatch(key) is not None


# -- reading rules -------------------------------------------------------------------------------------


def _parse(text: str) -> _Rule:
    if text.startswith("$"):
        return _Rule(text, None, None, _query(text, 0))
    kind, colon, rest = text.partition(":")
    if kind not in KINDS:
        raise _unreadable(text, 0, f'expected a path, which starts with "$", or one of {", ".join(KINDS)}')
    start = len(kind) + 1
    if not colon or rest.startswith("$"):
        return _Rule(text, kind, None, _query(text, start) if rest else None)
    end = rest.find(":$")
    name = rest if end < 0 else rest[:end]
    if kind in NAMELESS and name != "*":
        raise _unreadable(text, start, f'expected a path, which starts with "$"; a rule for {kind} has no name')
    if not name:
        raise _unreadable(text, start, 'expected a name, "*" for any, or a path, which starts with "$"')
    if end < 0 and ":" in name:
        tail = name.rpartition(":")[2]
        if not tail or tail.startswith(_STARTS_NO_NAME):
            raise _unreadable(text, len(text) - len(tail), 'expected a path, which starts with "$"')
    pattern = re.compile(".*".join(map(re.escape, name.split("*"))), re.DOTALL)
    return _Rule(text, kind, pattern, None if end < 0 else _query(text, start + end + 1))


def _query(text: str, start: int) -> JSONPathQuery | None:
    """Read the path that starts there; None if it is the whole."""
    path = text[start:]
    if path == "$":
        return None
    from jsonpath_rfc9535 import JSONPathError

    try:
        return _environment().compile(path)
    except JSONPathError as error:
        token = error.token
        at = token.index if token is not None and token.index >= 0 else len(path)
        raise _unreadable(text, start + at, str(error.args[0])) from None
    except RecursionError:
        raise _unreadable(text, start, "it is nested too deeply") from None


@cache
def _environment() -> JSONPathEnvironment:
    from jsonpath_rfc9535 import JSONPathEnvironment  # loaded for a path only: most replays have no rules

    class Environment(JSONPathEnvironment):
        max_recursion_depth = _DEPTH

    return Environment()


def _unreadable(text: str, position: int, why: str) -> UsageError:
    return UsageError(
        f"cannot read the ignore rule at character {position + 1}: {why}\n"
        f"    {visible(text)}\n"
        f"    {' ' * len(visible(text[:position]))}^\n"
        "Rules look like $.timestamp, tool:search:$.options.request_id, payload:$.updated_at or read:clock."
    )


# -- leaving places out --------------------------------------------------------------------------------


def _is_in_tag(tree: Any, keys: Keys) -> bool:
    node = tree
    for key in keys:
        if is_tag(node):
            return True
        node = node[key]
    return False


def _mark(branches: _Branches, keys: Keys) -> None:
    """Mark a place as left out."""
    for key in keys[:-1]:
        below: Any = branches.setdefault(key, {})
        if below is _GONE:
            return
        branches = below
    branches[keys[-1]] = _GONE


def _without(node: Any, branches: _Branches) -> Any:
    if isinstance(node, list):
        items = list(node)
        for at, below in branches.items():
            items[int(at)] = None if below is _GONE else _without(items[int(at)], below)
        return items
    kept = dict(node)
    for key, below in branches.items():
        if below is _GONE:
            del kept[key]
        else:
            kept[key] = _without(kept[key], below)
    return kept
