"""Making callables effects: `@tool`, `@model` and `wrap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from .effects import CallKind, Effect, check_safety, effect_of, wrap_effect
from .errors import UsageError

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
        effect = Effect("tool", name or _name_of(fn), checked, None, returns, raises, compensate)
        return wrap_effect(fn, effect)

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
        return wrap_effect(fn, Effect("model", name or _name_of(fn), None, model, returns, raises))

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
    if not callable(fn):
        raise UsageError(f"a {type(fn).__name__} cannot be called, so it cannot be wrapped")
    known = effect_of(fn)
    if known is not None and known.kind == kind:
        return fn
    return wrap_effect(fn, Effect(kind, name or _name_of(fn), check_safety(safety), model, returns, raises))


def _name_of(fn: Any) -> str:
    return getattr(fn, "__name__", None) or type(fn).__name__
