"""What code says, compared with its recording: what is another one, new or missing is told; see `said`.

Lines of the logger and diagnostic notes are for people who watch a run, and hold times and durations as a rule. So
that they are others is noted and no difference. For a re-run or a resumed run, all but messages and visits of nodes is:
such code was edited, often by a line that reports more, and what is said has led to nothing.

Why the payload was changed is told where the payload is compared, at the end of a round: if that differs, too, it is
what a person wants to be told first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..recorder.event_codec import body_of
from ..recorder.events import Data, Event
from ..recorder.values import encode
from .changes import MISSING
from .divergence import Difference
from .said import Recorded, Said, Saying, sayings
from .script import SAID, Strand
from .sites import site_of_code

if TYPE_CHECKING:
    from .comparison import Comparison
    from .course import Course
    from .recorded_run import RecordedRun


class ComparedSaid:
    """Compares what one run's code says.

    Args:
        whole: compares all that the code does.
        run: the run.
        course: of the execution.
    """

    def __init__(self, whole: Comparison, run: RecordedRun, course: Course) -> None:
        self._whole = whole
        self._run = run
        self._course = course
        self._said = Said(run.script, self._alike)
        self._reached: dict[str, int] = {}
        self._of_changes: list[tuple[int, Difference]] = []

    def _alike(self, one: Saying, other: Saying) -> bool:
        rule, name = one.rule
        return one.rule == other.rule and self._whole.same(rule, name or "", one.tree, other.tree)

    def _counts(self, saying: Saying) -> bool:
        return not self._course.ignore.ignores(*saying.rule)

    # -- what is said ------------------------------------------------------------------------------------

    def says(self, kind: str, data: Data, strand: Strand) -> None:
        """Compare what an event of the code says. What is said inside an answered call comes from the log itself."""
        if strand.within is not None or not (kind in SAID or kind.startswith("x.")):
            return
        body, lossy = encode(body_of(data))
        if lossy:  # as it would be stored
            body = {**body, "lossy": list(lossy)}
        for saying in sayings(kind, self._run.redacted(body)):
            if self._counts(saying):
                self._meet(saying, strand)

    def _meet(self, saying: Saying, strand: Strand) -> None:
        met = self._said.meet(saying, strand)
        if met is None:
            return
        for one in met.left_out:
            self._differs(self._left_out(one), one.saying)
        if met.moved:
            self._note_order(strand.round)
        if met.alike:
            self._course.coverage.visits += saying.topic == "node"
            return
        if met.recorded is None:
            self._whole.ends_at(strand)
        expected: Any = MISSING
        name = saying.rule[1]
        actual = saying.tree
        event = None if met.recorded is None else met.recorded.event
        if met.recorded is not None:
            expected = met.recorded.saying.tree
            if met.recorded.saying.rule != saying.rule:
                expected, actual = [_named(one) for one in (met.recorded.saying, saying)]
        self._differs(
            self._whole.value(saying.kind, strand, event, expected, actual, name=name, site=site_of_code()), saying
        )

    def _note_order(self, round: int) -> None:
        run = self._run
        where = f"step {round}" if run.parent is None else f"{run.info.id}, step {round}"
        self._course.coverage.note(
            f"{where}: what the code reports comes in another order than it was recorded in", once=(run, "order", round)
        )

    # -- what is not said --------------------------------------------------------------------------------

    def reaches(self, event: Event) -> None:
        """Note that a task of the code has come to an event."""
        self._reached[event.task] = max(event.seq, self._reached.get(event.task, -1))

    def missing(self, round: int, before: int | None) -> list[tuple[int, Difference]]:
        """What the main task has not said in a round, by seq; what is only noted is noted.

        Args:
            before: seq of the event up to which the code has come; None for the end of the round.
        """
        return self._lacking(self._said.unmet(round, before))

    def missing_at_the_end(self) -> list[tuple[int, Difference]]:
        """What nobody has said, now that the run ends, and what is to be told of changes."""
        noted = self._course.turns.threads_at_work()
        return self._lacking(self._said.unmet_at_all(), noted=noted) + self.of_changes()

    def missing_where_it_ends(self, round: int) -> list[tuple[int, Difference]]:
        """What was not said before that to which the code has come, where the recording ends in a round."""
        return self._lacking(self._said.passed_by(round, self._reached)) + self.of_changes()

    def of_changes(self) -> list[tuple[int, Difference]]:
        """What is to be told of changes of the payload, by seq, now that the payload was compared."""
        told, self._of_changes = self._of_changes, []
        return told

    def _lacking(self, found: Iterable[Recorded], noted: bool = False) -> list[tuple[int, Difference]]:
        lacking = []
        for one in found:
            if not self._counts(one.saying):
                continue
            difference = self._left_out(one)
            if noted or self._is_noted(one.saying):
                self._note(difference)
            elif difference.kind == "another change":
                self._of_changes.append((one.event.seq, difference))
            else:
                lacking.append((one.event.seq, difference))
        return lacking

    def _left_out(self, one: Recorded) -> Difference:
        strand, name = Strand(one.event.round, None, one.event.task), one.saying.rule[1]
        return self._whole.value(one.saying.kind, strand, one.event, one.saying.tree, MISSING, name=name)

    # -- telling -----------------------------------------------------------------------------------------

    def _differs(self, difference: Difference, saying: Saying) -> None:
        if self._is_noted(saying):
            self._note(difference)
        elif difference.kind == "another change":
            self._of_changes.append((difference.seq or 0, difference))
        else:
            self._whole.tell(difference)

    def _is_noted(self, saying: Saying) -> bool:
        return saying.topic == "line" or (saying.topic not in ("message", "node") and not self._course.is_strict)

    def _note(self, difference: Difference) -> None:
        self._course.coverage.note(
            difference.as_note(),
            once=(self._run, "said", difference.kind, difference.name),
        )


def _named(saying: Saying) -> dict[str, Any]:
    """What is said, with its name."""
    kind, name = saying.rule
    return {kind: name, "data": saying.tree}
