"""What a person gives in the place of what a model or a person said, in the SDK's own forms.

A prompt becomes messages, as the SDK makes them; where a prompt is another one, its messages stand where those of the
first stood. A model's answer reaches the agent as a stream, which the SDK puts together again. So a message that was
given is taken apart into those events of a stream out of which the same message comes. A block that no stream can give,
or that would come out as another one, is refused before it is used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from strands import Agent
from strands.types.agent import Limits
from strands.types.content import ContentBlock

from ..copying import copy_value
from ..errors import UsageError

STREAM_EVENTS: Final = frozenset(
    (
        *("messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop"),
        *("metadata", "redactContent", "agentreplay"),
    )
)
"""By one of these keys an item of a stream is known."""

EXPECTED: Final = (
    'a model\'s response is a text, a message such as {"role": "assistant", "content": [{"text": "…"}]}, or a list of '
    "the events of its stream"
)
BLOCKS: Final = (
    "a text, a toolUse with toolUseId, name and input, a reasoningContent with a reasoningText or a redactedContent of "
    "bytes, or a citationsContent with citations and one text"
)


def check_response(given: Any) -> None:
    """Refuse what no stream of a model can give.

    Raises:
        UsageError: it is none of a text, a message and events; or a block of it would come out as another one.
    """
    if isinstance(given, str) or is_event(given):
        return
    if isinstance(given, list | tuple) and given and all(is_event(one) for one in given):
        return
    if not is_message(given):
        raise UsageError(f"{EXPECTED}; found {_shown(given)}")
    if given.get("role", "assistant") != "assistant":
        raise UsageError(f"{EXPECTED}; found a message of the role {given['role']!r}")
    for number, block in enumerate(given["content"]):
        if not _survives(block):
            raise UsageError(f"block {number} of a model's response is {BLOCKS}; found {_shown(block)}")


def is_event(given: Any) -> bool:
    """Whether it is an event of a model's stream."""
    return isinstance(given, Mapping) and any(key in STREAM_EVENTS for key in given)


def is_message(given: Any) -> bool:
    """Whether it is a message: with a list as its content."""
    return isinstance(given, Mapping) and isinstance(given.get("content"), list)


def message_of(given: Any) -> Any:
    """A message that is added to a conversation; a text is one of the user.

    Raises:
        UsageError: it is neither.
    """
    if isinstance(given, str):
        return {"role": "user", "content": [{"text": given}]}
    is_whole = is_message(given) and all(isinstance(block, Mapping) and block for block in given["content"])
    if is_whole and given.get("role") in ("user", "assistant"):
        return given
    raise UsageError(
        'a message that is added is a text, or such as {"role": "user", "content": [{"text": "…"}]}; '
        f"found {_shown(given)}"
    )


def prompt_messages(prompt: Any) -> list[Any]:
    """The messages that the SDK makes of a prompt: none, one of the user, or those that it is.

    Raises:
        UsageError: it is no prompt that begins an invocation.
    """
    if prompt is None:
        return []
    if isinstance(prompt, str):
        return [{"role": "user", "content": [{"text": prompt}]}]
    if isinstance(prompt, list | tuple):
        if all(is_message(one) and one.get("role") in ("user", "assistant") for one in prompt):
            return [*prompt]
        if all(isinstance(one, Mapping) and any(key in ContentBlock.__annotations__ for key in one) for one in prompt):
            return [{"role": "user", "content": [*prompt]}]
    raise UsageError(
        'the prompt of an agent is a text, a list of content such as [{"text": "…"}], a list of messages, or null; '
        f"found {_shown(prompt)}"
    )


def response_ids(prompt: Any) -> list[str]:
    """The ids of the interrupts that a prompt answers; none if it is anything else."""
    if not isinstance(prompt, list) or not prompt:
        return []
    if not all(isinstance(one, Mapping) and "interruptResponse" in one for one in prompt):
        return []
    return [one["interruptResponse"].get("interruptId", "") for one in prompt]


def refuse_answer(prompt: Any) -> None:
    """Refuse to begin a run anew with an answer, where it does not hold what was asked before it.

    Raises:
        UsageError: the prompt is an answer.
    """
    if response_ids(prompt):
        raise UsageError(
            "the run begins with the answer to a question that was asked before it, in another process, and does not "
            "hold what the agent had brought with it then; name a function that gives the answer to an agent that "
            "waits for it, or answer the run that asked with `agentreplay resume RUN --answer NAME=JSON`"
        )


def task_of(prompt: Any) -> Any:
    """The task of a graph or a swarm.

    Raises:
        UsageError: it is no text and no list of content.
    """
    if isinstance(prompt, str) or (isinstance(prompt, list | tuple) and prompt and not any(map(is_message, prompt))):
        prompt_messages(prompt)
        return prompt
    raise UsageError(
        'the task of a graph or swarm is a text, or a list of content such as [{"text": "…"}]; '
        f"found {_shown(prompt)}"
    )


def place_of(messages: Sequence[Any], wanted: Sequence[Any]) -> tuple[int, int] | None:
    """Where messages stand in a conversation, from and up to, the last time; None if they do not, or not unchanged."""
    told = [_told(one) for one in wanted]
    for first in range(len(messages) - len(told), -1, -1):
        if all(_told(one) == other for one, other in zip(messages[first:], told, strict=False)):
            return first, first + len(told)
    return None


def _told(message: Any) -> Any:
    return copy_value([message["role"], message["content"]])


def limits_of(given: Any) -> dict[str, Any]:
    """The limits of an invocation; null is none.

    Raises:
        UsageError: they are no limits of the SDK's.
    """
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f'the limits of an invocation are such as {{"turns": 3}}, or null; found {_shown(given)}')
    limits: dict[str, Any] = dict(given or {})
    try:
        Agent._validate_limits(cast(Limits, limits))
    except TypeError as error:
        raise UsageError(f"the limits of an invocation cannot be {_shown(limits)}: {error}") from None
    return limits


def events_of(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of a stream out of which a message comes."""
    yield {"messageStart": {"role": message.get("role", "assistant")}}
    for block in message["content"]:
        use = block.get("toolUse")
        start = {} if use is None else {"toolUse": {key: one for key, one in use.items() if key != "input"}}
        yield {"contentBlockStart": {"start": start}}
        for delta in _deltas(block):
            yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
    uses_tools = any("toolUse" in block for block in message["content"])
    yield {"messageStop": {"stopReason": message.get("stopReason", "tool_use" if uses_tools else "end_turn")}}


def _deltas(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    match block:
        case {"toolUse": use}:
            yield {"toolUse": {"input": json.dumps(use.get("input", {}))}}
        case {"reasoningContent": {"reasoningText": parts}}:
            for name in ("text", "signature"):
                if name in parts:
                    yield {"reasoningContent": {name: parts[name]}}
        case {"reasoningContent": parts}:
            yield {"reasoningContent": dict(parts)}
        case {"citationsContent": {"citations": citations, "content": [{"text": text}]}}:
            yield {"text": text}
            for citation in citations:
                yield {"citation": citation}
        case _:
            yield dict(block)


def _survives(block: Any) -> bool:
    """Whether the SDK makes the very block of the events that stand for it."""
    if not isinstance(block, Mapping) or len(block) != 1:
        return False
    match block:
        case {"text": str(text)}:
            return bool(text)
        case {"toolUse": {"toolUseId": str(id), "name": str(name), **rest}}:
            return (
                bool(id and name) and set(rest) <= {"input", "reasoningSignature"} and _is_json(rest.get("input", {}))
            )
        case {"reasoningContent": {"reasoningText": {"text": str(text), **rest}, **others}}:
            signature = rest.pop("signature", None)
            return not rest and not others and (isinstance(signature, str) or (signature is None and bool(text)))
        case {"reasoningContent": {"redactedContent": bytes(redacted), **others}}:
            return bool(redacted) and not others
        case {"citationsContent": {"citations": [_, *_], "content": [{"text": str(text), **more}], **others}}:
            return bool(text) and not more and not others
    return False


def _is_json(given: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(given)) == given)
    except (TypeError, ValueError):
        return False


def _shown(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 100 else text[:99] + "…"
