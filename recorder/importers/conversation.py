"""Conversations: a list of messages in the form of chat APIs, read as the rounds of a run.

A round begins with what the assistant says. The calls it asks for and the messages that answer them, up to the next
thing the assistant says, belong to it; what comes before the first round is the opening. An answer belongs to the first
call of its round that has no answer yet and has its id. The id is only a hint: real files use one id for several calls,
so an answer with an unknown id, or without one, takes the first call that waits.

Files are read as they are found: nothing here assumes that a field has the type it should have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .builder import RunBuilder
from .importing import Importing
from .source import failure

BESIDE: Final = frozenset(("role", "agent", "message_type", "thought", "action", "extra", "timestamp"))
"""Fields of an assistant's message that are not the model's."""


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A tool call that a model asked for.

    Attributes:
        name: the tool's.
        arguments: as JSON; None when they were not valid.
        raw: their text, when that was not valid JSON.
        id: the model's own, of any type, or None.
        command: what the agent made of the call and ran, where the file has that beside it.
    """

    name: str
    arguments: Any
    raw: str | None = None
    id: Any = None
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """What the assistant said and what followed.

    Attributes:
        at: the place of the assistant's message in the conversation.
        message: the assistant's message.
        following: the entries up to the next turn.
    """

    at: int
    message: dict[str, Any]
    following: Sequence[Any]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: its status, the decision of its last round, and why in the file's own word."""

    status: str
    step: str
    stop_reason: str

    @property
    def outcome(self) -> str:
        """Of the last round."""
        return "complete" if self.status == "completed" else "failed"


def completed(stop_reason: str) -> Ending:
    """The ending of a run that did what it was asked."""
    return Ending("completed", "Success", stop_reason)


def failed(stop_reason: str) -> Ending:
    """The ending of a run that did not."""
    return Ending("failed", "Failed", stop_reason)


UNKNOWN_ENDING = failed("unknown")
"""Of a run whose file does not say how it ended, and which did not submit anything."""


@dataclass(slots=True)
class Answers:
    """Hands the calls of a round to their answers, each call once."""

    waiting: list[tuple[Any, str]] = field(default_factory=list)

    def asked(self, id: Any, call: str) -> None:
        """A call was made: the model's id for it, and ours."""
        self.waiting.append((id, call))

    def answered(self, message: dict[str, Any]) -> str | None:
        """The call that a message answers, or None when it answers none."""
        if not self.waiting or not _may_answer(message):
            return None
        ids = _answered_ids(message)
        at = next((at for at, (id, _) in enumerate(self.waiting) if id is not None and id in ids), 0)
        return self.waiting.pop(at)[1]


def _may_answer(message: dict[str, Any]) -> bool:
    return message.get("role") in ("tool", "user", "exit", "function") or message.get("type") == "function_call_output"


def _answered_ids(message: dict[str, Any]) -> list[Any]:
    ids = message.get("tool_call_ids")
    return [*(ids if type(ids) is list else ()), message.get("tool_call_id"), message.get("call_id")]


def is_assistant(message: Any) -> bool:
    """Whether an entry is a message of the agent's own model: no demonstration shown to it."""
    return (
        type(message) is dict
        and (message.get("role") == "assistant" or message.get("object") == "response")
        and not message.get("is_demo")
    )


def is_sound(message: Any) -> bool:
    """Whether an entry has the shape of a message: who says it, and a text, a list of parts, or nothing."""
    if type(message) is not dict:
        return False
    if message.get("object") == "response" or message.get("type") == "function_call_output":
        return True
    return type(message.get("role")) is str and type(message.get("content")) in (str, list, type(None))


def turns_of(messages: Sequence[Any]) -> tuple[Sequence[Any], list[Turn]]:
    """Split a conversation into its opening and its turns."""
    starts = [at for at, message in enumerate(messages) if is_assistant(message)]
    if not starts:
        return messages, []
    ends = [*starts[1:], len(messages)]
    turns = [Turn(start, messages[start], messages[start + 1 : end]) for start, end in zip(starts, ends, strict=True)]
    return messages[: starts[0]], turns


def tool_calls_of(message: dict[str, Any]) -> Iterator[AskedCall | None]:
    """The calls in a message's `tool_calls`; None in the place of one that cannot be read."""
    calls = message.get("tool_calls")
    if type(calls) is not list:
        if calls is not None:
            yield None
        return
    for call in calls:
        function = call.get("function") if type(call) is dict else None
        if type(call) is not dict or type(function) is not dict or type(function.get("name")) is not str:
            yield None
            continue
        arguments, raw = read_arguments(function.get("arguments"))
        yield AskedCall(function["name"], arguments, raw, call.get("id"))


def read_arguments(arguments: Any) -> tuple[Any, str | None]:
    """Arguments as JSON, and their text when they are a text that is not."""
    if type(arguments) is not str:
        return arguments, None
    try:
        return json.loads(arguments), None
    except (ValueError, RecursionError):
        return None, arguments


def response_of(message: dict[str, Any]) -> Any:
    """What the model answered: its text when that is all, else the message without what the agent put beside it."""
    said = {key: value for key, value in message.items() if key not in BESIDE and (value or key != "tool_calls")}
    return message.get("content") if said.keys() <= {"content"} else said


def result_of(message: dict[str, Any]) -> Any:
    """What an answer says that the tool gave."""
    return message.get("content", message.get("output"))


def first_task(messages: Sequence[Any]) -> Any:
    """The first thing that the user says and that is no demonstration; None if there is none."""
    for message in messages:
        if type(message) is dict and message.get("role") == "user" and not message.get("is_demo"):
            return message.get("content")
    return None


def add_messages(work: Importing, builder: RunBuilder, messages: Sequence[Any], where: str) -> None:
    """Add entries that are only conversation, counting them."""
    for message in messages:
        add_message(work, builder, message, where)


def add_message(work: Importing, builder: RunBuilder, message: Any, where: str, sound: bool = True) -> None:
    """Add one entry to the conversation, counting it; what is no message is kept and reported."""
    well_formed = is_sound(message)
    if type(message) is dict:
        builder.message(message)
    if not well_formed:
        work.damage(builder, f"an entry of `{where}` is no message with a role and a content", message)
    work.tally.count(sound and well_formed)


def request_before(messages: Sequence[Any], at: int) -> dict[str, Any]:
    """The request for the message at a place: all messages before it, without what the agent noted beside them."""
    return {
        "messages": [
            {key: value for key, value in message.items() if key != "extra"} if "extra" in message else message
            for message in messages[:at]
            if type(message) is dict
        ]
    }


def decision_of(
    calls: Sequence[AskedCall],
    reasoning: Any,
    ending: Ending | None,
    exit_status: Any = None,
) -> dict[str, Any]:
    """The decision of a round, a NextStep in camelCase.

    Args:
        calls: what it asked for.
        reasoning: the model's thought.
        ending: how the run ended, in its last round only.
        exit_status: what the file says of the end, likewise.
    """
    decision: dict[str, Any] = {"step": "Actions" if calls else "Retry"}
    if ending is not None:
        decision["step"] = ending.step
        decision["terminate"] = True
    elif not calls:
        decision["retryReason"] = "the answer holds no action that could be carried out"
    if reasoning not in (None, ""):
        decision["reasoning"] = reasoning
    if calls:
        decision["actions"] = [
            {"name": call.name, "params": call.arguments if call.raw is None else call.raw}
            | ({} if call.command is None else {"command": call.command})
            for call in calls
        ]
    if ending is not None:
        if ending.status == "failed":
            decision["errorMessage"] = (
                "the file does not say how the run ended"
                if ending is UNKNOWN_ENDING
                else f"the run ended with the exit status {ending.stop_reason}"
            )
        decision["exitStatus"] = exit_status
    return decision


def expect_list(work: Importing, value: Any, name: str) -> list[Any]:
    """A list of the file, or a failure that says what stands in its place."""
    if type(value) is list:
        return value
    found = "nothing" if value is None else f"a value of type {type(value).__name__}"
    raise failure(
        work.source.path,
        f"`{name}` is {found}",
        f"a list in `{name}`",
        f"It was read as {work.format}; name another format if it is not one.",
    )


def within(value: Any, *names: str) -> Any:
    """What stands under names, one in the other, or None."""
    for name in names:
        value = value.get(name) if type(value) is dict else None
    return value
