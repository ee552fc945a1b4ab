"""A writer that joined the recorded run, for code that joins the run again.

Which of the recorded writers a process stands for is told by what it asks. The order in which processes join is
another one each time, and so are their names. So of the writers that are left those come into question that have asked
the same as this one, and were answered the same; as long as there are several, none is chosen, since whatever they have
in common does not tell them apart. The first request that only one of them has made decides, or an answer that only one
of them got; then that one is taken, and nobody else can have it. One that asks for what none of them has is compared
with the one that is the nearest. Values read do not decide, as they are different each time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ..recorder.calls import Call
from ..recorder.desk import Desk
from ..recorder.errors import UsageError
from ..recorder.events import Data, Event
from ..recorder.joining import AttachedWriter
from ..recorder.run_recorder import RunRecorder
from ..recorder.scope import Scope, TaskPath
from ..recorder.store import RunInfo
from .changes import MISSING
from .divergence import missing_call, value_difference
from .recorded_run import RecordedRun
from .script import RecordedCall, Script, Strand

if TYPE_CHECKING:
    from .course import Course

_LOOKS: Final = 300
_LOOKS_AT_THE_LAST: Final = 100
_LOOK: Final = 0.01
"""How often, and how many seconds apart, a process looks who is left when it asks for what nobody has asked.

It is less than what a replay takes for waiting for ever."""


class Writer:
    """One writer that joined while the run was recorded.

    Attributes:
        name: such as "w17".
        joined: the event with which it came.
        script: what it did.
    """

    def __init__(self, started: Event, joined: Event, events: Iterable[Event]) -> None:
        self.name: str = joined.data.writer
        self.joined = joined
        own = [event for event in events if event.task.partition(".")[0] == self.name]
        self.left = next((event for event in own if event.kind == "writer.left"), None)
        self.script = Script((started, *[event for event in own if not event.kind.startswith("writer.")]))
        self.script.finished = self.left  # what comes after that is more than it did, and not the end of a recording

    @property
    def entry_point(self) -> str | None:
        """The code that joined."""
        point: str | None = self.joined.data.entry_point
        return point

    def strand(self, strand: Strand, name: str) -> Strand:
        """A strand of the code, which stands for a writer of that name, as one of this writer."""
        return Strand(self.joined.round, strand.within, self.name + strand.task.removeprefix(name))

    def first_unasked(self) -> RecordedCall | None:
        """The first call that the code has not made again."""
        return next((call for call in self.calls if not call.asked), None)

    @property
    def calls(self) -> list[RecordedCall]:
        """Those that are in no other call."""
        return [call for call in self.script.calls.values() if call.called.within is None]


def cannot_go_on(run: RecordedWriter) -> UsageError:
    """What is wrong with a process that has come to the end of what was recorded of it, where the run may go live."""
    step = max(run.log.round, 1)
    return UsageError(
        f"the recording of {run.writer}, which joined {run.info.id} in step {step}, ends in "
        "the middle of what it does, and a process cannot go on where another one was left. "
        f"{live_from(run.info, step)}"
    )


def live_from(info: RunInfo, step: int) -> str:
    """How to have processes that join a run in a step do all of it live."""
    return (
        f"Re-run {info.id} from that step, so that its processes start anew: agentreplay rerun {info.id} --step {step}"
    )


def writers_of(events: Iterable[Event]) -> list[Writer]:
    """The writers of a recording that joined outside of calls; what was within one is covered by its answer."""
    kept, started, joined = [], None, []
    for event in events:
        started = event if event.kind == "run.started" else started
        if event.kind == "writer.joined" and event.within is None:
            joined.append(event)
        elif joined:
            kept.append(event)
    if started is None:
        return []
    bare = started.model_copy(update={"data": started.data.model_copy(update={"payload": None})})
    return [Writer(bare, event, kept) for event in joined]


class RecordedWriter(RecordedRun, AttachedWriter):
    """What code is attached to that joins a run which is replayed.

    Args:
        course: of the execution.
        info: the run.
        desk: where writers are claimed.
        entry_point: the code that joins.
    """

    def __init__(self, course: Course, info: RunInfo, desk: Desk, entry_point: str | None) -> None:
        self._desk = desk
        self._entry_point = entry_point
        self._is_settled = False
        self._postponed: list[tuple[str, Data, int, Scope | None]] = []
        super().__init__(course, info)
        self.path: TaskPath = _Path(self)
        self._act(self._open[0])

    def _read_script(self) -> Script:
        everyone = writers_of(self.course.events_of(self.info))
        left = [one for one in everyone if not self._desk.is_claimed(f"{self.info.uid}-{one.name}")]
        alike = [one for one in left if one.entry_point == self._entry_point]
        self._open = alike or left
        if not self._open:
            self._is_one_more(len(everyone))
        return self._open[0].script

    def _is_one_more(self, count: int) -> NoReturn:
        """Stop code that joins where nobody is left for it to stand for."""
        begun = self.course.begun
        self.course.nobody_left(
            self.info,
            value_difference(
                "another outcome",
                {"writers": count},
                {"writers": count + 1},
                step=0 if begun is None else begun.log.round,
                name=self._entry_point,
                site=self._entry_point,
                run=self.info.id,
            ),
        )

    def attach(self, recorder: RunRecorder) -> None:
        """Take the code's recorder."""
        self.recorder = recorder

    # -- which one -----------------------------------------------------------------------------------

    def _act(self, writer: Writer) -> None:
        """Stand for a writer, perhaps for now."""
        self.acting = writer
        self.writer = writer.name
        self.log.round = writer.joined.round
        if self.script is not writer.script:
            self.script = writer.script
            self.course.compare_anew(self)
        if self.recorder is not None:
            self.recorder.writer = writer.name  # type: ignore[attr-defined]  # of one who joins

    def _settle(self, wanted: Iterable[Writer]) -> bool:
        """Take the first of some writers that is free, for good; says whether there was one."""
        for writer in wanted:
            if self._desk.claim(f"{self.info.uid}-{writer.name}"):
                self._is_settled = True
                self._act(writer)
                postponed, self._postponed = self._postponed, []
                for event in postponed:
                    super().meets(*event)
                return True
            self._open = [one for one in self._open if one is not writer]
        return False

    def _settle_in_any_case(self, wanted: Iterable[Writer]) -> None:
        """Take one of some writers, or any that is left; stop code of which there is one too many."""
        if not self._settle([*wanted]) and not self._settle([*self._open]):
            self._is_one_more(len(writers_of(self.course.events_of(self.info))))

    def _let_others_choose(self) -> None:
        """Wait for other processes to take those that they ask the same as; who differs is compared with who is left.

        Else what is told would be the difference of two who have nothing to do with each other.
        """
        looks = 0 if self._desk.pid == os.getpid() else _LOOKS
        while looks > 0 and self._open:
            self._open = [one for one in self._open if not self._desk.is_claimed(f"{self.info.uid}-{one.name}")]
            looks = (min(looks, _LOOKS_AT_THE_LAST) if len(self._open) == 1 else looks) - 1
            time.sleep(_LOOK)

    def _find(self, call: Call, data: Any, strand: Strand) -> RecordedCall | None:
        if not self._is_settled:
            kind, key, name = call.effect.kind, self.key_of_call(call.effect.kind, data), self.writer
            found = [(one, one.script.find(kind, data.name, key, one.strand(strand, name))) for one in self._open]
            exact = [(one, recorded) for one, recorded in found if recorded is not None]
            if (
                len(exact) > 1
                and len({_answer(recorded) for _, recorded in exact}) == 1
                and not self.course.turns.waits
            ):
                self._open = [one for one, _ in exact]
                self._act(self._open[0])
                for _, recorded in exact[1:]:
                    recorded.asked = True
            else:
                if not exact:
                    self._let_others_choose()
                alike = [one for one in self._open if _asks_alike(one, kind, data.name)]
                self._settle_in_any_case([one for one, _ in exact] or alike)
            strand = self.acting.strand(strand, name)
        return super()._find(call, data, strand)

    # -- what does not tell -------------------------------------------------------------------------------

    def meets(self, kind: str, data: Data, round: int, scope: Scope | None) -> bool:
        """Meet an event of the code; before it is known whose it is, it is kept until then."""
        if kind == "writer.left":
            self._leaves(data)
            return True
        if not self._is_settled:
            self.course.go_on()
            self._postponed.append((kind, data, round, scope))
            return True
        return super().meets(kind, data, round, scope)

    def read(self, source: str, what: str | None, *rest: Any) -> tuple[Any] | None:
        """The recorded value; before it is known who reads, one that nobody else was given."""
        if self._is_settled or len(self._open) == 1:
            return super().read(source, what, *rest)
        self.course.go_on()
        having = [one for one in self._open if self._next_read(one, source, what) is not None]
        lent = next((one for one in having if self._lends(one, source, what)), None)
        if lent is None:
            self._settle_in_any_case(having)
            return super().read(source, what, *rest)
        for one in having:
            if one is not lent:
                one.script.read(self._strand_of(one), source, what)
        self._act(lent)
        return super().read(source, what, *rest)

    def child(self, name: str, begun_with: Any, scope: Scope) -> Any:
        """The recording of a child run; who begins one is known from then on, as the child has a log of its own."""
        if not self._is_settled:
            self._settle_in_any_case([one for one in self._open if one.script.children])
        return super().child(name, begun_with, scope)

    def _lends(self, writer: Writer, source: str, what: str | None) -> bool:
        event = self._next_read(writer, source, what)
        return event is not None and self._desk.claim(f"{self.info.uid}-read-{event.seq}")

    def _next_read(self, writer: Writer, source: str, what: str | None) -> Event | None:
        waiting = writer.script.reads.get((self._strand_of(writer), (source, what)))
        return waiting[0] if waiting else None

    def _strand_of(self, writer: Writer) -> Strand:
        return Strand(writer.joined.round, None, writer.name)

    # -- the end -------------------------------------------------------------------------------------

    def _leaves(self, data: Any) -> None:
        """The code leaves the run: compare what it has not done, and whether an error ended it."""
        course = self.course
        if course.stopped is not None:
            return
        if not self._is_settled:
            idle = [one for one in self._open if one.first_unasked() is None]
            self._settle_in_any_case(idle or self._open)
        before, after = self.acting.left, data.error
        told = None if before is None else before.data.error
        if before is not None and (told is None) != (after is None):
            shown = [MISSING if one is None else {"type": one.type, "message": one.message} for one in (told, after)]
            where: dict[str, Any] = {"step": before.round, "seq": before.seq, "name": self.writer, "run": self.info.id}
            course.parts(value_difference("another error", *shown, **where))
            return
        for call in self.acting.calls:
            if not (call.asked or call.missed):
                call.missed = True
                course.parts(missing_call(call, step=call.called.round, run=self.info.id))


class _Path(TaskPath):
    """The path of the code that joins, named after the writer that it stands for at the moment."""

    __slots__ = ("_of", "_suffix")

    def __init__(self, of: RecordedWriter, suffix: str = "") -> None:
        self._of = of
        self._suffix = suffix
        super().__init__("", 0)

    @property
    def text(self) -> str:
        """As events show it."""
        return f"{self._of.writer}{self._suffix}"

    @text.setter
    def text(self, value: str) -> None:
        return

    def child(self, round: int) -> TaskPath:
        """The path of the next task or thread; all of it is in the round in which the run was joined."""
        return _Path(self._of, super().child(0).text)

    def timer(self, round: int) -> int:
        """The number of the next timer."""
        return super().timer(0)


def _asks_alike(writer: Writer, kind: str, name: str) -> bool:
    return any((call.kind, call.name) == (kind, name) and not call.asked for call in writer.script.calls.values())


def _answer(call: RecordedCall) -> Any:
    """What the code was answered, to be compared; another thing each time for what it was not."""
    ended: Any = call.ended
    if ended is None:
        return id(call)
    data = ended.data
    given = [getattr(data, name, None) for name in ("result", "response", "error", "form", "stream")]
    return f"{ended.kind} {given!r}"
