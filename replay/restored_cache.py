"""The agent's cache as it was when a run began, for code that is executed against that run.

It is made anew from the log for each execution, so nothing of what this process has in the agent's own cache gets in,
and nothing gets out. What the log does not hold, or what is of a class that this process does not know, is left out:
code that uses a cache copes with a miss. If it then makes a call that was not recorded, that is a divergence, and the
note says why.
"""

from __future__ import annotations

from typing import Any

from ..recorder.agent_cache import entries_of
from ..recorder.errors import LossyAnswer, UnknownType
from ..recorder.events import RunStartedData
from .exactly import exactly


def restored_cache(data: RunStartedData, run: str) -> tuple[dict[Any, Any], list[str]]:
    """What an agent's cache held.

    Args:
        data: of `run.started`.
        run: its id, for messages.

    Returns:
        A new dict, and what is to be noted of the entries that are not in it.
    """
    cache: dict[Any, Any] = {}
    without = list(data.agent_cache_without)
    for name, entry in entries_of(data.agent_cache):
        try:
            cache.update(exactly(entry, f"context.agent_cache of {run}"))
        except (UnknownType, LossyAnswer):
            without.append(name)
    notes = [f"{run} began with {name!r} in context.agent_cache; the code begins without it" for name in without]
    return cache, notes
