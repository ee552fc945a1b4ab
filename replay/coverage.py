"""What of an execution came from the recording: the statement that every replay ends with."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from .script import RecordedCall


@dataclass(slots=True)
class Coverage:
    """How much was answered from the log, and how much was not.

    Attributes:
        recorded: calls, reads, questions to people and child runs that were answered from the log.
        live: calls that were made.
        uncaptured: reads and calls that nothing recorded or answered, as far as they are known.
        unused: recorded calls that were not asked for.
        visits: of nodes of workflows, which the recording has, too.
        notes: what else there is to say of it, each once.
    """

    recorded: int = 0
    live: int = 0
    uncaptured: int = 0
    unused: int = 0
    visits: int = 0
    notes: list[str] = field(default_factory=list)
    _noted: set[Hashable] = field(default_factory=set, repr=False, compare=False)

    def answered(self, call: RecordedCall) -> None:
        """Count a call that is answered from the log."""
        self.recorded += 1

    def read(self) -> None:
        """Count a value, or a person's answer, that is answered from the log."""
        self.recorded += 1

    @property
    def is_nothing(self) -> bool:
        """Whether that all is the same would say nothing.

        Where nothing was answered, whatever the code asked of the world it asked itself. The rounds, the outcome and
        what was made of the answers are no evidence then. The way of a workflow is: it was chosen from the state, node
        by node, and each visit was compared, unless it is known that something was asked behind it.
        """
        return not self.recorded and (not self.visits or self.uncaptured > 0)

    def note(self, text: str, once: Hashable = None) -> None:
        """Add a note, unless it is there.

        Args:
            text: what it says.
            once: what it is about, of which one note is enough; by default what it says.
        """
        about = text if once is None else once
        if about not in self._noted:
            self._noted.add(about)
            self.notes.append(text)

    def to_json(self) -> dict[str, Any]:
        """The counts by their names."""
        return {name: getattr(self, name) for name in ("recorded", "live", "uncaptured", "unused")}
