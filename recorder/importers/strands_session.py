"""Session directories of the Strands SDK: each agent's conversation and the state that it was left with.

A session keeps the last state of an agent, overwritten in place, and every message. So a run is made of the messages: a
round for each of the model's, with the tools that it asked for and the results that came. Requests are put together
from the conversation before. When the state became what it is, no file says; it is the payload from the last round on.

A session of which a file is damaged or missing is refused whole, as a damaged cassette is; `strands_parts` finds what
is wrong. When it is salvaged, what can be read of such a file stays, and the run has a report of each fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from .builder import RunBuilder, duration_between
from .conversation import UNKNOWN_ENDING, AskedCall, Ending, completed, decision_of, request_before, within
from .importing import Importing
from .source import SourceFile, clean_text, failure, time_of
from .strands_folder import SessionFolder
from .strands_orchestra import finish_orchestra, orchestra_run
from .strands_parts import AgentParts, Damage, SessionParts, parts_of

_OF_AGENT: Final = frozenset(("agent_id", "state", "created_at"))


class StrandsSession:
    """The importer of session directories of the Strands SDK."""

    name = "strands"
    reads = "a session directory of the Strands SDK, with `session.json` and `agents/agent_…`"

    def detects(self, source: SourceFile) -> float:
        """How surely it is one: a folder was read as one, or it is none."""
        return 1.0 if isinstance(source, SessionFolder) else 0.0

    def runs(self, work: Importing) -> Iterator[RunBuilder]:
        """A run for each agent of the session, then one for each graph and swarm."""
        folder = work.source
        if not isinstance(folder, SessionFolder):
            raise failure(folder.path, "it is a file", self.reads, "Name the folder `session_…`.")
        parts = parts_of(folder)
        if parts.damages and not work.salvage:
            raise parts.refusal()
        agents = [agent for agent in parts.agents.values() if agent.about or agent.entries]
        if not agents and not parts.orchestras:
            found, advice = "it has no agent", "Was anything recorded in the session?"
            if parts.damages:
                found, advice = parts.damages[0].told, "Nothing of it can be salvaged."
            raise failure(folder.path, found, self.reads, advice)
        _count(work, parts)
        runs: list[tuple[str, Any]] = [*((agent.home, agent) for agent in agents), *parts.orchestras.items()]
        whole = {home for home, _ in runs}
        for number, (home, part) in enumerate(runs):
            mine = [damage for damage in parts.damages if damage.owner == home]
            first = parts if number == 0 else None
            if first is not None:
                mine += [damage for damage in parts.damages if damage.owner not in whole]
            if isinstance(part, AgentParts):
                yield _Conversation(work, part, mine, first).run()
                continue
            builder = orchestra_run(work, home.rpartition("/multi_agent_")[2], part)
            _add_reports(builder, work, mine, first)
            finish_orchestra(builder, part)
            yield builder


def _count(work: Importing, parts: SessionParts) -> None:
    """Tally the records, and say what a person should know."""
    tally = work.tally
    tally.imported, tally.damaged = parts.sound, parts.damaged
    tally.notes += [*parts.told(), *parts.notes]
    for agent in parts.agents.values():
        if not agent.about and not agent.entries:
            tally.notes.append(f'nothing of the agent "{clean_text(agent.id)}" is sound, so it is no run')


def _add_reports(builder: RunBuilder, work: Importing, damages: list[Damage], parts: SessionParts | None) -> None:
    """Put in the log what is wrong, and with the first run what the session has beside its agents."""
    for damage in damages:
        work.damage(builder, damage.told, damage.content)
    if parts is None:
        return
    if parts.session is not None:
        builder.report("the session", parts.session)
    for path, content in parts.others.items():
        work.keep(builder, path, content)


@dataclass(slots=True)
class _Conversation:
    work: Importing
    agent: AgentParts
    damages: list[Damage]
    first: SessionParts | None
    builder: RunBuilder = field(init=False)

    def run(self) -> RunBuilder:
        """Build the run."""
        entries = self.agent.entries
        messages = [entry.message for entry in entries]
        task = next((message["content"] for message in messages if message["role"] == "user"), None)
        about = self.agent.about
        started = time_of(about.get("created_at")) or next((entry.at for entry in entries if entry.at), None)
        self.builder = self.work.run(self.agent.id, payload={}, input=task, started=started, agent_id=self.agent.id)
        self._open()
        starts = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
        for entry in entries[: starts[0] if starts else None]:
            self.builder.at(entry.at)
            self.builder.message(entry.message)
        if not starts:
            self._take_state()
        ending = self._ending(messages)
        for place, start in enumerate(starts):
            end = starts[place + 1] if place + 1 < len(starts) else len(messages)
            self._round(messages, start, end, ending if end == len(messages) else None)
        value = _text_of(messages[-1]) if messages and ending.status == "completed" else None
        self.builder.finish(ending.status, ending.stop_reason, value=value)
        return self.builder

    def _open(self) -> None:
        """Put what the session holds beside its messages in the log."""
        _add_reports(self.builder, self.work, self.damages, self.first)
        for name, value in self.agent.about.items():
            if name not in _OF_AGENT and value:
                self.work.keep_field(self.builder, name, value)
        for entry in self.agent.entries:
            for name, value in entry.beside.items():
                self.work.keep_field(self.builder, name, value, f"{name} of {entry.path}")

    def _take_state(self) -> None:
        state = self.agent.about.get("state")
        if type(state) is dict:
            self.builder.change_payload(
                state, reason="the state that the session was left with; when it became that is not known"
            )

    def _ending(self, messages: list[Any]) -> Ending:
        if within(self.agent.about, "_internal_state", "interrupt_state", "activated") is True:
            return Ending("interrupted", "Chat", "interrupt")
        if not messages and not self.agent.damaged:
            return completed("never invoked")
        last = messages[-1] if messages else {}
        if last.get("role") == "assistant" and not _uses_of(last):
            return completed("end_turn")
        self.work.tally.notes.append(
            f"agent {self.agent.id}: the conversation ends before the model's last word; it counts as failed"
        )
        return UNKNOWN_ENDING

    # -- rounds ------------------------------------------------------------------------------------------

    def _round(self, messages: list[Any], start: int, end: int, ending: Ending | None) -> None:
        builder, said, entries = self.builder, messages[start], self.agent.entries
        answered = entries[start].at
        builder.at(entries[start - 1].at if start else answered)
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
        asked = [AskedCall(use["name"], use.get("input"), id=use.get("toolUseId")) for use in uses]
        decision = decision_of(asked, None, ending)
        if not asked and (ending is None or ending.status == "completed"):
            decision = {"step": "Success", "message": _text_of(said)}
        builder.decide(decision, _text_of(said))
        waiting = [(one.id, builder.tool_called(one.name, one.arguments, tool_call=one.id)) for one in asked]
        if end == len(messages):
            self._take_state()
        for entry in entries[start + 1 : end]:
            builder.at(entry.at)
            for result in _results_of(entry.message):
                self._returned(waiting, entry.path, result, duration_between(answered, entry.at))
            builder.message(entry.message)
        builder.end_round("continue" if ending is None else ending.outcome)

    def _returned(self, waiting: list[tuple[Any, str]], path: str, result: Any, duration: float | None) -> None:
        id = result.get("toolUseId")
        place = next((at for at, (one, _) in enumerate(waiting) if one == id), None)
        if place is None:
            shown = f'"{clean_text(id)}"' if type(id) is str else "no id"
            self.work.tally.notes.append(
                f"{clean_text(path)}: a result for {shown}, for which the model did not ask just before, is no call's"
            )
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


def _blocks_of(message: dict[str, Any], kind: str) -> list[Any]:
    return [block[kind] for block in message["content"] if type(block) is dict and type(block.get(kind)) is dict]


def _uses_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The tool uses of a message that name a tool."""
    return [use for use in _blocks_of(message, "toolUse") if type(use.get("name")) is str]


def _results_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    return _blocks_of(message, "toolResult")


def _text_of(message: dict[str, Any]) -> str:
    content = message.get("content")
    blocks = content if type(content) is list else []
    return "\n".join([block["text"] for block in blocks if type(block) is dict and type(block.get("text")) is str])
