"""Names for the arguments of a call: by the signature, `self` left out, defaults not filled in."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

Binder: TypeAlias = Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def binder(fn: Callable[..., Any]) -> Binder:
    """Make the function that names the arguments of calls of `fn`.

    It never refuses: a call that does not fit the signature is for `fn` itself to refuse. Positional arguments beyond
    the parameters stand as a list under the name of the `*` parameter, "args" if there is none; keywords stand by
    themselves, or, where a name is taken by a positional argument, together under the name of the `**` parameter.
    """
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):  # some builtins do not tell
        parameters = []
    names = [parameter.name for parameter in parameters if parameter.kind in _POSITIONAL]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    keywords = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "kwargs")
    own = names[0] if names and names[0] in ("self", "cls") else None

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        named = dict(zip(names, args, strict=False))
        if own is not None:
            named.pop(own, None)
        if len(args) > len(names):
            named[rest] = list(args[len(names) :])
        if named.keys().isdisjoint(kwargs):
            named.update(kwargs)
        else:
            named[keywords] = dict(kwargs)
        return named

    return bind
