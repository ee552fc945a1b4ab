"""A progress bar for what may take long, on stderr and only where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..replay.readable import visible


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """While the block is active, show how far it is.

    Args:
        what: what is being done; recorded text or names of files are shown harmlessly.

    Yields:
        To be called with (done, in all).
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(visible(what), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
