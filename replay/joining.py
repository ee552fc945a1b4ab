"""`join`, also in code that is replayed: what joins a run there is answered from a writer that joined while recording.

That may be in the process that replays, or in one that the replayed code has started, which learns of the replay from
its environment (`desk`). Such a process does for its writer what the replay does for the run: it answers from the log,
compares, and makes no effect. What parts from the recording stops it, and the replay as well.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ..recorder.attaching import REPLAYED_AT
from ..recorder.joining import JoinedBlock

if TYPE_CHECKING:
    from ..recorder.flow_logger import Logger
    from ..recorder.run_log import StorePolicy
    from ..recorder.store import EventStore, RunRef


def join(
    run: RunRef,
    *,
    logger: Logger = None,
    store: EventStore | str | None = None,
    on_store_error: StorePolicy = "raise",
) -> JoinedBlock:
    """Add to a run that another process records: `with join("run42") as run:` (or `async with`).

    Within the block effects are recorded in that run (`run.tool`, `run.model`, callables made effects with `@tool`,
    `@model` and `wrap`), as are values read, reports, child runs and events of your own. Payload, rounds, decisions,
    conversation and questions to people belong to the process that records the run; it has to wait for this block
    before it ends the run. What comes after that end is not recorded, which `logging` is told.

    In code that is replayed, what the block does is answered from a writer that joined the recorded run, and compared.
    Where a re-run has gone live, it may call only what the re-run may.

    Args:
        run: the run, which is in progress: "run42", or its uid, as `run.id` and `run.uid` say there.
        logger: at `run.logger`: a `logging.Logger`, or True for "agentreplay.agent.NAME"; None by default.
        store: where it is: a store, or a URL; by default that of the run in which this code, or the process that it
            was forked from, stands; else the one that is found from here.
        on_store_error: "raise" (default) or "warn": what a failing store means for the block.

    Raises:
        UsageError: the run is not in progress, or this process has other redaction rules for its store; raised where
            the block is entered.
        StoreError: the run cannot be found or written to; raised there, too.
    """
    attach = guard = None
    if REPLAYED_AT in os.environ:
        from .workers import joined

        run, attach, guard = joined(run)
    block = JoinedBlock(run, store, on_store_error, attach, guard, logger)
    block.caller = sys._getframe(1).f_code
    return block
