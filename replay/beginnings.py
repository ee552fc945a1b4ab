"""What code begins a run with, compared with what was recorded: is the run that begins here the one that is meant?

A program may make several runs, one after another: a loop over customers. The one that begins first is then executed
as the recorded run, and would get its answers, though it is another customer's. So what the code gives the run, its
payload, its input and its parameters, is compared before anything else is done. An agent that is executed by itself is
given what was recorded, so there is nothing to compare.

Code that goes on live may have been edited, and goes on from the recorded start all the same; there another start is
noted. But where the run may be one of several, nothing is called before a person has said that it is the one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..recorder.events import Event
from ..recorder.store import RunInfo
from ..recorder.values import encode
from .script import Strand
from .sites import site_of_code

if TYPE_CHECKING:
    from .course import Course
    from .recorded_run import RecordedRun


def compare_beginning(course: Course, run: RecordedRun, given: Mapping[str, Any]) -> None:
    """Compare what the code gives a run, `{payload, input, params}`, with what the recording began with.

    A difference is told to the course. Where that lets edited code do otherwise, it is noted, unless the run may be one
    of several that the code makes.
    """
    comparison, started = course.comparison_of(run), run.script.started
    assert started is not None  # else there is nothing to execute code against
    before, now = begun_with(started), run.redacted(encode(dict(given)).stored)
    if comparison.same("start", "", before, now):
        return
    strand = Strand(0, None, "0")
    difference = comparison.value("another start", strand, started, before, now, site=site_of_code())
    difference = replace(difference, name=course.info.agent, effect="agent")
    others = beside(course, started)
    if others:
        fits = next((other for other, event in others if comparison.same("start", "", begun_with(event), now)), None)
        shown = f"{fits.id} began with just this" if fits is not None else f"so did {others[0][0].id}"
        only = course.info.id
        said = (
            f"The process that recorded {only} made several runs of {course.info.agent}; {shown}. If this code makes "
            f"several, name code that makes {only} only. "
        )
        difference = replace(difference, hint=said + difference.hint)
    if course.is_strict or others or run.foreign or course.info.process_seq is None:
        comparison.tell(difference)
    else:
        course.coverage.note(f"{difference.as_note()}; {course.info.id} goes on from what was recorded")


def begun_with(started: Event) -> dict[str, Any]:
    """What a run began with, as it was recorded."""
    return {"payload": started.data.payload, "input": started.data.input, "params": started.data.params}


def beside(course: Course, started: Event) -> list[tuple[RunInfo, Event]]:
    """The other runs of the agent that the same process began, and how each did."""
    process = started.data.process
    if process is None:
        return []
    found = []
    for info in course.store.runs():
        if info.agent == course.info.agent and info.parent is None and info.fork_of is None:
            event = next(iter(course.store.events(info, until=0)), None)
            same_process = event is not None and event.kind == "run.started" and event.data.process == process
            if event is not None and same_process and event.hash != started.hash:
                found.append((info, event))
    return found
