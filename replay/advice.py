"""What to do about a divergence: one or two sentences, with what to type.

There are few things to do. If what differs is different each time, an ignore rule leaves it out. If the code is meant
to do what it does now, the recording is out of date. If the code is being worked on, the run can be continued from the
state that was recorded. Which of these come into question follows from how the two parted.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..recorder.events import SOURCES
from .changes import Change
from .ignoring import KINDS, SAID, rules_for
from .nearest import RecordedCall

if TYPE_CHECKING:
    from .divergence import Difference

_RULES: Final = 3  # more rules than this are not worth typing
_MEANT: Final = "If the code is meant to {}, record the run again; --collect shows what else differs."
_MEANINGS: Final = {
    "other arguments": "ask for this",
    "another call": "call this instead",
    "missing call": "leave this call out",
    "extra call": "make this call",
}
_ANOTHER_CONVERSATION: Final = (
    "The conversation that the code brings with it is another one than then, as where it is kept and has gone on "
    "since. Bring that of then; or, of an agent that an adapter records, name what makes the agent instead of what "
    "invokes it, and it is given the recorded one."
)
COMPARED: Final = {
    "another value read": "read",
    "another decision": "decision",
    "another payload": "payload",
    "another outcome": "outcome",
    "another error": "error",
    "another message": "message",
    "another report": "report",
    "another event": "event",
    "another change": "change",
    "another start": "start",
}
"""What an ignore rule calls the values that differ, by the kind of difference."""


def hint_for(
    kind: str,
    run: str,
    step: int,
    call: RecordedCall | None = None,
    changes: Sequence[Change] = (),
    *,
    name: str | None = None,
) -> str:
    """Say what can be done.

    Args:
        kind: of the difference.
        run: as the run is called where it is typed.
        step: at which the difference is.
        call: the recorded call that was meant, if it is about one.
        changes: from what was expected to what was found.
        name: of the source of a value that was read.

    Returns:
        Some sentences. A command of ours stands in them between backquotes.
    """
    if call is not None and kind == "other arguments":
        return _rule(call.kind, call.name, changes) + _MEANT.format(_MEANINGS[kind])
    if kind in _MEANINGS:
        return _MEANT.format(_MEANINGS[kind])
    compared = COMPARED.get(kind)
    whole = any(not change.keys for change in changes)
    # A rule for a whole decision or payload would leave nothing to compare.
    rule = _rule(compared, name, changes) if compared == "read" or not whole else ""
    if kind == "another value read" and name is not None and name not in SOURCES:
        return rule + _MEANT.format("read this here")  # it has a name, so it is read through us already
    if kind == "another value read":
        return (
            f"{rule}Read what is different each time through context.now(), context.random, context.uuid4() or "
            "context.read(), or record with capture=, so that a replay can answer it."
        )
    if compared == "start":
        return f"{rule}The recorded start holds then. " + _MEANT.format("begin with this")
    if kind == "another message" and step == 0 and any(change.keys[:1] == ("messages",) for change in changes):
        return f"{_ANOTHER_CONVERSATION} {rule}" + _MEANT.format("begin with this")
    if compared in SAID:
        return rule + _MEANT.format("say this")
    fold = f"agentreplay rerun {shlex.quote(run)} --step {max(step, 1)} --prefix=fold"
    place = f"at step {step}" if step else "before step 1"
    return (
        f"The code, or something it reads unrecorded, changed {place}: `{fold}` "
        f"starts from the recorded state, without executing the steps before. {rule}"
    ).rstrip()


def hint_in_test(difference: Difference, record: str) -> str:
    """Say what can be done about a difference that a test has found.

    Args:
        difference: what was found.
        record: what records the cassette anew, as it is typed.
    """
    kind, name = COMPARED.get(difference.kind), difference.name
    if difference.kind == "other arguments":
        kind = difference.effect
    whole = any(not change.keys for change in difference.changes)
    said = ""
    if kind in KINDS and difference.changes and (kind == "read" or not whole):
        rules = rules_for(kind, name, difference.changes)
        rest = f", and {len(rules) - _RULES:,} more rules" if len(rules) > _RULES else ""
        shown = ", ".join([json.dumps(rule, ensure_ascii=False) for rule in rules[:_RULES]])
        said = f"If this is different each time: ignore=[{shown}]{rest}. "
    if difference.kind == "another value read" and (name is None or name in SOURCES):
        said += "Read what is different each time through the context, or record with capture=. "
    meaning = _MEANINGS.get(difference.kind, "say this" if kind in SAID else "do this")
    return f"{said}If the code is meant to {meaning}: {record}"


def _rule(kind: str | None, name: str | None, changes: Sequence[Change]) -> str:
    """The sentence about leaving out what differs; with a blank at its end, or nothing if no rule says it."""
    if kind not in KINDS or not changes:
        return ""
    rules = rules_for(kind, name, changes)
    shown = " ".join([f"--ignore {shlex.quote(rule)}" for rule in rules[:_RULES]])
    rest = f" and {len(rules) - _RULES:,} more rules" if len(rules) > _RULES else ""
    return f"If this is different each time: {shown}{rest}. "
