"""What code says on its way: messages, reports, events of its own, notes, and why it changes the payload.

None of it asks for anything, so no answer would show that it is another one: it is compared with what the recording
has. Each task says one thing after the other, and what it says of one sort is met in that order. The same things said
by other tasks, or by a task in a later round, are in another order, which is worth a word at most. A workflow says what
node it visits.

Changes of the payload are not compared one by one, since another way to the same payload is no difference. What is
compared is why, as a list without repetitions: a change that is made in two steps for the same reason says the same.
What a change asks for and is refused is compared, too, since no payload shows it. Where a node of a workflow is
visited, it is also compared which keys of the state that visit changes: two nodes of one round could make the same
payload, and a re-run or an edit of the one would then be taken for one of the other.

A process that resumes a run says once more what the one before it had said last, where it goes on live before it has
come there. So what a log repeats after `run.resumed` may be said, and need not be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

from ..recorder.change_data import CHANGED_IN_PLACE
from ..recorder.event_codec import body_of
from ..recorder.events import Event
from .catching_up import REASON
from .divergence import Kind
from .script import Script, Strand

_AHEAD: Final = 20
"""So many things that the recording has next are searched for what the code says instead of the first."""

_OF_THE_RECORDER: Final = ("edit", "model", "node")
"""Who asks for a change whose reason is no text of the code's: an edit, a node, a decision, compared as one."""

_KEY: Final = "key "
"""How the topic begins of a key that the visit of a node changes; each key is a topic, since they have no order."""

_GROUPS: Final = ("newElements", "updateElements", "removeElements", "replaceElements")
"""The parts of a change request of MemberJunction's."""


class Saying(NamedTuple):
    """One thing that code says.

    Attributes:
        topic: the sort of thing; those of one sort have an order.
        kind: of the difference that another one makes.
        rule: what an ignore rule calls it, and its name.
        tree: what is compared, in stored form.
    """

    topic: str
    kind: Kind
    rule: tuple[str, str | None]
    tree: Any


@dataclass(slots=True, eq=False)
class Recorded:
    """A thing that the recording says.

    Attributes:
        event: that says it.
        saying: what.
        optional: whether it may be left out, since the log says it twice.
    """

    event: Event
    saying: Saying
    optional: bool = False


class Met(NamedTuple):
    """What the recording has where the code says something.

    Attributes:
        recorded: what it has there; None if it has nothing.
        alike: whether it is the same.
        left_out: what the recording says before, and the code does not.
        moved: whether it is said in another order, by another task or in another round.
    """

    recorded: Recorded | None
    alike: bool
    left_out: tuple[Recorded, ...] = ()
    moved: bool = False


def sayings(kind: str, body: Mapping[str, Any]) -> Iterator[Saying]:
    """What an event says.

    Args:
        kind: of the event.
        body: its data without defaults, in stored form.
    """
    if kind.startswith("x."):
        yield Saying("event", "another event", ("event", kind), body)
    elif (said := _SAID.get(kind)) is not None:
        yield from said(body)


def _message(body: Mapping[str, Any]) -> Iterator[Saying]:
    yield Saying("message", "another message", ("message", None), body.get("message"))


def _messages(body: Mapping[str, Any]) -> Iterator[Saying]:
    if body.get("why") != REASON:
        tree = {name: body.get(name, default) for name, default in (("start", 0), ("stop", None), ("messages", []))}
        tree |= {"why": body["why"]} if "why" in body else {}
        yield Saying("message", "another message", ("message", None), tree)


def _report(body: Mapping[str, Any]) -> Iterator[Saying]:
    source = body.get("source", "report")
    where = {name: body[name] for name in ("node", "visit") if name in body}
    tree = {name: body[name] for name in ("level", "message", "content") if name in body} | where
    if source in ("report", "note"):
        yield Saying("report", "another report", ("report", source), tree)
    elif source in ("log", "diagnostics"):
        yield Saying("line", "another report", ("report", source), tree)
    elif source == "node":
        yield Saying("node", "another node", ("node", None), where | (body.get("content") or {}))


def _note(body: Mapping[str, Any]) -> Iterator[Saying]:
    yield Saying("note", "another decision", ("decision", None), {"scratchpad": body.get("change")})


def _change(body: Mapping[str, Any]) -> Iterator[Saying]:
    reason = body.get("reason")
    by = body.get("source", {}).get("kind", "code")
    if reason == REASON:
        return
    if reason is not None and by not in _OF_THE_RECORDER:
        yield Saying("reason", "another change", ("change", None), {"reason": reason})
    yield from _of_visit(body)
    refused = [("warning", one) for one in body.get("warnings", ()) if one != CHANGED_IN_PLACE]
    for name, one in [*refused, *(("blocked", one) for one in body.get("blocked", ()))]:
        yield Saying("refused", "another change", ("change", None), {name: one})


def _of_visit(body: Mapping[str, Any]) -> Iterator[Saying]:
    """Which keys of the state the visit of a node changes, in whatever order and in however many changes."""
    source = body.get("source", {})
    if "node" not in source or body.get("hash_before") == body.get("hash_after"):
        return
    node, visit = source["node"], source["visit"]
    for key in sorted(_keys_of(body.get("request"))):
        tree = {"node": node, "visit": visit, "key": key}
        yield Saying(f"{_KEY}{node} {visit} {key}", "another change", ("change", None), tree)


def _keys_of(request: Any) -> set[str]:
    """The top keys that a change asks for, in whatever form: a JSON patch, elements in groups, or a merge patch."""
    if isinstance(request, list):
        paths = [op.get(name) for op in request if isinstance(op, Mapping) for name in ("path", "from")]
        return {path.split("/")[1] if "/" in path else "" for path in paths if isinstance(path, str)}
    if not isinstance(request, Mapping):
        return {""}
    groups = [request[name] for name in _GROUPS if name in request]
    return {str(key) for group in groups or [request] if isinstance(group, Mapping) for key in group}


def _merge(body: Mapping[str, Any]) -> Iterator[Saying]:
    if body.get("merge") is not None:
        yield Saying("merge", "another change", ("change", None), {"merge": body["merge"]})


_SAID: Final[dict[str, Callable[[Mapping[str, Any]], Iterator[Saying]]]] = {
    "message.added": _message,
    "messages.replaced": _messages,
    "report": _report,
    "scratchpad.changed": _note,
    "payload.changed": _change,
    "subrun.finished": _merge,
}

_Place = tuple[int | None, str, str]
Same = Callable[[Saying, Saying], bool]


class Said:
    """What one run's code says, met in what its recording says.

    Args:
        script: the recording.
        same: whether two things are the same, as far as they count.
    """

    def __init__(self, script: Script, same: Same) -> None:
        self._same = same
        self._waiting: defaultdict[_Place, list[Recorded]] = defaultdict(list)
        self._places: defaultdict[int | None, list[_Place]] = defaultdict(list)
        self._last: dict[tuple[bool, _Place], Saying] = {}
        self._reached: dict[tuple[int, str], int] = {}
        self._read(script.said)

    def _read(self, events: Iterable[Event]) -> None:
        said_before: dict[_Place, list[Recorded]] = {}
        for event in events:
            if event.kind == "run.resumed":
                said_before = {place: list(waiting) for place, waiting in self._waiting.items()}
                continue
            for saying in sayings(event.kind, body_of(event.data)):
                place = _place(event.round, saying.topic, event.task)
                again = said_before.get(place)
                if self._repeats(True, saying, place) and not again:
                    continue
                optional = bool(again) and any(self._same(one.saying, saying) for one in again or ())
                self._at(place).append(Recorded(event, saying, optional))

    def _at(self, place: _Place) -> list[Recorded]:
        """What waits at a place, which is known by its round from then on: a run has more places than a round has."""
        if place not in self._waiting:
            self._places[place[0]].append(place)
        return self._waiting[place]

    def _repeats(self, recorded: bool, saying: Saying, place: _Place) -> bool:
        """Whether a task gives the same reason for one change more."""
        if saying.topic != "reason" and not saying.topic.startswith(_KEY):
            return False
        before, self._last[recorded, place] = self._last.get((recorded, place)), saying
        return before is not None and self._same(before, saying)

    def meet(self, saying: Saying, strand: Strand) -> Met | None:
        """Meet what the code says; None if it only says it once more."""
        own = _place(strand.round, saying.topic, strand.task)
        if self._repeats(False, saying, own):
            return None
        found = self._find(saying, own)
        if found is not None:
            place, at = found
            waiting = self._waiting[place]
            recorded, left_out = waiting[at], tuple([one for one in waiting[:at] if not one.optional])
            del waiting[: at + 1]
            return Met(recorded, True, left_out, self._moves(recorded.event, strand) or place != own)
        waiting = self._at(own)
        at = next((at for at, one in enumerate(waiting) if not one.optional), len(waiting))
        expected = waiting[at] if at < len(waiting) else None
        del waiting[: at + 1]
        return Met(expected, False)

    def _find(self, saying: Saying, own: _Place) -> tuple[_Place, int] | None:
        """Where the same is said: next in the task, or in another one, or later in the task."""
        near = [place for round in dict.fromkeys((None, own[0])) for place in self._places[round]]
        beside = [place for place in near if place[1] == own[1] and place != own]
        for place in (own, *beside):
            for at, one in enumerate(self._at(place)):
                if self._same(one.saying, saying):
                    return place, at
                if not one.optional:
                    break
        later = enumerate(islice(self._at(own), _AHEAD))
        return next(((own, at) for at, one in later if self._same(one.saying, saying)), None)

    def _moves(self, event: Event, strand: Strand) -> bool:
        place = strand.round, strand.task
        reached = self._reached.get(place, -1)
        self._reached[place] = max(reached, event.seq)
        return event.seq < reached or event.round != strand.round

    def unmet(self, round: int, before: int | None = None) -> list[Recorded]:
        """What the main task has not said in a round; up to an event, if one is given. It counts as met from then on.

        Other tasks may say it later.
        """
        places = list(self._places[round])
        return self._taken(places, lambda event: before is None or event.seq < before)

    def unmet_at_all(self) -> list[Recorded]:
        """What nobody has said."""
        return self._taken(list(self._waiting), lambda event: True)

    def passed_by(self, round: int, reached: Mapping[str, int]) -> list[Recorded]:
        """What tasks have not said that have come to something which is recorded behind it, in a round.

        Args:
            reached: of tasks, the seq of the last event that they have come to.
        """
        return self._taken(
            list(self._waiting),
            lambda event: (
                event.round == round
                and event.seq < max(reached.get(event.task, -1), self._reached.get((round, event.task), -1))
            ),
        )

    def _taken(self, places: Iterable[_Place], wanted: Callable[[Event], bool]) -> list[Recorded]:
        taken: list[Recorded] = []
        for place in places:
            waiting = self._waiting[place]
            taken += [one for one in waiting if wanted(one.event)]
            waiting[:] = [one for one in waiting if not wanted(one.event)]
        return [one for one in taken if not one.optional]


def _place(round: int, topic: str, task: str) -> _Place:
    """Where a thing has its order: in the main task of a round, or in another task, whichever round it has come to."""
    return (round if task == "0" else None), topic, task
