"""Beginning a recorded run again where the code that is named makes an agent, and does not invoke it.

An agent of a framework is an object with a conversation of its own, and what it was asked stands in the recording. So
it is enough to name what makes the agent: an object with the attribute `__agentreplay_begin__` is given what the run
began with, and begins it. A run that waits for a person in the middle goes on in the same way, with the recorded
answers, unless the code itself gives them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any, Final

from ..recorder.attaching import waiting
from ..recorder.store import EventStore, RunInfo
from .exactly import exactly

BEGIN: Final = "__agentreplay_begin__"
"""The attribute: a function of `{payload, input, params, messages}` that gives an awaitable."""


def call_or_begin(app: Callable[[], Any]) -> Any:
    """Call an app. If it is, or gives, an object that begins a recorded run, it begins it; what comes of it."""
    begin = getattr(app, BEGIN, None)
    if begin is None:
        made = app()
        course = waiting.get()
        begin = getattr(made, BEGIN, None)
        if begin is None or course is None or getattr(course, "begun", None) is not None:
            return made
    course = waiting.get()
    given = None if course is None else course.beginning()
    return begin({"payload": None, "input": None, "params": {}, "messages": [], **(given or {})})


def goes_on(course: Any) -> Any:
    """What goes on with a run that waits for the recorded answers of a person, to be awaited; None if none waits."""
    begun = getattr(course, "begun", None)
    context: Any = None if begun is None or begun.recorder is None else begun.recorder.context
    return context.go_on_again() if getattr(context, "waits", False) else None


def beginning_of(store: EventStore, info: RunInfo) -> dict[str, Any]:
    """What a run began with: its start, and the conversation that was there before it."""
    found: dict[str, Any] = {"messages": []}
    before = takewhile(lambda event: event.kind != "round.started", store.events(info, conversations=False))
    for event in before:
        if event.kind == "run.started":
            found |= {
                name: exactly(getattr(event.data, name), f"the {name} of {info.id}")
                for name in ("payload", "input", "params")
            }
        elif event.kind == "messages.replaced" and event.data.start == event.data.stop == 0:
            found["messages"] = exactly(event.data.messages, f"the conversation before {info.id}")
            break
    return found
