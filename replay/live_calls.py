"""Which calls may be made where a recorded run goes its own way, and which are refused until somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, NoReturn

from ..recorder.attaching import Guard
from ..recorder.calls import Call, Effect
from ..recorder.desk import Live
from ..recorder.effects import declared_tools
from ..recorder.errors import LiveCallRefused, RedactedValue
from ..recorder.redaction import find_tokens
from ..recorder.store import EventStore, RunInfo
from ..recorder.values import encode

SAFE: Final = ("pure", "idempotent", "compensable")
"""Tools that a re-run may call without being asked; any other, undeclared ones included, only by name."""


def refusal_of(effect: Effect, call: str, allow: Collection[str], what: str) -> LiveCallRefused | None:
    """The error of a call that a re-run may not make without being asked; None if it may.

    Args:
        effect: what is called.
        call: its id.
        allow: names of tools that may be called.
        what: is live, for the message.
    """
    if effect.kind != "tool" or effect.safety in SAFE or effect.name in allow:
        return None
    declared = "is irreversible" if effect.safety else "declares no safety, so it counts as irreversible"
    return LiveCallRefused(
        f"{what} run live, and the tool {effect.name} {declared}: allow it with --allow {effect.name}, give its result "
        f'with --tool-result {call}=JSON, or declare it: @ar.tool(safety="pure")',
        name=effect.name,
        call=call,
    )


def unknown_in(store: EventStore, info: RunInfo, allow: Collection[str]) -> str | None:
    """A word about names of tools that may be called, and that nothing is known of; None if all are known.

    Known are the tools that the run and its child runs have called, and those that the code has declared by now. That
    is no error: code may give a tool its name where it calls it (`r.tool("search", …)`), and come to one that the
    recording never came to. But a name that is mistyped allows nothing, and is worth a word before the rest runs live.

    Args:
        store, info: the run.
        allow: the names.
    """
    unknown = [name for name in dict.fromkeys(allow) if name not in declared_tools]
    if not unknown:
        return None
    called = set(_called(store, info))
    unknown = [name for name in unknown if name not in called]
    if not unknown:
        return None
    known = ", ".join(sorted(called)) or "no tool at all"
    return f"{info.id} has called no tool named {', '.join(unknown)}, and the code declares none; it has called {known}"


def _called(store: EventStore, info: RunInfo) -> Iterator[str]:
    """The names of the tools that a run and its child runs have called."""
    for row in store.rows(info):
        if row.kind == "tool.called":
            yield store.decode(info, row, blobs=False).data.name
        elif row.kind == "subrun.started":
            yield from _called(store, store.run(store.decode(info, row, blobs=False).data.run))


def redacted_in(data: Any, effect: Effect, where: str) -> RedactedValue | None:
    """The error of a call that would send a token in the place of a secret; None if it would not.

    Args:
        data: of the call.
        effect: what is called.
        where: in which run and step, for the message.
    """
    tokens = find_tokens(encode(data.request if hasattr(data, "request") else data.arguments).stored)
    if not tokens:
        return None
    return RedactedValue(
        f"{where}: {effect.kind} {effect.name} would be called with a token in place of a secret, at "
        f"{', '.join(tokens[:3])}. Give the secret where it stands in the payload: "
        "--secret /path/in/payload=env:VARIABLE",
        pointers=tuple(tokens),
    )


class LiveGuard(Guard):
    """Keeps what joins a run that has gone live, in any process, to the calls that the run may make.

    Args:
        live: as what it has gone live.
        info: the run.
        stop: stops the code, for good.
    """

    def __init__(self, live: Live, info: RunInfo, stop: Callable[[BaseException], NoReturn]) -> None:
        self._live = live
        self._info = info
        self._stop = stop
        self._stopped: BaseException | None = None

    def go_on(self) -> None:
        """Code that has swallowed what stopped it goes no further either."""
        if self._stopped is not None:
            self._stop(self._stopped)

    def may_be_made(self, call: Call, data: Any) -> None:
        """Stop a call that may do harm, or that would send what stands for a secret."""
        what = self._live.what
        refused = None if what is None else refusal_of(call.effect, data.call, self._live.allow, what)
        self._stopped = refused or redacted_in(data, call.effect, self._info.id)
        self.go_on()
