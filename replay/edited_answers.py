"""Answers that are given in the place of calls, where a run is re-run: to the call of that id, or that asks the same.

They are told by the ids of calls in the recording. Code that goes its own way may make more calls before, or fewer, so
that the numbers shift; then the call is meant that asks what the recorded one did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from ..recorder.effects import declared_functions
from ..recorder.errors import UsageError
from .contradictions import refuse_answers_inside
from .edits import Edits
from .fitting import fitted
from .script import RecordedCall, Script

if TYPE_CHECKING:
    from ..recorder.events import Event
    from ..recorder.store import EventStore


class EditedAnswers:
    """The answers that are given in one round.

    Args:
        edits: which.
        step: the round.
        script: of the run whose calls they name.
        run: how that is called where it is typed.

    Raises:
        UsageError: that round has no such call, it is one of another kind, or is made inside of one that is not made;
            or an answer does not fit the type of the recorded one.
    """

    def __init__(self, edits: Edits, step: int, script: Script, run: str) -> None:
        self.step = step
        self._answers = edits.answers
        self._script = script
        for name, (kind, _) in self._answers.items():
            recorded = script.calls.get(name)
            if recorded is None or recorded.called.round != step:
                calls = [call for call in script.calls if script.calls[call].called.round == step]
                of_a_child, _, its = name.partition(":")
                hint = f". A call of a child run is edited in a re-run of that: rerun {of_a_child}" if its else ""
                raise UsageError(f"step {step} of {run} has no call {name}; it has {', '.join(calls) or 'none'}{hint}")
            if kind not in ("", recorded.kind):
                raise UsageError(f"call {name} is a {recorded.kind} call ({recorded.name}), not one of a {kind}")
            if (declared := declared_functions.get((recorded.kind, recorded.name))) is not None:
                fitted(self._answers[name][1], recorded, *declared)
        refuse_answers_inside({call: script.calls[call].called.within for call in script.calls}, list(self._answers))

    @classmethod
    def in_log(cls, store: EventStore, forked: Event, own: Script | None = None) -> Self | None:
        """Those that a re-run began with; None if there are none, or none left.

        Args:
            store: where it is.
            forked: its `run.forked`.
            own: its log, if those are to be left out that were used there.
        """
        edits = Edits.from_log(forked.data.edits)
        if not edits.answers:
            return None
        info = store.run(forked.data.parent)
        script = Script(store.events(info, conversations=False))
        left = cls(edits, forked.round + 1, script, info.id)
        for call in [] if own is None else own.calls.values():
            if call.seq > forked.seq and call.ended is not None and getattr(call.ended.data, "edited", False):
                left.take(call.kind, call.name, call.call, call.key)
        return left if left.unused else None

    def take(self, kind: str, name: str, call: str, key: bytes) -> tuple[Any, RecordedCall] | None:
        """The answer that was given for a call, and the recorded one that it was given for; it is used with this.

        Args:
            kind, name, call: of the call, and its id.
            key: what it asks, as `RecordedCall.key`.
        """
        for given, (_, value) in self._answers.items():
            recorded: RecordedCall = self._script.calls[given]
            if (recorded.kind, recorded.name) == (kind, name) and (given == call or key == recorded.key):
                del self._answers[given]
                return value, recorded
        return None

    @property
    def around(self) -> frozenset[str]:
        """The ids of the calls that one is made inside of for which an answer was given."""
        found: set[str] = set()
        for name in self._answers:
            within = self._script.calls[name].called.within
            while within is not None and within in self._script.calls:
                found.add(within)
                within = self._script.calls[within].called.within
        return frozenset(found)

    @property
    def unused(self) -> list[str]:
        """The ids of the calls whose answers were not asked for."""
        return list(self._answers)
