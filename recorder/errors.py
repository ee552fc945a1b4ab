"""Every error this project raises, under one root, but for the agent's own that are raised again.

A message says where, what was expected, what was found and what to do next; the same
facts are attributes, so that a program need not parse them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

_LISTED: Final = 20  # differences that one message lists besides the first


class AgentReplayError(Exception):
    """Root of every error raised by agentreplay."""


class UsageError(AgentReplayError):
    """The caller asked for something that cannot be meant: a bad option, a wrong call."""


class StoreError(AgentReplayError):
    """The store could not be opened, read or written."""


class VersionConflict(StoreError):
    """Another writer appended to the run first.

    Attributes:
        run: the run's uid.
        expected: the seq that the caller believed to be the last one.
        found: the seq that is the last one.
    """

    def __init__(self, run: str, expected: int, found: int) -> None:
        super().__init__(
            f"run {run}: expected the log to end at event {expected}, but it ends at event {found}; "
            "another writer was first. Read the new events and append after them."
        )
        self.run = run
        self.expected = expected
        self.found = found


class RunNotFound(StoreError):
    """No run has the given name."""


class CorruptLog(StoreError):
    """A stored log does not make sense: a broken chain, a gap, a payload that does not follow.

    Attributes:
        run: the run's uid or name.
        seq: the first event at which the log stops making sense, or None.
    """

    def __init__(self, message: str, *, run: str = "", seq: int | None = None) -> None:
        super().__init__(message)
        self.run = run
        self.seq = seq


class UnknownVersion(StoreError):
    """The store or event was written by a newer agentreplay."""


class ImportFailed(AgentReplayError):
    """A file could not be imported; nothing of it was stored.

    Attributes:
        path: the file.
        line: the line (from 1) where it broke, or None.
    """

    def __init__(self, message: str, *, path: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.line = line


class ExportFailed(AgentReplayError):
    """A file could not be written; what stood in its place is as it was.

    Attributes:
        path: the file.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class ChangeRefused(AgentReplayError):
    """A payload change request that its applier cannot apply; the payload stays as it was."""


class PayloadFrozen(AgentReplayError, TypeError):
    """The payload was mutated in place; changes go through `context.change`."""


class RecordingFailed(AgentReplayError):
    """An event could not be stored, so the run cannot be recorded any further."""


class Told(Protocol):
    """What a divergence asks of a difference: that it can be told."""

    @property
    def headline(self) -> str:
        """One line."""

    def message(self) -> str:
        """All of it, on several lines."""


class Divergence(AgentReplayError):
    """Code that ran again asked for, decided or changed something else than its recording.

    Attributes:
        difference: the first one, a `replay.divergence.Difference`: where it is, what was expected and what was found.
        differences: all that were collected, in the order in which they were found.
        notes: what was let pass, such as independent calls in another order.
    """

    def __init__(self, difference: Told, *more: Told, notes: Sequence[str] = ()) -> None:
        super().__init__(difference, *more)
        self.difference: Any = difference
        self.differences: tuple[Any, ...] = (difference, *more)
        self.notes = tuple(notes)

    @property
    def kind(self) -> str:
        """How the code parted from the recording first, such as "other arguments"."""
        return str(self.difference.kind)

    @property
    def step(self) -> int:
        """The round in which it did, from 1; 0 is before the first."""
        return int(self.difference.step)

    @property
    def call(self) -> str | None:
        """Id of the recorded call that this is about, if it is about one."""
        return None if self.difference.call is None else str(self.difference.call)

    @property
    def path(self) -> str:
        """JSON Pointer to the first place that differs; "" is the whole."""
        return str(self.difference.path)

    def __str__(self) -> str:
        first, *rest = self.differences
        lines = [first.message()]
        if rest:
            lines += [f"{len(rest):,} more:", *[f"  {difference.headline}" for difference in rest[:_LISTED]]]
        if len(rest) > _LISTED:
            lines.append(f"  and {len(rest) - _LISTED:,} more")
        return "\n".join([*lines, *[f"note: {note}" for note in self.notes]])


class CassetteDiverged(Divergence, AssertionError):
    """Code does something else than the cassette that a test replays it against.

    Attributes:
        cassette: the file, as it was named.
    """

    def __init__(self, cassette: str, divergence: Divergence) -> None:
        super().__init__(*divergence.differences, notes=divergence.notes)
        self.cassette = cassette

    def __str__(self) -> str:
        return f"{self.cassette} does not replay\n{super().__str__()}"


class RoundLimitReached(AgentReplayError):
    """The agent did not complete within its `max_rounds`."""


class WorkflowError(AgentReplayError):
    """A workflow cannot go on: no route holds, what is to be delivered is missing, or a node gives no changes.

    Attributes:
        node: id of the node that was visited.
        round: in which it was.
    """

    def __init__(self, message: str, *, node: str = "", round: int = 0) -> None:
        super().__init__(message)
        self.node = node
        self.round = round


class _NoAnswer(AgentReplayError):
    """A recorded answer that cannot be handed out as the agent got it.

    Attributes:
        effect: the name of the tool or model.
        pointer: a JSON Pointer into the stored form of the answer.
        wanted: the class of what stands there, "module:Qualname", or the type of its tag.
    """

    def __init__(self, message: str, *, effect: str = "", pointer: str = "", wanted: str = "") -> None:
        super().__init__(message)
        self.effect = effect
        self.pointer = pointer
        self.wanted = wanted


class UnknownType(_NoAnswer):
    """A recorded answer holds an instance of a class that the code which runs again does not declare."""


class LossyAnswer(_NoAnswer):
    """A recorded answer holds something that was not stored exactly, or that cannot be read."""


class RecordedError(Exception):
    """Stands for a recorded exception whose class the code that runs again does not declare (`raises=`).

    No AgentReplayError: it is the agent's own error, and the agent may catch it.

    Attributes:
        type: "module.Class", as recorded.
        message: its text.
        traceback: as text, or None.
    """

    def __init__(self, type: str, message: str, traceback: str | None = None) -> None:
        super().__init__(type, message, traceback)
        self.type = type
        self.message = message
        self.traceback = traceback

    def __str__(self) -> str:
        name = self.type.rpartition(".")[2]
        return f"{name}: {self.message}" if self.message else name


class NothingCaptured(AgentReplayError):
    """A replay came to its end, and nothing that its code asked of the world was answered from the log."""


class LiveCallRefused(AgentReplayError):
    """A re-run or resumed run came to a call that may not be made, or made again, without being asked for.

    Attributes:
        name: of the tool.
        call: its id.
    """

    def __init__(self, message: str, *, name: str = "", call: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.call = call


class CompensationFailed(AgentReplayError):
    """The work of a compensable tool could not be undone before a run was run again.

    Attributes:
        name: of the tool.
        call: the id of the call that was to be undone.
    """

    def __init__(self, message: str, *, name: str = "", call: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.call = call


class RedactedValue(AgentReplayError):
    """A call that would be made live holds a token that stands for a secret, in place of the secret.

    Attributes:
        pointers: JSON Pointers of the tokens in the call's arguments.
    """

    def __init__(self, message: str, *, pointers: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.pointers = pointers


class UnregisteredType(UserWarning):
    """A value's type is not registered, so its plain data is handed out instead."""


class UnreadableValue(UserWarning):
    """A stored value is damaged, or newer than this version; it is handed out as it is stored."""
