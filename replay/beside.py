"""Tools that were called one after the other, and are called beside each other now; or the other way round.

    await post("one"); await post("two")          await asyncio.gather(post("one"), post("two"))

Both ask for the same calls in the same order. But the second call could rely on the first one's being done, or not be
made at all where that failed. So a tool that a task called after another had ended, and that is called now before the
answer of that one has reached the code, is a divergence unless both are pure. The other way round nothing is done that
the recording had not: that is a note.

What decides is the order of events in the log, and here the order in which answers are handed out; never the time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .divergence import Difference, hint_for, swapped_calls
from .script import RecordedCall
from .sites import site_of_code

if TYPE_CHECKING:
    from .recorded_run import RecordedRun


_PIECEMEAL: Final = ("generator", "async generator", "thread future")


class Beside:
    """Which tools of a run are under way.

    Args:
        run: the recording.
    """

    def __init__(self, run: RecordedRun) -> None:
        self._run = run
        self._under_way: dict[str, RecordedCall] = {}
        self._given: dict[tuple[int, str | None], dict[str, RecordedCall]] = {}

    def asked(self, call: RecordedCall) -> None:
        """The code calls a tool, or a model, which touches nothing that a tool does."""
        if call.kind != "tool":
            return
        for other in list(self._under_way.values()):
            if _is_one_after_the_other(other, call) and not _are_pure(other, call):
                self._run.course.parts(self._not_beside(other, call))
                break
        for other in self._given.get(_place(call), {}).values():
            if _were_beside(other, call) and not _are_pure(other, call):
                self._note(other, call)
                break
        if _is_given_at_once(call):
            self._under_way[call.call] = call

    def given(self, call: RecordedCall, *, awaited: bool) -> None:
        """The answer to a call reaches the code, or the code does not wait for it any more.

        Threads go on as the system likes, so nothing is noted of what was beside a call that nobody awaits.
        """
        if self._under_way.pop(call.call, None) is not None and awaited:
            self._given.setdefault(_place(call), {})[call.call] = call

    def _not_beside(self, other: RecordedCall, call: RecordedCall) -> Difference:
        round, run = call.called.round, self._run.info.id
        swapped = swapped_calls(other, call, step=round, site=site_of_code(), run=run)
        hint = (
            f"{call.call} ({call.name}) and {other.call} ({other.name}) are made beside each other now, one after the "
            'other then; only tools that are declared safety="pure" may be. '
            + hint_for("another call", run, round, call)
        )
        return replace(swapped, seq=call.seq, call=call.call, hint=hint)

    def _note(self, other: RecordedCall, call: RecordedCall) -> None:
        round, run = call.called.round, self._run
        where = f"step {round}" if run.parent is None else f"{run.info.id}, step {round}"
        run.course.coverage.note(
            f"{where}: {other.call} ({other.name}) and {call.call} ({call.name}) are called one after the other now, "
            "and were under way beside each other when they were recorded",
            once=(run, "beside", round),
        )


def _place(call: RecordedCall) -> tuple[int, str | None]:
    return call.called.round, call.called.within


def _is_given_at_once(call: RecordedCall) -> bool:
    """Whether the answer comes as one, at a moment that is known: no stream, and no future of a pool."""
    return call.ended is not None and getattr(call.ended.data, "form", None) not in _PIECEMEAL


def _is_one_after_the_other(first: RecordedCall, then: RecordedCall) -> bool:
    return first.strand == then.strand and first.ended is not None and first.ended.seq < then.seq


def _were_beside(first: RecordedCall, then: RecordedCall) -> bool:
    """Whether each began before the other had ended."""
    return (
        first.ended is not None and then.ended is not None and first.seq < then.ended.seq and then.seq < first.ended.seq
    )


def _are_pure(*calls: RecordedCall) -> bool:
    return all(call.called.data.safety == "pure" for call in calls)
