"""Which calls may be made where a recorded run goes its own way, and which are refused until somebody asks for them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from ..recorder.calls import Effect
from ..recorder.errors import LiveCallRefused, RedactedValue
from ..recorder.redaction import find_tokens
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
