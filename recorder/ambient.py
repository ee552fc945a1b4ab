"""Capturing what code reads that does not know of agentreplay: the clock, chance, UUIDs, the environment.

`time.time()` gives another value each time, and a replay would go another way with it. So an agent can have such reads
captured, `@ar.agent(capture={"clock", "random"})`: while its run is in progress, each one that the application's own
code makes is a `value.read` event, as if it had been made through the context, and a replay answers it.

Which reads those are is decided where they are made. They stand in the scope of the run, outside of calls, since the
answer of a call covers what happens in it, and outside of other reads, for the same reason. The code that asks is the
application's (`ambient_frames`). What libraries read passes, and is counted. `ambient_sources` says what stands in for
`time.time` and the others, and `ambient_patches` puts it in their places, only as long as a run needs it.
"""

from __future__ import annotations

import random
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeAlias

from .errors import UsageError
from .events import SOURCES

if TYPE_CHECKING:
    from .attaching import Attachment
    from .run_recorder import RunRecorder
    from .subagents import Parent

Capture: TypeAlias = Iterable[str] | str | None
"""Which reads are captured: some of `SOURCES`, "all", or None for those that the run around captures."""


def sources_of(capture: Capture) -> frozenset[str] | None:
    """The sources that `capture` names; None for those of the run around.

    Raises:
        UsageError: it names something else.
    """
    if capture is None:
        return None
    if capture == "all":
        return frozenset(SOURCES)
    named = [capture] if isinstance(capture, str) else list(capture)
    unknown = [name for name in named if name not in SOURCES]
    if unknown:
        raise UsageError(f'capture is "all" or some of {", ".join(SOURCES)}; there is no source {unknown[0]!r}')
    return frozenset(named)


class Captured:
    """The reads of one run that are captured, and how many others there were.

    Args:
        sources: which are.
        code: of the agent.
        names: the names of the module with the agent's code, or None.

    Attributes:
        sources: which are.
        home: the folder of the agent's code, if it is an installed package.
        names: as given.
        seeded: the random generators that were seeded in the run, by their ids; what they draw follows from that.
    """

    def __init__(self, sources: frozenset[str], code: CodeType | None, names: dict[str, Any] | None) -> None:
        from .ambient_frames import home_of

        self.sources = sources
        self.home = home_of(None if code is None else code.co_filename)
        self.names = names
        self.seeded: weakref.WeakValueDictionary[int, random.Random] = weakref.WeakValueDictionary()
        self._passed: dict[str, dict[str, int]] = {}
        self._lock = threading.Lock()

    def passed(self, source: str, library: str) -> None:
        """Count a read that a library made, and that is not captured."""
        with self._lock:
            counts = self._passed.setdefault(source, {})
            counts[library] = counts.get(library, 0) + 1

    @property
    def uncaptured(self) -> dict[str, dict[str, int]]:
        """How often libraries have read what would be captured of the application: source → library → count."""
        with self._lock:
            return {source: dict(sorted(counts.items())) for source, counts in sorted(self._passed.items())}

    def told(self) -> str | None:
        """What is to be said of the reads that were not captured; None if there were none."""
        if not (uncaptured := self.uncaptured):
            return None
        each = [
            f"{source} {sum(counts.values()):,} ({', '.join([f'{name} {count:,}' for name, count in counts.items()])})"
            for source, counts in uncaptured.items()
        ]
        return f"not captured, since libraries read it: {'; '.join(each)}"


def captured_for(
    capture: frozenset[str] | None,
    parent: Parent | None,
    attachment: Attachment | None,
    code: CodeType | None,
    names: dict[str, Any] | None,
) -> Captured | None:
    """What of a run that begins is captured; None for nothing.

    Args:
        capture: what its code says.
        parent: where in another run it begins, if it does.
        attachment: the recording that the code is executed against; it holds what was captured then.
        code, names: as for `Captured`.
    """
    if capture is None:
        around = None if parent is None else parent.recorder.captured
        capture = frozenset() if around is None else around.sources
    if attachment is not None:
        capture = attachment.captures(capture)
    return Captured(capture, code, names) if capture else None


@contextmanager
def reads_are_captured(recorder: RunRecorder) -> Iterator[None]:
    """In this block the reads of a run are captured, if any are to be."""
    if recorder.captured is None:
        yield
        return
    from .ambient_patches import patches

    with patches.in_place(recorder.captured):
        yield
