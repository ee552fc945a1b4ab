"""Following a run: its events as they are appended, by whatever process.

A store tells nobody when something is appended; it is asked again and again for what comes after the last event that is
known, which is one look into an index. Whether a run that is silent goes on at all is asked more rarely: nothing is
written where a process is killed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from .log_end import LAST_KINDS

if TYPE_CHECKING:
    from .events import Event
    from .store import EventStore, RunInfo

POLL_SECONDS: Final = 0.1
"""How long to wait where nothing is new."""

POLLS_A_LOOK: Final = 10
"""So many times nothing is new before it is asked whether the run goes on."""


def follow(store: EventStore, info: RunInfo, after: int = -1, *, conversations: bool = True) -> Iterator[Event]:
    """Yield the events of a run that come after `after`, and wait for more until the run has ended.

    A run has ended if its last event says so, if its process is provably gone, or if it came from a file, which holds
    all there is. One that is interrupted has ended until somebody resumes it.

    Args:
        store: where the run is.
        info: the run.
        after: the seq of the last event that is known, -1 for none.
        conversations: as in `EventStore.events`.

    Raises:
        StoreError: the store cannot be read.
    """
    seq, last, over, silent = after, "", False, 0
    while True:
        new = False
        for event in store.events(info, after=seq, conversations=conversations):
            new, seq, last = True, event.seq, event.kind
            yield event
        if last in LAST_KINDS or (over and not new):
            return
        over = False
        silent = 0 if new else silent + 1
        if silent % POLLS_A_LOOK == 1:
            now = store.run(info.uid)
            over = now.status != "running" or now.is_partial
        if not over:  # else what was appended before the end is read
            time.sleep(POLL_SECONDS)
