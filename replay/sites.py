"""The line of the user's code that a difference is told at: where the code stands, or where its task was started.

A call that is handed to `asyncio.gather`, to a task or to a pool of threads is made by nobody's line: below it there
is the event loop, or the pool. What a person wants to see then is the line that started it.
"""

from __future__ import annotations

from ..recorder.reads import call_site
from ..recorder.scope import current, task_of_thread


def site_of_code(*, of_child: bool = False) -> str | None:
    """The place as "file.py:line", or None; arguments as for `recorder.reads.call_site`."""
    if (site := call_site(of_child=of_child)) is not None:
        return site
    scope, task = current.get(), task_of_thread()
    own = None if scope is None else scope.task.site
    return own if own is not None or task is None else task.site
