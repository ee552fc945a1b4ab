"""The payload of a run while it is recorded: what the agent sees, and what the record says of it.

There are two trees. The *work* tree holds the agent's values (`leaves`). The *shadow* is what a reader of the log will
fold: the same requests, encoded and redacted, applied to the encoded and redacted start. While everything is plain and
nothing is secret they are one tree, and a change costs its path. Where they are two, every change is applied to both
and the outcomes are compared; a difference (a `test` on a secret, a merge that a redacted text decides otherwise)
becomes an explicit correction in the event. So does what a change does inside a dict whose stored form is a tag because
of its keys: it is a dict like any other for the agent, and one value for a reader of the log. So "the state equals what
the agent saw" holds by construction, modulo redaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import compress, count
from operator import is_not
from typing import Any, Final

from .errors import AgentReplayError, ChangeRefused
from .frozen import Freezer
from .hashes import SubtreeCache, comparison_hash, same
from .leaves import LeafMap, live_of, live_tree, renewed, stored_map, take
from .payload import LIVE_AS_STORED, STORED, ChangeResult, apply_change, difference, missing_leaves
from .payload.trees import TAG, pointer
from .redacted_tree import RedactedTree
from .redaction import Redactor
from .values import already_stored, dumps, encode, is_tag

_DECISIVE: Final = ("allowed_paths", "ignore_stray_keys")
"""The options that decide what a change does; the others decide what is said about it."""


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """One change of the payload, its values as they are to be recorded.

    Attributes:
        request: as sent.
        applied_request: as applied after correction, or None when that is `request`.
        outcome: what the applier said: counts, warnings, blocked operations.
        hash_before, hash_after: of the payload.
        correction: JSON Patch from what a reader folds to what the agent has, or None when they agree.
        lacking: what the request asked for and the payload does not have, as JSON Pointers into its sections; for
            the applier "memberjunction".
    """

    request: Any
    applied_request: Any
    outcome: ChangeResult
    hash_before: str
    hash_after: str
    correction: list[dict[str, Any]] | None
    lacking: list[str]


class LivePayload:
    """The payload of one run. Not to be used by two threads at once.

    Args:
        start: the starting payload; copied, so that later mutation of it changes nothing.
        redactor: the store's.
    """

    def __init__(self, start: Any, redactor: Redactor) -> None:
        self._redactor = redactor
        self._redaction = RedactedTree(redactor)
        self._hashes = SubtreeCache()
        self._stored = stored_map()
        self._lives = LeafMap(live_of)
        self._freezer = Freezer()
        self._work, stored = take(start)
        if stored is not self._work:
            # Mapped as every later version is, so that what never changes is the same objects in all of them.
            stored = self._stored(self._work)
        self._shadow = self._redacted_payload(stored, self._work)
        self._hash = comparison_hash(self._shadow, self._hashes)

    @property
    def hash(self) -> str:
        """The comparison hash of what a reader folds."""
        return self._hash

    @property
    def stored(self) -> Any:
        """What a reader folds, as a value to record."""
        return already_stored(self._shadow)

    @property
    def is_opaque(self) -> bool:
        """Whether the payload as a whole is a value that cannot be stored."""
        return is_tag(self._shadow) and self._shadow["$type"] == "opaque"

    @property
    def live(self) -> Any:
        """The agent's own values in plain containers. Shared; not to be mutated."""
        return self._work if self.plain else self._lives(self._work)

    @property
    def tree(self) -> Any:
        """The agent's own values as a tree that the payload core takes (`leaves`). Shared; not to be mutated."""
        return self._work

    @property
    def plain(self) -> bool:
        """Whether the agent's values are what is stored: plain JSON without a secret."""
        return self._work is self._shadow

    def view(self) -> Any:
        """The live payload, frozen: containers whose mutators raise. Unchanged parts are the same objects as before."""
        return self._freezer.freeze(self.live)

    def change(self, request: Any, applier: str, options: Mapping[str, Any]) -> RecordedChange:
        """Apply a request.

        Raises:
            ChangeRefused: the applier cannot apply it; nothing changed.
        """
        with _refusing_depth():
            return self._apply(*take(request), applier, options)

    def become(self, payload: Any, options: Mapping[str, Any]) -> RecordedChange:
        """Become another payload; the request is the JSON Patch that says the difference, also to a reader of the log.

        Raises:
            ChangeRefused: it is nested too deeply; nothing changed.
        """
        with _refusing_depth():
            return self._apply_patch(difference(self._work, take(payload).tree, trees=LIVE_AS_STORED), options)

    def put(self, values: Mapping[str, Any], options: Mapping[str, Any]) -> RecordedChange | None:
        """Give some keys of the payload, a dict, other values, as `become` does; None if they have just these.

        Raises:
            ChangeRefused: a value is nested too deeply; nothing changed.
        """
        with _refusing_depth():
            before = {key: self._work[key] for key in values if key in self._work}
            patch = difference(before, take(dict(values)).tree, trees=LIVE_AS_STORED)
            return self._apply_patch(patch, options) if patch else None

    def changed_in_place(self) -> RecordedChange | None:
        """Find what the agent changed without asking: objects in the payload that it mutated.

        Containers are frozen, so only values that are no plain JSON can be; a payload without them costs nothing here.
        """
        if self.plain or self._stored(self._work) is self._work:
            return None
        found = [(path, renewed(leaf)) for path, leaf in self._stored.leaves(self._work)]
        patch = [{"op": "replace", "path": pointer(path), "value": leaf} for path, leaf in found if leaf is not None]
        return self._apply_patch(patch, {}) if patch else None

    def _apply_patch(self, patch: list[dict[str, Any]], options: Mapping[str, Any]) -> RecordedChange:
        return self._apply(patch, stored_map()(patch), "json-patch", options)

    def _apply(self, request: Any, stored: Any, applier: str, options: Mapping[str, Any]) -> RecordedChange:
        """Apply a request, which is given as a work tree and in stored form, to both trees."""
        before = self._hash
        outcome = apply_change(self._work, request, applier, **options)
        stored = self._redacted(stored, request)
        decisive = {name: options[name] for name in _DECISIVE if name in options} | {"analyze": False}
        refused = False
        if self.plain and stored is request and not (applier == "json-patch" and _may_make_tags(request)):
            wanted, applied, blocked = outcome.result, outcome.applied_request, outcome.blocked_operations
            folded = wanted
        else:
            wanted = self._redacted_payload(self._stored(outcome.result), outcome.result)
            try:
                said = apply_change(self._shadow, stored, applier, stored=True, **decisive)
                applied, blocked, folded = said.applied_request, said.blocked_operations, said.result
            except AgentReplayError:  # a secret decided it; a reader then goes by the correction alone
                refused, applied, blocked, folded = True, stored, [], self._shadow
        if applied is not stored:
            folded = apply_change(self._shadow, applied, applier, stored=True, **decisive).result
        correction: list[dict[str, Any]] | None = None
        agreed = same(folded, wanted)
        if not agreed:
            wanted = self._with_tokens_of(folded, wanted)
            agreed = same(folded, wanted)
        if refused or not agreed:
            correction = self._correction(folded, wanted)
            folded = apply_change(folded, correction, "json-patch", stored=True).result
        # Where it is all the same the one that shares most with the redacted version to come.
        shadow = wanted if wanted is outcome.result or _are_identical(folded, wanted) else folded
        lacking = missing_leaves(outcome.applied_request, outcome.result) if applier == "memberjunction" else []
        self._work, self._shadow = outcome.result, shadow
        self._hash = comparison_hash(shadow, self._hashes)
        return RecordedChange(
            request=already_stored(stored),
            applied_request=None if applied is stored else already_stored(applied),
            outcome=replace(outcome, blocked_operations=[_recorded(entry) for entry in blocked]),
            hash_before=before,
            hash_after=self._hash,
            correction=correction and [_recorded(operation) for operation in correction],
            lacking=lacking,
        )

    def _redacted_payload(self, stored: Any, work: Any) -> Any:
        """`_redacted` of the payload itself, at the cost of what changed since the version before."""
        try:
            return self._redaction(stored)
        except TypeError:
            return self._redacted(stored, work)

    def _redacted(self, stored: Any, work: Any) -> Any:
        """What is recorded of a work tree, given its stored form; the work tree itself if that is it."""
        try:
            raw = dumps([[[[[[stored]]]]]])  # with the levels of an event around it
        except TypeError:  # nested more deeply than JSON is written in one piece
            stored = encode(live_tree(work)).stored
            raw = dumps(stored)
        return stored if self._redactor.is_clean(raw) else self._redactor.redact(stored)

    def _with_tokens_of(self, folded: Any, wanted: Any) -> Any:
        """Return what is wanted, with the token where what a reader folds has the token of just that value.

        A secret that is known by its name only is no secret where a patch copies it to; to put it there in clear, as a
        correction, would give it away.
        """
        if wanted is folded:
            return wanted
        if type(folded) is str and type(wanted) in (str, int, float):
            text = wanted if type(wanted) is str else repr(wanted)
            return folded if self._redactor.is_redacted_form(folded, text) else wanted
        if type(folded) is not type(wanted) or type(wanted) not in (dict, list):
            return wanted
        if is_tag(wanted) and wanted["$type"] in _MAPPINGS:
            return self._with_tokens_by_key(folded, wanted)
        if type(wanted) is list:
            places: Any = compress(count(), map(is_not, folded, wanted))
        else:
            others = map(is_not, map(folded.get, wanted), wanted.values())
            places = [key for key in compress(wanted, others) if key in folded]
        out = wanted
        for place in places:
            new = self._with_tokens_of(folded[place], wanted[place])
            if new is not wanted[place]:
                out = wanted.copy() if out is wanted else out
                out[place] = new
        return out

    def _with_tokens_by_key(self, folded: Any, wanted: Any) -> Any:
        """`_with_tokens_of` for a mapping that is stored as pairs: the same key, not the same place."""
        try:
            before = {dumps(key): value for key, value in folded["items"]}
            pairs = [
                [key, self._with_tokens_of(before[dumps(key)], value)] if dumps(key) in before else [key, value]
                for key, value in wanted["items"]
            ]
        except (KeyError, TypeError, ValueError):  # another sort of tag
            return wanted
        same_values = all(new[1] is old[1] for new, old in zip(pairs, wanted["items"], strict=True))
        return wanted if same_values else {**wanted, "items": pairs}

    def _correction(self, folded: Any, wanted: Any) -> list[dict[str, Any]]:
        """The patch from one redacted tree to another, such that redacting the patch changes nothing in it."""
        patch = difference(folded, wanted, trees=STORED)
        redacted: object = self._redactor.redact(patch)
        if redacted is patch:
            return patch
        # Beside the names in its path a value can look more secret than where it stands. As a whole it does not.
        return [{"op": "replace", "path": "", "value": wanted}]


_MAPPINGS: Final = frozenset(("dict", "counter", "defaultdict", "ordereddict"))
"""Tags whose items are pairs of a key and a value."""


@contextmanager
def _refusing_depth() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise ChangeRefused("payload or request is nested too deeply. Nothing was changed.") from None


def _are_identical(a: Any, b: Any) -> bool:
    """Say whether two trees in stored form are the same, order of keys included. Shared parts are not looked into."""
    todo = [(a, b)]
    while todo:
        one, other = todo.pop()
        if one is other:
            continue
        kind = type(one)
        if kind is not type(other) or (kind is dict and list(one) != list(other)):
            return False
        if kind is not dict and kind is not list:
            if one != other or (kind is float and repr(one) != repr(other)):
                return False
            continue
        if len(one) != len(other):
            return False
        items, others = (one.values(), other.values()) if kind is dict else (one, other)
        todo.extend(compress(zip(items, others, strict=True), map(is_not, items, others)))
    return True


def _may_make_tags(patch: list[dict[str, Any]]) -> bool:
    """Say whether a JSON Patch may give an object the key that marks a tag: the one way to it from plain values."""
    return any(operation["path"].endswith(f"/{TAG}") for operation in patch)


def _recorded(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: already_stored(value) for name, value in entry.items()}
