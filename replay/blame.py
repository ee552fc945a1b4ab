"""Who is to blame: every event that ever changed the value at a path, newest first.

A path means what it means in the state that is looked at. From there the value is followed back, event by event. The
key of an object names the same place for ever. The index of an item does not: the price at `/items/2/price` was at
`/items/1/price` before something was put in front of it. So where a list differs from the one before, the item is
looked for where it was (see `origin`).

- Before a value was added, the same key, or an item that says it is the same one, may have been there and been removed.
  Then that is part of its history too.
- Where a list was replaced as a whole, by items that do not say who they are, nothing tells which of them is which.
  They are followed by their order, and a note says so.
- What became of a place that is there no more is asked of the last version in which it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from ..recorder.errors import UsageError
from ..recorder.events import Event
from .changes import MISSING, Change, Changes, Kind
from .equality import same
from .insides import inside_of
from .origin import differing, identity_of, origin, places_of
from .past import FOLDED, Absent, Past, Version, past_of
from .paths import Keys, display_keys, join, keys_of, split, to_pointer
from .places import Place, fits, nearest, place_of, reached
from .readable import readable

__all__ = ["FOLDED", "Blamed", "blame_of"]

_SHOWN: Final = 40  # characters of a value in a note


@dataclass(frozen=True, slots=True)
class Blamed(Change):
    """A change of the value that was asked for.

    `path` is where it was at that time; `old` and `new` are the whole value before and after.

    Attributes:
        note: what else is to be said: what the value came or went with, which list was replaced as a whole. Or None.
    """

    note: str | None = None


def blame_of(events: Iterable[Event], path: str, step: int = -1, *, run: str = "") -> Changes:
    """Every event that changed the value at a path: it, anything inside it, or what it is in.

    Args:
        events: of the run, in order; read no further than the step. Kinds not in `FOLDED` may be left out.
        path: of the payload at that step; a JSON Pointer, or as people write it (`order.items[0].price`).
        step: from 0, the start; negative steps count from the end.
        run: the run's name, for messages.

    Returns:
        The changes, newest first, as `Blamed`, the values in stored form. The `new` of the first is the value at that
        step, `MISSING` if there is none any more; the `old` of each is the `new` of the next; the last is what added
        the value, or the start of the run if it was there then.

    Raises:
        UsageError: the path cannot be read, nothing was ever there, or the run has no such step.
        CorruptLog: the log stops making sense before.
    """
    pointer = to_pointer(path)
    # A number may be the index of an item, which moves; up to the first one, a path is the same at all times.
    fixed = tuple(takewhile(lambda key: isinstance(key, str), keys_of(pointer)))
    rest = join(split(pointer)[len(fixed) :])
    past = past_of(events, fixed, step, whole=not rest, run=run)
    place = _place(rest, past.part)
    trail = None if place is None else _Trail(reached(fixed, past.payload).keys, place)
    blamed: list[Blamed | None] = []
    for version in past.versions():
        if trail is not None:
            blamed.append(trail.back(version))
            if trail.ended:
                break
        elif (place := _place(rest, version.before)) is not None:
            trail = _Trail(fixed, place)
            blamed.append(trail.removal(version))
    if trail is None:
        raise _never(pointer, past, run)
    return Changes([change for change in blamed if change is not None])


def _place(pointer: str, part: Any) -> Place | None:
    return None if isinstance(part, Absent) else place_of(pointer, part)


def _never(pointer: str, past: Past, run: str) -> UsageError:
    asked = display_keys(keys_of(pointer, past.payload))
    meant = display_keys(nearest(pointer, past.payload))
    return UsageError(
        f"{run or 'the run'} has no {asked} at step {past.step}, and had none before; did you mean {meant}?"
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """How far a place that is followed leads in another version.

    Attributes:
        keys: where it leads; as many as the place has if it is there.
        nodes: the values on the way, as in `Place`; none if the part is absent.
        absent: says so.
        replaced: the keys of the list on the way that was replaced as a whole, if one was.
        ambiguous: it leads no further because several items say that they are the one.
    """

    keys: Keys
    nodes: tuple[Any, ...]
    absent: Absent | None = None
    replaced: Keys | None = None
    ambiguous: bool = False


class _Trail:
    """A place that is followed back in time.

    While nothing is there, it is kept as it was when it was last seen, so that it is known when it comes up again. An
    item is then known by what it says it is; `_lost` are the positions in the path of those that are looked for.

    Args:
        prefix: keys of the part that the place is in.
        place: in the newest version of the part in which it is.
    """

    def __init__(self, prefix: Keys, place: Place) -> None:
        self._prefix = prefix
        self._keys = list(place.keys)
        self._nodes = list(place.nodes)
        self._now = _Found(*place)
        self._lost: set[int] = set()
        self._notes: list[str] = []
        self.ended = False

    def removal(self, version: Version) -> Blamed:
        """The change after which the path that leads to this place leads nowhere."""
        found = self._locate(version.after)
        self._note_replacement(found, version)
        if self._value(found) is not MISSING:
            note: str | None = f"from then on it is {self._display(found.keys)}"
        else:
            note = self._with(self._now.keys, found, "which is {} after it")
        return self._blamed("remove", self._nodes[-1], MISSING, version, self._now.keys, note)

    def back(self, version: Version) -> Blamed | None:
        """Go back before an event; give what it changed, if it did."""
        found, now = self._locate(version.before, version.differing), self._now
        if isinstance(version.after, Absent):
            now = _Found((), (), version.after)
        self._note_replacement(found, version)
        was, value = self._value(found), self._value(now)
        change = None
        if was is MISSING and value is not MISSING:
            note = self._with(now.keys, found, "which was {} before")
            change = self._blamed("add", MISSING, value, version, now.keys, note)
        elif was is not MISSING and value is MISSING:
            note = self._with(found.keys, now, "which is {} after it")
            change = self._blamed("remove", was, MISSING, version, found.keys, note)
        elif not same(was, value):
            change = self._blamed("replace", was, value, version, now.keys, None)
        self._go(found)
        return change

    def _locate(self, part: Any, within: range | None = None) -> _Found:
        """Follow the place from the version in which it was followed to last into a neighbouring one.

        Args:
            part: the neighbouring version.
            within: of two lists, the indexes at which this one differs, if they are known.
        """
        if isinstance(part, Absent):
            return _Found((), (), part)
        keys: list[str | int] = []
        nodes = [part]
        replaced, ambiguous = None, False
        for depth, key in enumerate(self._keys):
            node: Any = inside_of(nodes[-1])
            here: str | int | None = None
            if not fits(node, key):
                break
            if isinstance(key, str):
                here = key if key in node else None
            elif depth in self._lost:
                span = self._span(node, depth) if depth or within is None else within
                places = places_of(self._nodes[depth + 1], node, span)
                here, ambiguous = (places[0] if len(places) == 1 else None), len(places) > 1
            else:
                here, as_a_whole = origin(node, inside_of(self._nodes[depth]), key)  # type: ignore[arg-type]  # it fits
                replaced = tuple(keys) if as_a_whole else replaced
            if here is None:
                break
            keys.append(here)
            nodes.append(node[here])
        return _Found(tuple(keys), tuple(nodes), None, replaced, ambiguous)

    def _span(self, items: list[Any], depth: int) -> range:
        """Where in a list a lost item may be: it was not in the version of the list after, if there was one."""
        nodes = self._now.nodes
        later = inside_of(nodes[depth]) if depth < len(nodes) else None
        return differing(items, later) if type(later) is list else range(len(items))

    def _go(self, found: _Found) -> None:
        self._now = found
        reached = len(found.keys)
        self._keys[:reached] = found.keys
        self._lost = {depth for depth in self._lost if depth >= reached}
        if len(found.nodes) > len(self._keys):
            self._nodes = list(found.nodes)
            return
        self._nodes[:reached] = found.nodes[:reached]
        items = None if found.absent is not None else inside_of(found.nodes[-1])
        if type(items) is list and isinstance(self._keys[reached], int):
            if reached not in self._lost:
                self._lost.add(reached)
                # Where nothing tells the item from others, it is not looked for any further.
                item = self._nodes[reached + 1]
                self.ended = identity_of(item) is None or bool(places_of(item, items, range(len(items))))
            self.ended = self.ended or found.ambiguous

    def _value(self, found: _Found) -> Any:
        return found.nodes[-1] if len(found.nodes) > len(self._keys) else MISSING

    # -- what is said --------------------------------------------------------------------------------

    def _blamed(self, kind: Kind, old: Any, new: Any, version: Version, keys: Keys, note: str | None) -> Blamed:
        notes = [*([note] if note else []), *self._notes]
        self._notes.clear()
        path = (*self._prefix, *keys)
        return Blamed(join(path), kind, old, new, version.cause, keys=path, note="; ".join(notes) or None)

    def _display(self, keys: Keys) -> str:
        return display_keys((*self._prefix, *keys))

    def _with(self, keys: Keys, other: _Found, instead: str) -> str | None:
        """Say what came or went with the value at `keys`, of which `other` is the side where it is not."""
        path = (*self._prefix, *keys)
        if other.absent is not None:
            reached, holder = len(other.absent.keys), other.absent.holder
        else:
            reached, holder = len(self._prefix) + len(other.keys), other.nodes[-1]
        if holder is MISSING:
            return None
        if not fits(holder, path[reached]):
            return f"with {display_keys(path[:reached])}, {instead.format(readable(holder, _SHOWN))}"
        return f"with {display_keys(path[: reached + 1])}" if reached + 1 < len(path) else None

    def _note_replacement(self, found: _Found, version: Version) -> None:
        """Keep for the next change that is found that a list was replaced as a whole."""
        if found.replaced is not None:
            what = f"event {version.cause.seq} replaced {self._display(found.replaced)} as a whole"
            followed = len(found.keys) > len(found.replaced)
            self._notes.append(f"{what}, its items are followed by their order" if followed else what)
