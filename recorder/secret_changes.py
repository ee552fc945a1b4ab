"""Find the secrets in a tree of which an earlier version was searched, by looking at what changed only.

What a part of a tree is redacted to depends on the part itself and on its context (`secret_trees`): the secret key that
it stands under and what it is a part of. That context follows from the containers around it, one after the other. So
this walk goes down both versions at once. Where both hold the very same object in the same context, it stays what it
was redacted to. Where both hold containers in the same context, their items are compared in the same way. Everything
else is searched as if there were no earlier version.

Containers may be wide, so unchanged items are passed over by calls that loop in C. That is right where all that the
contexts of the items depend on, beside the items, is equal in both versions: of a dict `Around` and the names of users
in it, of a list its shape and, for each item, the one in front of it. Where it is not, items are compared one by one.
"""

from __future__ import annotations

from itertools import chain, compress, count, islice, repeat
from operator import is_not, sub
from typing import Any, Final, NamedTuple

from .plain import Stored, dumps
from .secret_commands import may_call
from .secret_trees import ENTRIES, USERS, WORDS, Context, Place, TreeRules, Walk, copied
from .subtrees import changed_places

_NOWHERE: Final = -2
"""The place of an item that the earlier version lacks; no place is one behind it."""

_ABSENT: Final[Any] = object()

_SHORT: Final = 64
_FEW: Final = 16
"""So many new items are compared one by one with the earlier ones, however few there are beside them."""


class _Item(NamedTuple):
    """An item of a container.

    Attributes:
        number: of the node that the container is.
        place: in it.
        value: the item.
        old: the item of the earlier version that it is compared with.
        redacted: what that was redacted to.
        depth: in how many containers it is.
        unlike: whether the versions of the container have so little in common that to look into both is a waste.
    """

    number: int
    place: Place
    value: Any
    old: Any
    redacted: Any
    depth: int
    unlike: bool


class _Aligned(NamedTuple):
    """Two versions of a list beside each other.

    Attributes:
        places: of the new version, to look at.
        sources: which places of the old version have what stands there, where it is not the same place.
        new: how many items are new.
        kept: the list with what the items at all other places were redacted to; None when that is themselves.
    """

    places: list[int]
    sources: dict[int, int]
    new: int
    kept: list[Any] | None


class ChangedWalk(Walk):
    """One walk over what changed in a tree.

    Args:
        rules: what is a secret; the same as for the earlier version, and secrets known by then are those known now.
        stored: the tree, which is never changed in place; it shares what did not change with the earlier version.
        old: the earlier version.
        redacted: what that was redacted to.

    Raises:
        TypeError: the tree is nested more deeply than JSON is written in one piece.
    """

    def __init__(self, rules: TreeRules, stored: Stored, old: Stored, redacted: Stored) -> None:
        self._before: dict[int, tuple[Any, Any, int]] = {}
        self._bases: dict[int, Any] = {}
        if _are_comparable(stored, old, redacted):
            self._before[1] = old, redacted, 1
        else:
            dumps(stored)
        super().__init__(rules, [stored])

    def _visit(self, number: int) -> None:
        before = self._before.pop(number, None)
        if before is None:
            super()._visit(number)
            return
        old, redacted, depth = before
        value = self._nodes[number][0]
        if type(value) is list:
            self._visit_changed_list(number, value, old, redacted, depth)
        elif "$type" in value:
            context: Context = (self._nodes[number][1], ENTRIES, None)
            item = _Item(number, "items", value["items"], old["items"], redacted["items"], depth, unlike=False)
            self._again(item, (context, context))
        else:
            self._visit_changed_dict(number, value, old, redacted, depth)

    def _made(self, number: int, value: Any) -> Any:
        base = self._bases.get(number)
        if base is None:
            return super()._made(number, value)
        renames = self.renames.get(number)
        for place, new in self.edits.get(number, {}).items():
            base[place] = new
        if renames:
            return copied(base, {}, renames)
        items = (base.values(), value.values()) if type(value) is dict else (base, value)
        return base if any(map(is_not, *items)) else value

    # -- items ---------------------------------------------------------------------------------------------------------

    def _again(self, at: _Item, contexts: tuple[Context, Context]) -> None:
        """Look at an item that both versions have, given its context in the new one and in the old one."""
        number, place, value, old, redacted, depth, unlike = at
        secret, role, right = contexts[0]
        same = contexts[0] == contexts[1]
        if same and value is old:
            if redacted is not value:
                self.edits.setdefault(number, {})[place] = redacted
        elif same and not unlike and _are_comparable(value, old, redacted):
            self._before[len(self._nodes)] = old, redacted, depth + 1
            _, _, _, _, _, deep, inherited = self._nodes[number]
            self._nodes.append((value, secret, number, place, role, deep, inherited if right is None else right))
        else:
            self._search(number, place, value, contexts[0], depth)

    def _search(self, number: int, place: Place, value: Any, context: Context, depth: int) -> None:
        """Look at an item as if there were no earlier version."""
        if type(value) is dict or type(value) is list:
            raw = _dumped(value, depth)
            if context[0] is None and not context[1] and self._rules.is_clean(raw):
                return
        self._child(number, place, value, *context)

    def _is_another(self, number: int, new: int, depth: int) -> bool | None:
        """Say whether most of a wide container is new, so that comparing is a waste; None if it is clean as a whole."""
        value, secret, _, _, role, _, _ = self._nodes[number]
        if new <= _FEW or new <= len(value) // 2:
            return False
        return None if secret is None and not role and self._rules.is_clean(_dumped(value, depth - 1)) else True

    # -- dicts ---------------------------------------------------------------------------------------------------------

    def _visit_changed_dict(
        self, number: int, value: dict[str, Any], old: dict[str, Any], redacted: dict[str, Any], depth: int
    ) -> None:
        around, before = self._around(number, value), self._around(number, old)
        changed = list(compress(value, map(is_not, value.values(), map(old.get, value, repeat(_ABSENT)))))
        unlike = self._is_another(number, len(changed), depth)
        if unlike is None:
            return
        if redacted is not old and list(redacted) != list(old):  # its keys had secrets in them
            redacted, changed = dict(zip(old, redacted.values(), strict=True)), list(value)
        elif around[:-1] != before[:-1] or _differ_in_users(value, old, changed):
            changed = list(value)
        elif redacted is not old:
            self._bases[number] = _kept_of_dict(value, old, redacted, changed)
        for key in changed:
            text = self._named(number, around, key)
            if text is None:
                continue
            context = self._context(around, key, text)
            if key in old and around.pointers is before.pointers:
                item = _Item(number, key, value[key], old[key], redacted[key], depth, unlike)
                self._again(item, (context, self._context(before, key, text)))
            else:
                self._search(number, key, value[key], context, depth)

    # -- lists ---------------------------------------------------------------------------------------------------------

    def _visit_changed_list(
        self, number: int, value: list[Any], old: list[Any], redacted: list[Any], depth: int
    ) -> None:
        shape, before = self._shape(number, value), self._shape(number, old)
        if shape == WORDS and not (before == WORDS and _are_read_alike(value, old)):
            self._visit_words(number, value, range(len(value)))
            return
        places, sources, new, kept = _aligned(value, old, redacted)
        unlike = self._is_another(number, new, depth)
        if unlike is None:
            return
        if shape == before:
            self._bases[number] = kept
        else:
            places = list(range(len(value)))
        if shape == WORDS:
            self._visit_words(number, value, places)
            return
        for place, context in self._contexts(number, value, shape, places):
            source = sources.get(place, place)
            if before != WORDS and source < len(old):
                ((_, old_context),) = self._contexts(number, old, before, (source,))
                item = _Item(number, place, value[place], old[source], redacted[source], depth, unlike)
                self._again(item, (context, old_context))
            else:
                self._search(number, place, value[place], context, depth)


def _are_comparable(value: Any, old: Any, redacted: Any) -> bool:
    """Say whether a value can be compared item by item with an earlier version, and what that was redacted to."""
    kind = type(value)
    if kind is not type(old) or kind is not type(redacted):
        return False
    if kind is list:
        return len(old) == len(redacted)
    if kind is not dict:
        return False
    if "$type" not in value and "$type" not in old and "$type" not in redacted:
        return len(old) == len(redacted)
    return all(
        len(one) == 2 and one.get("$type") == "dict" and type(one.get("items")) is list
        for one in (value, old, redacted)
    )


def _dumped(value: Any, depth: int) -> bytes:
    """Return the JSON of a value that stands in so many containers.

    Raises:
        TypeError: with them it is nested more deeply than JSON is written.
    """
    for _ in range(depth):
        value = [value]
    raw = dumps(value)
    return raw[depth : len(raw) - depth]


def _differ_in_users(value: dict[str, Any], old: dict[str, Any], changed: list[str]) -> bool:
    """Say whether a name of a user, which makes a password of what is called `pass`, came or went."""
    other = [key for key in changed if key not in old]
    if len(old) != len(value) - len(other):
        other.extend(old.keys() - value.keys())
    return not USERS.isdisjoint(map(str.lower, other))


def _kept_of_dict(
    value: dict[str, Any], old: dict[str, Any], redacted: dict[str, Any], changed: list[str]
) -> dict[str, Any]:
    """Return a dict with what its entries were redacted to, but for those that changed."""
    in_place = list(islice(value, len(old))) == list(old)
    kept = redacted.copy() if in_place else dict(zip(value, map(redacted.get, value), strict=True))
    for key in changed:
        kept[key] = value[key]
    return kept


def _are_read_alike(value: list[str], old: list[str]) -> bool:
    """Say whether what a text among others is depends on itself and the one in front of it only."""
    if len(value) <= 2 or len(old) <= 2:  # perhaps a name and its value
        return False
    return value[:4] == old[:4] or not (may_call(value) or may_call(old))


def _aligned(value: list[Any], old: list[Any], redacted: list[Any]) -> _Aligned:
    """Compare two versions of a list: by identity, or by place where it is long and nearly all items are in place.

    To be looked at is what is new, and what has another item in front of it.
    """
    changed = changed_places(old, value) if len(value) > _SHORT else None
    kept = None
    if changed is not None and len(changed) <= _FEW:
        behind = [place + 1 for place in changed if place + 1 < len(value)]
        places, sources, new = sorted({*changed, *behind}), {}, len(changed)
        if redacted is not old:
            kept = [*redacted, *value[len(old) :]]
    else:
        where = dict(zip(map(id, old), count(), strict=False))
        found = list(map(where.get, map(id, value), repeat(_NOWHERE)))
        places = list(compress(count(), map((1).__ne__, map(sub, found, chain((-1,), found)))))
        sources = {place: found[place] for place in places if found[place] != _NOWHERE}
        new = found.count(_NOWHERE)
        if redacted is not old:
            kept = list(map(dict(zip(map(id, old), redacted, strict=True)).get, map(id, value)))
    if kept is not None:
        for place in places:
            kept[place] = value[place]
    return _Aligned(places, sources, new, kept)
