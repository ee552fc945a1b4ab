r"""JSON to edit: a recorded value as text, and what somebody made of that text as a value again, exactly.

The text is the stored form of the value, as `agentreplay state --json` prints it: what JSON cannot say stands as a tag,
such as `{"$type": "int", "value": "9007199254740993"}`. What is not printable ASCII nor a plain letter stands as an
escape (`\u202e`), so nothing hides in it, and reading the text gives the very same value. A number that is typed as it
is, however large, counts as that number.

Only what differs from the value before becomes an edit. So what nobody touched keeps its exact value and type, also
where this process does not know the class.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from ..recorder.decoding import decode_noting
from ..recorder.errors import UnreadableValue, UsageError
from ..recorder.values import already_stored, encode, has_tags, is_tag
from ..replay.changes import MISSING, Changes, to_json_patch
from ..replay.diff import diff_values
from ..replay.paths import Keys, join, keys_of
from ..replay.places import place_of
from ..replay.readable import visible
from .trees import value_at

_LARGEST_DIGITS: Final = 4_000


def text_of(stored: Any) -> str:
    """A value in stored form as JSON text to edit, indented."""
    return hidden_escaped(json.dumps(stored, indent=2, ensure_ascii=False, allow_nan=False))


def one_line_of(stored: Any) -> str:
    """A value in stored form as JSON text on one line, for a command."""
    return hidden_escaped(json.dumps(stored, ensure_ascii=False, allow_nan=False))


def hidden_escaped(text: str) -> str:
    """JSON text with everything that does not show, or turns text round, as an escape; it means the same."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join([char if char == "\n" or visible(char) == char else json.dumps(char)[1:-1] for char in text])


def read_json(text: str) -> Any:
    """The tree that JSON text is, tags as they stand; numbers exact.

    Raises:
        UsageError: it is no JSON, says something twice, or holds a number that no JSON value is. It says where.
    """
    if not text.strip():
        raise UsageError("there is nothing here: null is written as null")
    try:
        return json.loads(
            text,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_integer,
            object_pairs_hook=_distinct,
        )
    except json.JSONDecodeError as error:
        here = error.doc.split("\n")[error.lineno - 1][max(error.colno - 21, 0) : error.colno + 39].strip()
        where = f"line {error.lineno}, column {error.colno}"
        raise UsageError(
            f"{where}: {error.msg[:1].lower()}{error.msg[1:]}" + (f", at {here}" if here else "")
        ) from None
    except RecursionError:
        raise UsageError("it is nested too deeply to be read") from None


def _no_constant(name: str) -> Any:
    word = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}[name]
    raise UsageError(f'{name} is no JSON; write {{"$type": "float", "value": "{word}"}}')


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise UsageError(f'{text[:40]} is beyond all numbers; write it as {{"$type": "decimal", "value": "…"}}')
    return number


def _integer(text: str) -> int:
    if len(text) > _LARGEST_DIGITS:
        raise UsageError(f"a number of {len(text):,} digits is not taken; at most {_LARGEST_DIGITS:,} are")
    return int(text)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for at, key in enumerate(keys) if key in keys[:at])
        raise UsageError(f"{json.dumps(twice)[:60]} stands twice in one object; only one of them would count")
    return made


def stored_of(tree: Any) -> Any:
    """The stored form of a tree of `read_json`: numbers and texts that JSON cannot keep become tags.

    Raises:
        UsageError: a tag is damaged, so it would stand for something else than it says.
    """
    stored = _plainly_stored(tree)
    value, is_known = _decoded(stored)
    # Classes that this process does not know came back as plain data, so those tags are taken as they stand.
    return encode(value).stored if is_known else stored


def refuse_damaged(stored: Any) -> None:
    """Refuse a value in stored form that would stand for something else than it says.

    Raises:
        UsageError: it has a damaged tag.
    """
    _decoded(stored)


def _decoded(stored: Any) -> tuple[Any, bool]:
    """The value that a stored one stands for, and whether all classes in it are known here."""
    if not has_tags(stored):
        return stored, True
    value, unread = decode_noting(stored)
    for problem in unread.values():
        if issubclass(problem.category, UnreadableValue):
            raise UsageError(f"{one_line_of(problem.tag)[:120]}: {problem.why}")
    return value, not unread


def _tags_kept(tree: Any) -> Any:
    """A tree in which tags are left as they are when it is encoded; what is plain is the same object."""
    if is_tag(tree):
        return already_stored(_inside_of_tag(tree))
    if type(tree) is dict:
        return {key: _tags_kept(item) for key, item in tree.items()}
    return [_tags_kept(item) for item in tree] if type(tree) is list else tree


def _inside_of_tag(tag: dict[str, Any]) -> dict[str, Any]:
    """A tag, with what is in it in stored form: large numbers and lone surrogates may be typed as they are."""
    for name in tag:
        if not name.isprintable():
            raise UsageError(f"a tag has no field {json.dumps(name)[:60]}")
    return {name: _plainly_stored(item) for name, item in tag.items()}


def changes_to(before: Any, text: str) -> Changes:
    """What somebody changed of a value by editing its text.

    Args:
        before: in stored form.
        text: what they made of `text_of(before)`.

    Returns:
        The changes, with values in stored form and told inside of tags; what is the same is not among them, however it
        is written.

    Raises:
        UsageError: the text is no JSON, or a value in it says what cannot be.
    """
    edited = read_json(text)
    rough = diff_values(before, _plainly_stored(edited), inside_tags=True)
    for change in rough:
        if change.kind in ("add", "replace"):
            stored_of(change.new)  # which refuses what is damaged
    return rough


def _plainly_stored(tree: Any) -> Any:
    """The stored form of a tree, its tags unread: those that were there before may be of any kind."""
    return encode(_tags_kept(tree)).stored


def edits_of(
    changes: Changes, text: str = "", at: str = "", tree: Any = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The edits of a re-run that make some changes: values to set, by place, or a JSON Patch.

    A patch replaces a tag as a whole, and whoever executes the re-run may not know its class before the agent has run.
    So what changed inside of one is set there; a list in which items were added, removed or moved is set as a whole.

    Args:
        changes: of `changes_to`.
        text: of the edited value; of one that is the whole payload it is not needed.
        at: JSON Pointer of the value that was edited, in the payload.
        tree: the payload.
    """
    keys = keys_of(at, tree)
    place = place_of(at, tree)
    is_inside = place is not None and any(is_tag(node) for node in place.nodes[:-1])
    if not changes or not (is_inside or any(change.whole is not None for change in changes)):
        return {}, patch_of(changes, at, tree)
    places = _places(changes, text, is_inside=is_inside)
    if places is not None:
        return {join((*keys, *place)): value for place, value in places.items()}, []
    return ({at: stored_of(read_json(text))}, []) if is_inside else ({}, patch_of(changes, at, tree))


def _places(changes: Changes, text: str, *, is_inside: bool) -> dict[Keys, Any] | None:
    """What to set where, to make some changes; None if that would be all of it, or something outside of all tags."""
    places: dict[Keys, Any] = {}
    edited: Any = MISSING
    for change in changes:
        if change.kind == "replace" or (change.kind == "add" and change.keys and isinstance(change.keys[-1], str)):
            places[change.keys] = change.new
            continue
        around = {change.keys[:-1], *([change.from_keys[:-1]] if change.kind == "move" else [])}
        if () in around or (change.whole is None and not is_inside):
            return None
        edited = _plainly_stored(read_json(text)) if edited is MISSING else edited
        places |= {place: value_at(edited, map(str, place)) for place in around}
    if any(value is MISSING for value in places.values()):
        return None
    above = {place[:depth] for place in places for depth in range(len(place))}
    holders = [place for place in places if place in above]
    return {
        place: value
        for place, value in places.items()
        if not any(len(holder) < len(place) and place[: len(holder)] == holder for holder in holders)
    }


def patch_of(changes: Changes, at: str = "", tree: Any = None) -> list[dict[str, Any]]:
    """Changes as a JSON Patch.

    Args:
        changes: of `changes_to`.
        at: JSON Pointer of the value that was edited, in what the patch is for.
        tree: what that is, so that indexes are told from keys.
    """
    keys = keys_of(at, tree)
    patch = []
    for one in to_json_patch(changes):
        moved = {name: join(keys) + part if name in ("path", "from") else part for name, part in one.items()}
        patch.append(moved)
    return patch
