"""Replay: everything that is derived from a recorded run, from one state to a second execution.

The package itself can be called. `agentreplay.replay(run, agent)` is what users type, and `agentreplay.replay` is this
package as soon as anything of it was imported; so the name means both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..recorder.store import EventStore, RunRef
    from .replayer import App, ReplayResult


class _Replay(ModuleType):
    """A package that replays a run when it is called."""

    def __call__(
        self,
        run: RunRef,
        agent: App,
        *,
        store: EventStore | str | None = None,
        ignore: Iterable[str] = (),
        collect: bool = False,
        shallow: bool = False,
    ) -> ReplayResult:
        """Execute an agent against a recorded run; see `replayer.replay`."""
        from .replayer import replay

        return replay(run, agent, store=store, ignore=ignore, collect=collect, shallow=shallow)


sys.modules[__name__].__class__ = _Replay
