"""Session directories of the Strands SDK: each agent's conversation and the state that it was left with.

A session keeps the last state of an agent, overwritten in place, and every message. So a run is made of the messages: a
round for each of the model's, with the tools that it asked for and the results that came. Requests are put together
from the conversation before. When the state became what it is, no file says; it is the payload from the last round on.

What is no JSON, is cut off, or lacks its message is kept as a report and counted as damaged; the rest is imported.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from .builder import RunBuilder, duration_between
from .conversation import UNKNOWN_ENDING, AskedCall, Ending, completed, decision_of, request_before, within
from .importing import Importing
from .source import SourceFile, failure, time_of
from .strands_folder import FILES

_MESSAGE: Final = re.compile(r"agents/agent_(?P<agent>[^/]+)/messages/message_(?P<number>\d+)\.json")
_AGENT: Final = re.compile(r"agents/agent_(?P<agent>[^/]+)/agent\.json")

_OF_MESSAGE: Final = frozenset(("message", "message_id", "redact_message", "created_at", "updated_at"))
_OF_AGENT: Final = frozenset(("agent_id", "state", "created_at"))


@dataclass(slots=True)
class _Agent:
    """What a session has of one agent.

    Attributes:
        about: `agent.json`, if it can be read.
        messages: by number: what is in the file, if it can be read; else its text.
    """

    id: str
    about: dict[str, Any] = field(default_factory=dict)
    messages: dict[int, Any] = field(default_factory=dict)
    broken: list[tuple[str, str]] = field(default_factory=list)


class StrandsSession:
    """The importer of session directories of the Strands SDK."""

    name = "strands"
    reads = "a session directory of the Strands SDK, with `session.json` and `agents/agent_…`"

    def detects(self, source: SourceFile) -> float:
        """How surely it is one: a folder was read as one, or it is none."""
        document = source.json_or_none()
        return 1.0 if type(document) is dict and document.keys() == {FILES} else 0.0

    def runs(self, work: Importing) -> Iterator[RunBuilder]:
        """A run for each agent of the session."""
        document = work.source.json()
        files = document.get(FILES) if type(document) is dict else None
        if type(files) is not dict:
            raise failure(work.source.path, "it is a file", self.reads, "Name the folder `session_…`.")
        agents: dict[str, _Agent] = {}
        others: dict[str, str] = {}
        for path, text in files.items():
            found = _MESSAGE.fullmatch(path) or _AGENT.fullmatch(path)
            if found is None:
                others[path] = text
                continue
            agent = agents.setdefault(found["agent"], _Agent(found["agent"]))
            content = _parsed(text)
            if type(content) is not dict:
                agent.broken.append((path, text))
            elif found.re is _AGENT:
                agent.about = content
            else:
                agent.messages[int(found["number"])] = content
        if not agents:
            raise failure(work.source.path, "it has no agent", self.reads, "Was anything recorded in the session?")
        for number, agent in enumerate(agents.values()):
            yield _Conversation(work, agent, others if number == 0 else {}).run()


@dataclass(slots=True)
class _Conversation:
    work: Importing
    agent: _Agent
    others: dict[str, str]
    builder: RunBuilder = field(init=False)
    entries: list[tuple[Any, datetime | None]] = field(default_factory=list)
    reports: list[tuple[str, Any]] = field(default_factory=list)

    def run(self) -> RunBuilder:
        """Build the run."""
        self._read()
        messages = [message for message, _ in self.entries]
        task = next((message["content"] for message in messages if message["role"] == "user"), None)
        started = time_of(self.agent.about.get("created_at")) or next((at for _, at in self.entries if at), None)
        self.builder = self.work.run(self.agent.id, payload={}, input=task, started=started, agent_id=self.agent.id)
        self._open()
        starts = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
        for message, at in self.entries[: starts[0] if starts else None]:
            self.builder.at(at)
            self.builder.message(message)
        ending = self._ending(messages)
        for place, start in enumerate(starts):
            end = starts[place + 1] if place + 1 < len(starts) else len(messages)
            self._round(messages, start, end, ending if end == len(messages) else None)
        value = _text_of(messages[-1]) if messages and ending.status == "completed" else None
        self.builder.finish(ending.status, ending.stop_reason, value=value)
        return self.builder

    # -- reading -----------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Take the messages, in the order of their numbers."""
        expected = 0
        for number, entry in sorted(self.agent.messages.items()):
            path = f"message_{number}.json"
            if number > expected:
                self.reports.append((f"messages {expected} to {number - 1} are missing", None))
                self.work.tally.notes.append(f"agent {self.agent.id}: messages {expected} to {number - 1} are missing")
            expected = number + 1
            redacted = entry.get("redact_message")
            message = _decoded(redacted if type(redacted) is dict else entry.get("message"))
            sound = type(message) is dict and type(message.get("role")) is str and _is_content(message.get("content"))
            self.work.tally.count(sound)
            if not sound:
                self.reports.append((f"{path} holds no message with a role and a content", entry))
                continue
            self.entries.append((message, time_of(entry.get("created_at"))))
            self.reports += [
                (f"`{name}` of {path} has no place in a run", value)
                for name, value in entry.items()
                if name not in _OF_MESSAGE
            ]

    def _open(self) -> None:
        """Put what the session holds beside its messages in the log."""
        builder, work, about = self.builder, self.work, self.agent.about
        for path, text in self.agent.broken:
            work.tally.damaged += 1
            work.damage(builder, f"{path} is no JSON object, or is cut off", text)
        if about:
            work.tally.imported += 1
            for name, value in about.items():
                if name not in _OF_AGENT and value:
                    work.keep_field(builder, name, _decoded(value))
        for path, text in self.others.items():
            content = _parsed(text)
            if path == "session.json" and type(content) is dict:
                work.tally.imported += 1
                builder.report("the session", content)
            elif content is None:
                work.tally.damaged += 1
                work.damage(builder, f"{path} is no JSON, or is cut off", text)
            else:
                work.keep(builder, path, content)
        for message, content in self.reports:
            builder.report(message, content, level="warning")

    def _ending(self, messages: list[Any]) -> Ending:
        if within(self.agent.about, "_internal_state", "interrupt_state", "activated") is True:
            return Ending("interrupted", "Chat", "interrupt")
        last = messages[-1] if messages else {}
        if last.get("role") == "assistant" and not _uses_of(last):
            return completed("end_turn")
        self.work.tally.notes.append(
            f"agent {self.agent.id}: the conversation ends before the model's last word; it counts as failed"
        )
        return UNKNOWN_ENDING

    # -- rounds ------------------------------------------------------------------------------------------

    def _round(self, messages: list[Any], start: int, end: int, ending: Ending | None) -> None:
        builder, said = self.builder, messages[start]
        answered = self.entries[start][1]
        builder.at(self.entries[start - 1][1] if start else answered)
        builder.begin_round()
        call = builder.model_called(request_of(messages, start), reconstructed=True)
        builder.at(answered)
        uses = _uses_of(said)
        builder.model_returned(
            call,
            {"role": said["role"], "content": said["content"]},
            usage=within(said, "metadata", "usage"),
            stop_reason="tool_use" if uses else "end_turn",
        )
        builder.message(said)
        asked = [AskedCall(str(use.get("name")), use.get("input"), id=use.get("toolUseId")) for use in uses]
        decision = decision_of(asked, None, ending)
        if not asked and (ending is None or ending.status == "completed"):
            decision = {"step": "Success", "message": _text_of(said)}
        builder.decide(decision, _text_of(said))
        waiting = [(one.id, builder.tool_called(one.name, one.arguments, tool_call=one.id)) for one in asked]
        if end == len(messages) and self.agent.about:
            builder.change_payload(
                self.agent.about.get("state") or {},
                reason="the state that the session was left with; when it became that is not known",
            )
        for at in range(start + 1, end):
            message, came = self.entries[at]
            builder.at(came)
            for result in _results_of(message):
                self._returned(waiting, result, duration_between(answered, came))
            builder.message(message)
        builder.end_round("continue" if ending is None else ending.outcome)

    def _returned(self, waiting: list[tuple[Any, str]], result: Any, duration: float | None) -> None:
        place = next((at for at, (id, _) in enumerate(waiting) if id == result.get("toolUseId")), None)
        if place is None:
            return
        _, call = waiting.pop(place)
        if result.get("status") == "error":
            self.builder.tool_failed(call, "error", _text_of(result), duration)
        else:
            self.builder.tool_returned(call, result, duration)


def request_of(messages: list[Any], at: int) -> dict[str, Any]:
    """The request for the message at a place, as the model gets it: role and content of those before."""
    before = request_before(messages, at)["messages"]
    return {"messages": [{"role": message["role"], "content": message["content"]} for message in before]}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None


def _decoded(value: Any, depth: int = 200) -> Any:
    """A value with the bytes that the SDK writes as a text in their own form."""
    if type(value) is dict:
        if value.get("__bytes_encoded__") is True and type(value.get("data")) is str:
            try:
                return base64.b64decode(value["data"], validate=True)
            except (binascii.Error, ValueError):
                return value
        return {key: _decoded(one, depth - 1) for key, one in value.items()} if depth else value
    if type(value) is list and depth:
        return [_decoded(one, depth - 1) for one in value]
    return value


def _is_content(content: Any) -> bool:
    return type(content) is list and all(type(block) is dict for block in content)


def _uses_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [block["toolUse"] for block in message["content"] if type(block.get("toolUse")) is dict]


def _results_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [block["toolResult"] for block in message["content"] if type(block.get("toolResult")) is dict]


def _text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    blocks = content if type(content) is list else []
    return "\n".join([block["text"] for block in blocks if type(block) is dict and type(block.get("text")) is str])
