"""The conversation of a sample: what its model said and decided, and how the conversation grew.

Model events hold the whole conversation each time, so the messages that a run adds are found by comparing. Not every
model call belongs to the conversation of the sample: a grader asks a question of its own, several agents may talk in
turn. A call belongs to it that shares its beginning with the conversation so far or with the one that the sample ended
with. What came before a call is added in the round before it, as it is there that a tool gave it.

A sample without events (of a log whose events were left out) still has its messages. They are read as rounds then: one
for each message of the assistant, with the tool messages that follow as the results of its calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .conversation import Answers, turns_of
from .importing import Importing
from .inspect_run import SampleRun
from .source import clean_text


@dataclass(frozen=True, slots=True)
class End:
    """How a run ended.

    Attributes:
        status: completed, failed, cancelled or interrupted.
        stop_reason: in the file's own word.
        message: what went wrong, if something did.
    """

    status: str
    stop_reason: str
    message: str = ""

    @property
    def outcome(self) -> str:
        """Of the last round."""
        return "complete" if self.status == "completed" else self.status


@dataclass(slots=True)
class Conversation:
    """The conversation of a run while it is built.

    Attributes:
        run: whose it is.
        final: the conversation that the sample ended with.
        messages: what it is now.
    """

    run: SampleRun
    final: Sequence[Any]
    messages: list[Any] = field(default_factory=list)

    def holds(self, wanted: Sequence[Any]) -> bool:
        """Whether a call with these messages belongs to the conversation."""
        if not self.messages and not self.final:
            return True
        return any(shared(wanted, known) for known in (self.messages, self.final))

    def lead_up(self, wanted: Sequence[Any]) -> bool:
        """Add what came before a call, if that is what the conversation goes on with; returns whether it is."""
        if shared(wanted, self.messages) < len(self.messages):
            return False
        for message in wanted[len(self.messages) :]:
            self.add(message)
        return True

    def become(self, wanted: Sequence[Any], why: str) -> None:
        """Make it another conversation, which may begin as this one does."""
        if self.messages == list(wanted):
            return
        if not self.lead_up(wanted):
            same = shared(wanted, self.messages)
            self.run.replace_messages(same, len(self.messages), wanted[same:], why)
            self.messages = list(wanted)

    def add(self, message: Any) -> None:
        """Add a message."""
        self.run.message(message)
        self.messages.append(message)


def shared(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many messages two conversations begin with alike, but for the messages' ids: some are made anew each time."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left is not right and left != right and _without_id(left) != _without_id(right):
            break
        count += 1
    return count


def _without_id(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "id"}


def messages_in(value: Any) -> list[Any]:
    """The messages in a list, without what is none."""
    return [message for message in value if type(message) is dict] if type(value) is list else []


def text_of(message: Any) -> str:
    """The text of a message: its content, or the texts and thoughts of its parts."""
    content = message.get("content") if type(message) is dict else None
    if type(content) is str:
        return content
    parts = messages_in(content)
    texts = [part.get(name) for part in parts for name in ("reasoning", "text")]
    return "\n".join(text for text in texts if type(text) is str and text)


def calls_in(message: Any) -> Iterator[dict[str, Any]]:
    """The tool calls of a message of the assistant: {id, function, arguments}."""
    calls = message.get("tool_calls") if type(message) is dict else None
    yield from messages_in(calls)


def decision_of(message: Any, end: End | None, failure: str = "") -> dict[str, Any]:
    """What a round decided, a NextStep in camelCase.

    Args:
        message: what the assistant said, or None.
        end: how the run ended, in its last round only.
        failure: why the model gave no answer, or "".
    """
    calls = list(calls_in(message))
    text = text_of(message)
    decision: dict[str, Any] = {"step": "Actions" if calls else "Retry" if failure else "Answer"}
    if end is not None:
        decision["step"] = "Success" if end.status == "completed" else "Failed"
        decision["terminate"] = True
    if text and (calls or failure):
        decision["reasoning"] = text
    elif text:
        decision["message"] = text
    if calls:
        decision["actions"] = [{"name": call.get("function"), "params": call.get("arguments")} for call in calls]
    if failure:
        decision["retryReason"] = failure
    if end is not None and end.status != "completed":
        decision["errorMessage"] = end.message or f"the sample ended with {end.stop_reason}"
    return decision


def add_rounds(work: Importing, run: SampleRun, talk: Conversation, messages: Sequence[Any], end: End) -> None:
    """Build the rounds of a sample without events from its messages, counting each as a record."""
    sound = [message for message in messages if type(message) is dict]
    for message in messages:
        if type(message) is not dict:
            work.damage(run, "an entry of `messages` is no object", message)
            work.tally.count(False)
    opening, turns = turns_of(sound)
    _follow(work, run, talk, opening, Answers())
    for number, turn in enumerate(turns, 1):
        run.begin_round()
        model = turn.message.get("model")
        call = run.model_called(
            {"messages": list(talk.messages)}, model=model if type(model) is str else None, reconstructed=True
        )
        run.model_returned(call, turn.message)
        talk.add(turn.message)
        run.decide(decision_of(turn.message, end if number == len(turns) else None), text_of(turn.message) or None)
        answers, flawed = Answers(), type(turn.message.get("tool_calls")) not in (list, type(None))
        for asked in calls_in(turn.message):
            answers.asked(asked.get("id"), call_tool(run, asked))
        if flawed:
            work.damage(run, "`tool_calls` of a message is no list", turn.message)
        work.tally.count(not flawed)
        _follow(work, run, talk, turn.following, answers)
        run.end_round("continue" if number < len(turns) else end.outcome)


def _follow(work: Importing, run: SampleRun, talk: Conversation, messages: Sequence[Any], answers: Answers) -> None:
    """Add messages that are not the assistant's; those of tools are results."""
    for message in messages:
        talk.add(message)
        if message.get("role") == "tool":
            call = answers.answered(message) or call_tool(run, {**message, "id": message.get("tool_call_id")})
            error = message.get("error")
            if error:
                run.tool_failed(call, *failure_of(error))
            else:
                run.tool_returned(call, message.get("content"))
        sound = type(message.get("role")) is str
        if not sound:
            work.damage(run, "a message of `messages` does not say whose it is", message)
        work.tally.count(sound)


def call_tool(run: SampleRun, asked: dict[str, Any]) -> str:
    """Record that a tool was called, as the model asked for it or as its result tells."""
    name = asked.get("function")
    return run.tool_called(name if type(name) is str else "", asked.get("arguments"), tool_call=asked.get("id"))


def failure_of(error: Any) -> tuple[str, str]:
    """Type and message of the error of a tool: an object with both, or a text."""
    if type(error) is not dict:
        return "error", error if type(error) is str else clean_text(repr(error))[:1000]
    kind, message = error.get("type"), error.get("message")
    return kind if type(kind) is str else "error", message if type(message) is str else clean_text(repr(error))[:1000]
