"""SWE-agent's trajectories (`.traj`): a list of steps, or a conversation alone.

`trajectory[i]` is round i + 1: what the model answered (`response`, `thought`), the `action` taken and its
`observation`. Its `state` is the payload, and after round i + 1 the payload equals it. Newer versions (1.0 on) hold it
as an object, taken after the action; older ones as JSON in a text, taken *before* the action, so there the change
stands at the start of the round and names the call of the round before as its cause.

A file with `history` alone is a conversation; there the payload is what the footer of an observation says, "(Open
file: …)" and "(Current directory: …)", under the names that a state has: `open_file` and `working_dir`. In both kinds
the footer of the opening gives the payload at the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .builder import RunBuilder
from .conversation import (
    Answers,
    AskedCall,
    add_message,
    add_messages,
    decision_of,
    expect_list,
    request_before,
    response_of,
    result_of,
    tool_calls_of,
    turns_of,
)
from .importing import Importing
from .source import SourceFile, failure
from .swe_frame import Frame, footer_of
from .swe_steps import ENTRY_FIELDS, Trajectory


class SweAgent:
    """The importer of SWE-agent's trajectories."""

    name = "swe-agent"
    reads = "an object with `trajectory`, a list of {action, observation, response, state}, or with a list `history`"

    def detects(self, source: SourceFile) -> float:
        """How surely the file is one, from 0 to 1."""
        document = source.json_or_none()
        if type(document) is not dict:
            return 0.0
        trajectory, history = document.get("trajectory"), document.get("history")
        beside = len({"history", "info", "environment", "replay_config"} & document.keys())
        if type(trajectory) is list:
            if any(type(entry) is dict and len(ENTRY_FIELDS & entry.keys()) >= 2 for entry in trajectory):
                return 1.0
            return 0.6 if beside or source.name.endswith(".traj") else 0.0
        if type(history) is list and any(type(entry) is dict and "role" in entry for entry in history):
            return 0.8 if any(type(entry) is dict and "message_type" in entry for entry in history) else 0.5
        return 0.0

    def runs(self, work: Importing) -> Iterator[RunBuilder]:
        """The run in the file."""
        document = work.source.json()
        if type(document) is not dict:
            raise failure(
                work.source.path, f"it holds a {type(document).__name__}", self.reads, "Is it another format?"
            )
        if type(document.get("trajectory")) is list:
            yield Trajectory(work, document).run()
        elif "history" in document:
            expect_list(work, document["history"], "history")
            yield History(work, document).run()
        else:
            raise failure(
                work.source.path,
                "it has neither a list `trajectory` nor `history`",
                self.reads,
                "Is it another format?",
            )


class History(Frame):
    """A file with the conversation only."""

    def run(self) -> RunBuilder:
        """Build the run."""
        opening, turns = turns_of(self.history)
        self.open(opening)
        add_messages(self.work, self.builder, opening, "history")
        ending = self.ending(bool(turns) and self._submits(turns[-1].message))
        for number, turn in enumerate(turns, 1):
            last = number == len(turns)
            self.builder.begin_round()
            call = self.builder.model_called(request_before(self.history, turn.at), reconstructed=True, **self.model)
            self.builder.model_returned(call, response_of(turn.message))
            asked, sound = calls_of(turn.message)
            if not sound:
                self.work.damage(self.builder, "a tool call cannot be read", turn.message.get("tool_calls"))
            add_message(self.work, self.builder, turn.message, "history", sound)
            thought = turn.message.get("thought", turn.message.get("content"))
            self.builder.decide(
                decision_of(asked, thought, ending if last else None, self.info.get("exit_status")),
                turn.message.get("content"),
            )
            answers = Answers()
            for one in asked:
                answers.asked(one.id, self.builder.tool_called(one.name, one.arguments, raw=one.raw, tool_call=one.id))
            for message in turn.following:
                self._following(message, answers)
            self.builder.end_round(ending.outcome if last else "continue")
        self.close(ending)
        return self.builder

    def _following(self, message: Any, answers: Answers) -> None:
        call = answers.answered(message) if type(message) is dict else None
        if call is not None:
            result = result_of(message)
            self.builder.tool_returned(call, result)
            payload = footer_of(result)
            if payload is not None:
                self.builder.change_payload(payload, call=call, reason="the footer of the observation")
        add_message(self.work, self.builder, message, "history")

    def _submits(self, message: dict[str, Any]) -> bool:
        asked, _ = calls_of(message)
        return any(call.name == "submit" for call in asked)


def calls_of(message: dict[str, Any]) -> tuple[list[AskedCall], bool]:
    """The calls in a message, and whether all of them could be read: its tool calls, else its action."""
    asked = list(tool_calls_of(message))
    calls = [call for call in asked if call is not None]
    action = message.get("action")
    if not calls and type(action) is str and action.strip():
        calls = [AskedCall(action.split(maxsplit=1)[0], {"command": action})]
    return calls, None not in asked
