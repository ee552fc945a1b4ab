"""The model seam: each call of a Strands model is a call of the run, with the raw events of its stream.

The seam is `model.stream` of the very object that reaches the provider, below all middleware. For as long as a run
needs it, that method is another one on this instance. What is asked is what the provider gets. Live objects among the
arguments (the agent, a span, the signal to stop) are left out. What is answered are `StreamEvent`s, so whatever the SDK
makes of them, it makes of recorded ones, too: messages, metrics, events for the caller.

Two things that a model does beside its stream are told by items of their own: that the agent was asked to stop
meanwhile, and what it has written into its state for the next call.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from strands.models import Model
from strands.types import exceptions

from ..attaching import may_be_made_late, may_be_made_outside
from ..calls import Effect
from ..copying import copy_value
from ..errors import RecordedError
from ..plain import is_plain
from ..scope import Scope, current
from .strands_calls import SITE, SdkCall, answer_to, stand_in
from .strands_edits import events_of, is_event, is_message

COUNTED: Final = "strands.tokens"
"""The source of counts of tokens."""

TOLD: Final = "agentreplay"
"""The key of an item that is no event of the provider's."""

ERRORS: Final = tuple(one for one in vars(exceptions).values() if isinstance(one, type) and issubclass(one, Exception))
"""What the SDK tells errors by: a replay raises them as what they were."""

_LIVE: Final = ("invocation_state", "cancel_signal", "agent_metadata", "model_state")
_POSITIONAL: Final = ("messages", "tool_specs", "system_prompt")

_seams: Final[dict[int, ModelSeam]] = {}
_lock: Final = threading.Lock()


class ModelSeam:
    """The seam in one model, for as long as runs hold it."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._own: dict[str, Any] = {
            name: vars(model)[name] for name in ("stream", "count_tokens") if name in vars(model)
        }
        self._holders: list[object] = []

    @classmethod
    def hold(cls, model: Model, holder: object) -> None:
        """Have the calls of a model recorded within runs, until everybody who holds that lets go."""
        with _lock:
            seam = _seams.get(id(model))
            if seam is None:
                seam = _seams[id(model)] = cls(model)
                model.stream = recorded_stream(model, model.stream)  # type: ignore[method-assign]  # on this instance
                if counts_at_provider(model):
                    model.count_tokens = recorded_count(model.count_tokens)  # type: ignore[method-assign]  # likewise
            if holder not in seam._holders:
                seam._holders.append(holder)

    @classmethod
    def let_go(cls, holder: object) -> None:
        """Hold no model any more."""
        with _lock:
            for seam in [seam for seam in _seams.values() if holder in seam._holders]:
                seam._holders.remove(holder)
                if not seam._holders:
                    del _seams[id(seam.model)]
                    seam._restore()

    def _restore(self) -> None:
        for name in ("stream", "count_tokens"):
            vars(self.model).pop(name, None)
        vars(self.model).update(self._own)


def recorded_stream(model: Model, original: Callable[..., Any]) -> Callable[..., Any]:
    """A method in the place of `model.stream` that is recorded within runs."""

    @functools.wraps(original)
    async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        scope = current.get()
        effect = Effect("model", type(model).__name__, model=id_of(model), raises=ERRORS)
        if scope is None or not scope.recorder.recording:
            if scope is None:
                may_be_made_outside(effect)
            else:
                may_be_made_late(effect, scope.recorder.attachment)
            async for event in original(*args, **kwargs):
                yield event
            return
        asked = {**dict(zip(_POSITIONAL, args, strict=False)), **kwargs}
        made = functools.partial(_with_word, original, args, kwargs)
        call = SdkCall(effect, scope, request_of(asked), made, _told_of(scope) | {"parameters": parameters_of(model)})
        items = await answer_to(call, made)
        stops = False
        try:
            async for item in items if isinstance(items, AsyncIterable) else _one(items):
                if isinstance(item, Mapping) and TOLD in item:
                    _take_word(item[TOLD], kwargs)
                    stops = stops or bool(item[TOLD].get("cancelled"))
                    continue
                if stops and inspect.isasyncgen(items):
                    # The SDK looks at the signal with the next event, and leaves the stream to the garbage collector.
                    # It is left here and now instead, where the record has its place.
                    await items.aclose()
                for event in stream_events(item):
                    _watch(scope, event)
                    yield event
        except RecordedError as error:
            raise stand_in(error) from error.__cause__
        finally:
            if inspect.isasyncgen(items):
                await items.aclose()

    return stream


def counts_at_provider(model: Model) -> bool:
    """Whether a model may ask somebody how many tokens a request has; else the SDK estimates it."""
    if type(model).count_tokens is Model.count_tokens:
        return False
    config = getattr(model, "config", None)
    return not type(model).__module__.startswith("strands.") or (
        isinstance(config, Mapping) and bool(config.get("use_native_token_count"))
    )


class _NotRecorded(Exception):
    """There is no recorded count; it is to be asked for."""


def recorded_count(original: Callable[..., Any]) -> Callable[..., Any]:
    """A method in the place of `model.count_tokens`, whose answers are recorded within runs as values that are read."""

    def ask() -> int:
        raise _NotRecorded

    @functools.wraps(original)
    async def count_tokens(*args: Any, **kwargs: Any) -> int:
        scope = current.get()
        if scope is None or not scope.recorder.recording:
            return int(await original(*args, **kwargs))
        recorder = scope.recorder
        if recorder.attachment is not None:
            with suppress(_NotRecorded):
                return recorder.read(COUNTED, ask, site=SITE)
        counted = int(await original(*args, **kwargs))
        return recorder.read(COUNTED, lambda: counted, site=SITE)

    return count_tokens


def id_of(model: Model) -> str | None:
    """The provider's name of a model, if it is configured."""
    config = getattr(model, "config", None)
    found = config.get("model_id") if isinstance(config, Mapping) else None
    return found if isinstance(found, str) else None


def parameters_of(model: Model) -> dict[str, Any]:
    """What a model is configured with: its name, temperature, limits, guardrails, fields of the provider's own.

    Of what is no plain data there is the class alone. Secrets are redacted as everywhere.
    """
    with suppress(Exception):  # models of one's own may have no configuration, or another one
        config = model.get_config()
        if isinstance(config, Mapping):
            return {str(key): _plainly(one) for key, one in config.items() if one is not None}
    return {}


def _plainly(value: Any, depth: int = 8) -> Any:
    if is_plain(value):
        return copy_value(value)
    if depth and isinstance(value, Mapping):
        return {str(key): _plainly(one, depth - 1) for key, one in value.items()}
    if depth and isinstance(value, list | tuple):
        return [_plainly(one, depth - 1) for one in value]
    cls = value if isinstance(value, type) else type(value)
    return f"<{cls.__module__}.{cls.__qualname__}>"


def request_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked of the provider: the arguments of `stream` without what is alive in them, and without None."""
    request = {key: value for key, value in asked.items() if key not in _LIVE and value is not None}
    if "messages" in request:  # the loop sends these two, and so does the record of who sends more: ids are random
        request["messages"] = [{"role": one["role"], "content": one["content"]} for one in request["messages"]]
    if request.get("system_prompt_content") == [{"text": request.get("system_prompt")}]:
        del request["system_prompt_content"]
    if isinstance(cls := request.get("structured_output_model"), type):
        request["structured_output_model"] = cls.__name__
    if asked.get("model_state"):
        request["model_state"] = dict(asked["model_state"])
    return request


async def _with_word(original: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> AsyncIterator[Any]:
    """The events of a model, with a word of what happened beside them."""
    signal, state = kwargs.get("cancel_signal"), kwargs.get("model_state")
    before = None if state is None else dict(state)
    told = signal is not None and signal.is_set()
    if told:
        yield {TOLD: {"cancelled": True}}
    events = original(*args, **kwargs)
    try:
        async for event in events:
            if not told and signal is not None and signal.is_set():
                told = True
                yield {TOLD: {"cancelled": True}}
            yield event
    finally:
        if hasattr(events, "aclose"):
            await events.aclose()
    if not told and signal is not None and signal.is_set():
        yield {TOLD: {"cancelled": True}}
    if state is not None and dict(state) != before:
        yield {TOLD: {"model_state": dict(state)}}


def _take_word(word: Mapping[str, Any], kwargs: Mapping[str, Any]) -> None:
    """Have happened beside a stream what happened while it was recorded."""
    if word.get("cancelled") and kwargs.get("cancel_signal") is not None:
        kwargs["cancel_signal"].set()
    state = kwargs.get("model_state")
    if "model_state" in word and state is not None and dict(state) != word["model_state"]:
        state.clear()
        state.update(word["model_state"])


async def _one(item: Any) -> AsyncIterator[Any]:
    yield item


def stream_events(item: Any) -> Iterator[dict[str, Any]]:
    """The stream events that an item stands for: itself; or those of a text or a message that a person has given."""
    if isinstance(item, str):
        item = {"role": "assistant", "content": [{"text": item}]}
    if is_message(item) and not is_event(item):
        yield from events_of(item)
    else:
        yield item


def _told_of(scope: Scope) -> dict[str, Any]:
    told_of = getattr(scope.recorder.context, "told_of_model_call", None)
    return told_of() if told_of is not None and scope.within is None else {}


def _watch(scope: Scope, event: Any) -> None:
    watch = getattr(scope.recorder.context, "model_streams", None)
    if watch is not None and scope.within is None:
        watch(event)
