"""Making callables effects: `@tool`, `@model` and `wrap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from .calls import Effect, check_safety
from .effects import effect_of, wrap_effect
from .environment import name_of
from .errors import UsageError
from .events import CallKind

Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def tool(fn: Function, /) -> Function: ...


@overload
def tool(
    fn: None = None,
    /,
    *,
    name: str | None = ...,
    safety: str | None = ...,
    returns: Any = ...,
    raises: tuple[type[BaseException], ...] = ...,
    compensate: Callable[..., Any] | None = ...,
) -> Callable[[Function], Function]: ...


def tool(
    fn: Function | None = None,
    /,
    *,
    name: str | None = None,
    safety: str | None = None,
    returns: Any = None,
    raises: tuple[type[BaseException], ...] = (),
    compensate: Callable[..., Any] | None = None,
) -> Function | Callable[[Function], Function]:
    """Make a function a tool: within a run its calls are recorded; outside of one nothing changes.

    Args:
        name: as events show it; by default the function's.
        safety: what running it again would mean: "pure" (nothing), "idempotent" (the same), "compensable" (it can be
            undone) or "irreversible". Undeclared counts as irreversible where it matters.
        returns: the type of its results, where the annotation does not say it; for replaying.
        raises: exception classes it may raise; for replaying.
        compensate: undoes its work, for a compensable tool; called with the same arguments.

    Raises:
        UsageError: `safety` is none of the words.
    """
    checked = check_safety(safety)
    if compensate is not None and checked != "compensable":
        raise UsageError('compensate= goes with safety="compensable"')

    def decorate(fn: Function) -> Function:
        return _effect(fn, "tool", name, safety=checked, returns=returns, raises=raises, compensate=compensate)

    return decorate if fn is None else decorate(fn)


@overload
def model(fn: Function, /) -> Function: ...


@overload
def model(
    fn: None = None,
    /,
    *,
    name: str | None = ...,
    model: str | None = ...,
    returns: Any = ...,
    raises: tuple[type[BaseException], ...] = ...,
) -> Callable[[Function], Function]: ...


def model(
    fn: Function | None = None,
    /,
    *,
    name: str | None = None,
    model: str | None = None,
    returns: Any = None,
    raises: tuple[type[BaseException], ...] = (),
) -> Function | Callable[[Function], Function]:
    """Make any callable that reaches a model one whose calls are recorded within a run.

    Args:
        name: as events show it; by default the function's.
        model: the model's name, where the call has no `model` argument.
        returns: the type of its results, where the annotation does not say it; for replaying.
        raises: exception classes it may raise; for replaying.
    """

    def decorate(fn: Function) -> Function:
        return _effect(fn, "model", name, model=model, returns=returns, raises=raises)

    return decorate if fn is None else decorate(fn)


def wrap(
    fn: Function,
    kind: CallKind,
    *,
    name: str | None = None,
    safety: str | None = None,
    model: str | None = None,
    returns: Any = None,
    raises: tuple[type[BaseException], ...] = (),
) -> Function:
    """Make an existing callable an effect: `client.ask = wrap(client.ask, kind="model")`.

    Args:
        fn: a function, a bound method, or any other callable; it is not changed.
        kind: "model" or "tool".
        name, safety, model, returns, raises: as in `tool` and `model`.

    Returns:
        A callable of the same sort. Wrapping one again gives it back as it is, if it is of the same kind.

    Raises:
        UsageError: `kind` or `safety` is none of the words, or `fn` cannot be called.
    """
    if kind not in ("model", "tool"):
        raise UsageError(f'kind is "model" or "tool", not "{kind}"')
    known = effect_of(fn)
    if known is not None and known.kind == kind:
        return fn
    return _effect(fn, kind, name, safety=check_safety(safety), model=model, returns=returns, raises=raises)


def _effect(fn: Function, kind: CallKind, name: str | None, **known: Any) -> Function:
    made_of: object = fn
    if not callable(made_of) and not isinstance(made_of, classmethod):
        raise UsageError(f"a {type(fn).__name__} cannot be called, so it cannot be made a {kind}")
    return wrap_effect(fn, Effect(kind, name or name_of(fn), **known))
