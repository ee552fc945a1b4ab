"""Recording agents of the Strands SDK: `Agent(plugins=[ar.strands.Recorder()])`.

`Recorder` is a plugin for agents, graphs and swarms. Where in them the seams are stands in the modules beside this one;
`docs/strands.md` says what is captured.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import UsageError

try:
    from strands.plugins import MultiAgentPlugin, Plugin
except ModuleNotFoundError as error:
    if error.name is None or not error.name.startswith("strands"):
        raise
    raise UsageError(
        "agents of Strands are recorded with the package strands-agents, which is not installed: "
        "pip install 'strands-agents>=1.62'"
    ) from error

from ..ambient import Capture
from ..run_log import StorePolicy
from ..store import EventStore
from .strands_agents import record_agent
from .strands_settings import Settings

if TYPE_CHECKING:
    from strands import Agent
    from strands.multiagent.base import MultiAgentBase


class Recorder(Plugin, MultiAgentPlugin):
    """Records each invocation of the agents, graphs and swarms that have this plugin, as a run.

    One recorder may be given to several of them. Agents that are tools of a recorded agent, or nodes of a recorded
    graph or swarm, are recorded with it.

    Args:
        agent: the agent's name, as runs show it; by default its own name or id.
        store, tags, capture, on_store_error: as for `record`.
        safety: name of a tool → "pure", "idempotent", "compensable" or "irreversible": what running it again would
            mean. Functions that are an `ar.tool`, too, say it themselves.
        steering: names of tools that act on the agent that runs them, beyond its state and its signal to stop: they
            are run in a replay, too.

    Raises:
        UsageError: an argument is none of its words.
    """

    name = "agentreplay"

    def __init__(
        self,
        agent: str | None = None,
        *,
        store: EventStore | str | None = None,
        tags: Sequence[str] | None = None,
        capture: Capture = None,
        on_store_error: StorePolicy = "raise",
        safety: Mapping[str, str] | None = None,
        steering: Collection[str] = (),
    ) -> None:
        super().__init__()
        caller = sys._getframe(1)
        self._settings = Settings(
            caller=(caller.f_code, caller.f_globals),
            name=agent,
            store=store,
            tags=tags,
            capture=capture,
            on_store_error=on_store_error,
            safety=dict(safety or {}),
            steering=frozenset(steering),
        )

    def init_agent(self, agent: Agent) -> None:
        """Have the invocations of an agent recorded; called by the SDK."""
        record_agent(agent, self._settings, self._settings.name)

    def init_multi_agent(self, orchestrator: MultiAgentBase) -> None:
        """Have the executions of a graph or a swarm recorded, and the agents in it; called by the SDK."""
        from .strands_orchestras import record_orchestra

        record_orchestra(orchestrator, self._settings)


__all__ = ["Recorder"]
