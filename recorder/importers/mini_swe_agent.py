"""mini-swe-agent's trajectories (`.traj.json`): a conversation whose every answer holds one shell command.

Old files are a bare list of {role, content}; newer ones an object with `messages`, `info` and `trajectory_format`. A
command is taken, in this order, from what the agent itself noted (`extra.actions`), from the message's `tool_calls`, or
from the fenced block in its text: ```mswea_bash_command, or ```bash in a file that has none of the first kind. A text
with no such block or with several is one that the agent refused to act upon, so no call is recorded for it.

The next message that is not the assistant's is the result; the closing one holds what was submitted. There is no state
beside the conversation: the payload stays {}. Newer files have a time in `extra.timestamp`, taken when the model had
answered and when the command had run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from .builder import RunBuilder, duration_between
from .conversation import (
    UNKNOWN_ENDING,
    Answers,
    AskedCall,
    Ending,
    Turn,
    add_message,
    completed,
    decision_of,
    expect_list,
    failed,
    first_task,
    is_assistant,
    request_before,
    response_of,
    result_of,
    tool_calls_of,
    turns_of,
    within,
)
from .importing import Importing
from .source import SourceFile, failure, time_of
from .swe_frame import open_info

FENCES: Final = {
    name: re.compile(rf"```{name}[ \t\r]*\n(.*?)\n```", re.DOTALL) for name in ("mswea_bash_command", "bash")
}
"""What marks a command in an answer; the name of the block → its form."""

SUBMITS: Final = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
"""A command that prints one of these ends the run."""

TOOL: Final = "bash"
"""The agent's only tool."""


class MiniSweAgent:
    """The importer of mini-swe-agent's trajectories."""

    name = "mini-swe-agent"
    reads = "a list of {role, content}, or an object with `messages` and `info`"

    def detects(self, source: SourceFile) -> float:
        """How surely the file is one, from 0 to 1."""
        document = source.json_or_none()
        if type(document) is list:
            spoken = [entry for entry in document if type(entry) is dict and "role" in entry and "content" in entry]
            if not spoken:
                return 0.0
            texts = [entry["content"] for entry in spoken if type(entry["content"]) is str]
            marks = any("<returncode>" in text or any(f"```{name}" in text for name in FENCES) for text in texts)
            return 0.7 if marks else 0.3
        if type(document) is not dict:
            return 0.0
        if "mini-swe-agent" in str(document.get("trajectory_format"))[:100]:
            return 1.0
        info = document.get("info")
        if type(document.get("messages")) is not list or type(info) is not dict:
            return 0.0
        return 0.9 if "mini_version" in info else 0.4

    def runs(self, work: Importing) -> Iterator[RunBuilder]:
        """The run in the file."""
        document = work.source.json()
        if type(document) is list:
            document = {"messages": document}
        if type(document) is not dict:
            raise failure(
                work.source.path, f"it holds a {type(document).__name__}", self.reads, "Is it another format?"
            )
        messages = expect_list(work, document.get("messages"), "messages")
        yield _Conversation(work, document, messages).run()


@dataclass(slots=True)
class _Conversation:
    work: Importing
    document: dict[str, Any]
    messages: list[Any]
    info: dict[str, Any] = field(init=False)
    fence: re.Pattern[str] = field(init=False)
    builder: RunBuilder = field(init=False)

    def __post_init__(self) -> None:
        info = self.document.get("info")
        self.info = info if type(info) is dict else {}
        said = [message.get("content") for message in self.messages if is_assistant(message)]
        marked = any(type(text) is str and FENCES["mswea_bash_command"].search(text) for text in said)
        self.fence = FENCES["mswea_bash_command" if marked else "bash"]

    def run(self) -> RunBuilder:
        """Build the run."""
        opening, turns = turns_of(self.messages)
        times = [time for time in map(_time_in, self.messages) if time is not None]
        self.builder = self.work.run(
            self.work.format, payload={}, input=first_task(opening), started=times[0] if times else None
        )
        self._open()
        for message in opening:
            add_message(self.work, self.builder, message, "messages")
        ending, inferred = self._ending(turns)
        for number, turn in enumerate(turns, 1):
            self._round(turn, ending if number == len(turns) else None)
        closing = turns[-1].following if turns and ending.status == "completed" else ()
        submission = self.info.get("submission")
        if submission is None and inferred and closing and type(closing[-1]) is dict:
            submission = closing[-1].get("content")
        stats = self.info.get("model_stats")
        metrics: dict[str, Any] = {}
        if type(stats) is dict and stats:
            metrics = {"modelStats": stats, **({"cost": stats["instance_cost"]} if "instance_cost" in stats else {})}
        self.builder.finish(ending.status, ending.stop_reason, value=submission, metrics=metrics)
        return self.builder

    def _open(self) -> None:
        """Put what the file holds beside its messages in the log."""
        for name, value in self.document.items():
            if name == "info":
                open_info(self.work, self.builder, value)
            elif name == "trajectory_format" and type(value) is str:
                self.builder.report(f"the file says that its format is {value}", value)
                self.work.tally.imported += 1
            elif name != "messages":
                self.work.keep(self.builder, name, value)

    def _ending(self, turns: Sequence[Turn]) -> tuple[Ending, bool]:
        """How the run ended, and whether that was found in the last command because the file does not say."""
        status = self.info.get("exit_status")
        if type(status) is str and status:
            return (completed(status) if status.lower() == "submitted" else failed(status)), False
        asked, _ = self._calls(turns[-1].message) if turns else ([], True)
        for call in asked:
            command = call.arguments.get("command") if type(call.arguments) is dict else None
            if type(command) is str and any(mark in command for mark in SUBMITS) and turns[-1].following:
                self.work.tally.notes.append(
                    "the file has no exit status; its last command submits, so the run succeeded"
                )
                return completed("Submitted"), True
        self.work.tally.notes.append("the file does not say how the run ended; it counts as failed")
        return UNKNOWN_ENDING, False

    def _round(self, turn: Turn, ending: Ending | None) -> None:
        said = turn.message
        self.builder.begin_round()
        raw = within(said, "extra", "response")
        call = self.builder.model_called(
            request_before(self.messages, turn.at), reconstructed=True, **self._model(within(raw, "model"))
        )
        answered = _time_in(said)
        self.builder.at(answered)
        choices = within(raw, "choices")
        self.builder.model_returned(
            call,
            response_of(said),
            usage=within(raw, "usage"),
            stop_reason=within(choices[0], "finish_reason") if type(choices) is list and choices else None,
        )
        asked, sound = self._calls(said)
        if not sound:
            self.work.damage(self.builder, "a tool call cannot be read", said.get("tool_calls"))
        add_message(self.work, self.builder, said, "messages", sound)
        self.builder.decide(
            decision_of(asked, self._reasoning(said), ending, self.info.get("exit_status")), said.get("content")
        )
        answers = Answers()
        for one in asked:
            answers.asked(one.id, self.builder.tool_called(one.name, one.arguments, raw=one.raw, tool_call=one.id))
        for message in turn.following:
            ran = _time_in(message)
            self.builder.at(ran)
            given = answers.answered(message) if type(message) is dict else None
            if given is not None:
                self.builder.tool_returned(given, result_of(message), duration_between(answered, ran))
            add_message(self.work, self.builder, message, "messages")
        self.builder.end_round("continue" if ending is None else ending.outcome)

    def _reasoning(self, message: dict[str, Any]) -> Any:
        """What an answer says before its command."""
        content = message.get("content")
        if type(content) is not str:
            return content
        found = self.fence.search(content)
        return content[: found.start()].strip() if found else content

    def _model(self, answered: Any) -> dict[str, Any]:
        """The model that answered, or the configured one, and the configured parameters."""
        config = within(self.info, "config", "model")
        name = answered if type(answered) is str else within(config, "model_name")
        parameters = within(config, "model_kwargs")
        return {
            "model": name if type(name) is str else None,
            "parameters": parameters if type(parameters) is dict else None,
        }

    def _calls(self, message: dict[str, Any]) -> tuple[list[AskedCall], bool]:
        """The commands in an answer, and whether all that it asks for could be read."""
        noted = within(message, "extra", "actions")
        asked = list(tool_calls_of(message))
        if type(noted) is list and noted:
            commands = [action if type(action) is dict else {"command": action} for action in noted]
            return [
                AskedCall(
                    TOOL,
                    {key: value for key, value in command.items() if key != "tool_call_id"},
                    id=command.get("tool_call_id"),
                )
                for command in commands
            ], None not in asked
        if asked:
            return [call for call in asked if call is not None], None not in asked
        content = message.get("content")
        found = self.fence.findall(content) if type(content) is str else []
        return ([AskedCall(TOOL, {"command": found[0].strip()})] if len(found) == 1 else []), True


def _time_in(message: Any) -> datetime | None:
    """The time that a message has, beside its content or in it."""
    return time_of(within(message, "extra", "timestamp")) or time_of(within(message, "timestamp"))
