"""SWE-agent's list of steps, `trajectory`, and how its conversation, `history`, belongs to it.

Each answer of the model in the history belongs to a step, but not each step to an answer: when a model was asked again
after an answer that could not be used, only the steps show it.

Where an entry has the request (`query` from version 1.1 on, `messages` before), that is recorded; else the history up
to the answer is, marked `reconstructed`, because older messages may have been shortened when they were sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from .builder import RunBuilder
from .conversation import (
    AskedCall,
    Ending,
    add_message,
    add_messages,
    decision_of,
    is_assistant,
    request_before,
    tool_calls_of,
)
from .source import seconds_of
from .swe_frame import Frame

ENTRY_FIELDS: Final = frozenset(
    ("action", "observation", "response", "thought", "state", "execution_time", "query", "messages", "extra_info")
)

NO_QUERY: Final[list[Any]] = [{}]
"""The `query` of a step that the agent made itself, such as the one that submits after a limit was reached."""

STATE_BEFORE_ACTION: Final = (
    "in this file the state of a step was taken before its action: what an action changed shows one step later, "
    "and what the last one changed is not recorded"
)


@dataclass(slots=True)
class Trajectory(Frame):
    """A file with steps."""

    entries: list[Any] = field(init=False)
    places: list[int | None] = field(init=False)
    last_call: str | None = None

    def run(self) -> RunBuilder:
        """Build the run."""
        self.entries = self.document["trajectory"]
        self.places = aligned(self.entries, self.history)
        found = [place for place in self.places if place is not None]
        starts = [at for at, message in enumerate(self.history) if is_assistant(message)]
        first = found[0] if found else starts[0] if starts else len(self.history)
        self.open(self.history[:first])
        if any(type(entry) is dict and type(entry.get("state")) is str for entry in self.entries):
            self._note(STATE_BEFORE_ACTION)
        if any(type(_sent(self.entries[at])) is not list for at, place in enumerate(self.places) if place is not None):
            self._note("requests are put together from the history; what was sent may have been shorter")
        if starts and not found:
            self._note("the history cannot be matched with the steps; it stands at the end of the run")
        add_messages(self.work, self.builder, self.history[:first], "history")
        ending = self.ending(self.entries[-1:] != [] and _word(self.entries[-1]) == "submit")
        ends = dict(zip(found, [*found[1:], len(self.history)], strict=False))  # of nothing found, nothing ends
        for index, entry in enumerate(self.entries):
            last = index == len(self.entries) - 1
            place = self.places[index]
            following = () if place is None else self.history[place + 1 : ends[place]]
            if last and not found:
                following = self.history[first:]
            self.builder.begin_round()
            self._entry(index, entry, place, following, ending if last else None)
            self.builder.end_round(ending.outcome if last else "continue")
        if not self.entries:
            add_messages(self.work, self.builder, self.history[first:], "history")
        self.close(ending)
        return self.builder

    def _note(self, text: str) -> None:
        self.work.tally.notes.append(text)
        self.builder.report(text)

    def _entry(
        self, index: int, entry: Any, place: int | None, following: Sequence[Any], ending: Ending | None
    ) -> None:
        """One round."""
        where = f"trajectory[{index}]"
        if type(entry) is not dict:
            self.work.damage(self.builder, f"{where} is no object", entry)
            self.work.tally.count(False)
            add_messages(self.work, self.builder, following, "history")
            return
        flaws = self._flaws(where, entry)
        if type(entry.get("state")) is str:
            flaws += self._state(where, entry["state"], self.last_call)
        said = self.history[place] if place is not None else None
        flaws += self._model(where, entry, place, said)
        if place is not None:
            add_message(self.work, self.builder, said, "history")
        calls = self._calls(entry, said)
        decision = decision_of(calls, entry.get("thought"), ending, self.info.get("exit_status"))
        self.builder.decide(decision, entry.get("response"))
        call = None
        if calls:
            call = self.builder.tool_called(calls[0].name, calls[0].arguments, raw=calls[0].raw, tool_call=calls[0].id)
            if "observation" in entry:
                self.builder.tool_returned(call, entry["observation"], seconds_of(entry.get("execution_time")))
            self.last_call = call
        elif entry.get("observation") not in (None, ""):
            self.work.keep_field(
                self.builder,
                "trajectory[].observation",
                entry["observation"],
                f"{where}.observation (no action)",
            )
        if "state" in entry and type(entry["state"]) is not str:
            flaws += self._state(where, entry["state"], call)
        self._leftovers(where, entry)
        add_messages(self.work, self.builder, following, "history")
        self.work.tally.count(flaws == 0)

    def _flaws(self, where: str, entry: Mapping[str, Any]) -> int:
        """Report what is not of its type; returns how much that was."""
        flaws = 0
        for name in ("action", "observation", "response", "thought"):
            value = entry.get(name)
            if type(value) not in (str, type(None)) and not (name != "action" and type(value) is list):
                self.work.damage(self.builder, f"{where}: `{name}` is no text", value)
                flaws += 1
        if "execution_time" in entry and seconds_of(entry["execution_time"]) is None:
            self.work.damage(self.builder, f"{where}: `execution_time` is no number", entry["execution_time"])
            flaws += 1
        if not ENTRY_FIELDS & entry.keys():
            self.work.damage(self.builder, f"{where} has none of the fields of a step", entry)
            flaws += 1
        return flaws

    def _state(self, where: str, state: Any, call: str | None) -> int:
        """Make the state the payload: parsed, or as it is when it is no JSON."""
        payload, flaws = state, 0
        if type(state) is str:
            try:
                payload = json.loads(state)
            except (ValueError, RecursionError):
                flaws = 1
                self.work.damage(self.builder, f"{where}: `state` is not JSON; the payload is its text", state)
        if not flaws and type(payload) not in (dict, type(None)):
            flaws = 1
            self.work.damage(
                self.builder, f"{where}: `state` is no object; the payload is the value as it stands", state
            )
        self.builder.change_payload(payload, call=call, reason="the state that the environment reported")
        return flaws

    def _model(self, where: str, entry: Mapping[str, Any], place: int | None, said: Any) -> int:
        """The model call of a step, if there was one; returns how much of it was damaged."""
        sent = _sent(entry)
        flaws = 0
        if sent is not None and type(sent) is not list:
            self.work.damage(self.builder, f"{where}: the messages that were sent are no list", sent)
            sent, flaws = None, 1
        if sent == NO_QUERY:
            return flaws
        response = entry.get("response", entry.get("thought"))
        if response is None and sent is None and said is None:
            return flaws
        request: dict[str, Any] | None = None
        rest: list[Any] = []
        if sent is not None:
            request, rest = self._request(entry, sent, place)
        elif place is not None:
            request = request_before(self.history, place)
        call = self.builder.model_called(request, reconstructed=sent is None and request is not None, **self.model)
        calls = said.get("tool_calls") if type(said) is dict else None
        if calls:
            response = {"content": response, "tool_calls": calls}
        self.builder.model_returned(call, response)
        if rest:
            self.work.keep_field(self.builder, "trajectory[].messages after the answer", rest, f"{where}.messages")
        return flaws

    def _request(
        self, entry: Mapping[str, Any], sent: list[Any], place: int | None
    ) -> tuple[dict[str, Any], list[Any]]:
        """What was sent, and what of the entry's messages came later and is not in the history.

        `query` (1.1 on) is what was sent. `messages` (before) was noted after the step: it ends with the answer and
        the observation.
        """
        if "query" in entry:
            return {"messages": sent}, []
        answer = next((at for at in range(len(sent) - 1, -1, -1) if is_assistant(sent[at])), None)
        if answer is None or not _answers(sent[answer], entry):
            return {"messages": sent}, []
        rest = sent[answer:]
        if place is not None and rest == self.history[place : place + len(rest)]:
            rest = []
        return {"messages": sent[:answer]}, rest

    def _calls(self, entry: Mapping[str, Any], said: Any) -> list[AskedCall]:
        """The call of a step: the tool and arguments that the model named, else the first word of the action."""
        action = entry.get("action")
        if type(action) is not str or not action.strip():
            return []
        asked = [call for call in tool_calls_of(said) if call is not None] if type(said) is dict else []
        if len(asked) == 1:
            return [replace(asked[0], command=action)]
        return [AskedCall(action.split(maxsplit=1)[0], {"command": action})]

    def _leftovers(self, where: str, entry: Mapping[str, Any]) -> None:
        rest = {name: value for name, value in entry.items() if name not in ENTRY_FIELDS}
        if entry.get("extra_info"):
            rest["extra_info"] = entry["extra_info"]
        if "query" in entry and "messages" in entry:
            rest["messages"] = entry["messages"]
        for name, value in rest.items():
            self.work.keep_field(self.builder, f"trajectory[].{name}", value, f"{where}.{name}")


def aligned(entries: Sequence[Any], history: Sequence[Any]) -> list[int | None]:
    """For each step the place of the model's answer in the history, or None.

    Answers stand in the order of their steps. The history of a run that went well has one for each step but those that
    were asked again, so answers are matched one after the other. If that leaves answers over, each step looks further
    ahead, and what fits more steps counts.
    """
    answers = [at for at, message in enumerate(history) if is_assistant(message)]
    in_turn: list[int | None] = []
    waiting = 0
    for entry in entries:
        fits = waiting < len(answers) and _answers(history[answers[waiting]], entry)
        in_turn.append(answers[waiting] if fits else None)
        waiting += fits
    if waiting == len(answers):
        return in_turn
    ahead: list[int | None] = []
    place = 0
    texts: dict[str, list[int]] = {}
    for at in reversed(answers):
        if type(history[at].get("content")) is str:
            texts.setdefault(history[at]["content"], []).append(at)
    for entry in entries:
        response = entry.get("response") if type(entry) is dict else None
        places = texts.get(response, []) if type(response) is str else []
        while places and places[-1] < place:
            places.pop()
        ahead.append(places[-1] if places else None)
        place = places[-1] + 1 if places else place
    return max(in_turn, ahead, key=lambda places: sum(place is not None for place in places))


def _answers(message: Any, entry: Any) -> bool:
    """Whether a message of the history is the answer of a step: the same text, or the same thought and action."""
    if type(message) is not dict or type(entry) is not dict:
        return False
    response = entry.get("response")
    if type(response) is str and message.get("content") == response:
        return True
    return (
        type(entry.get("action")) is str
        and message.get("action") == entry["action"]
        and message.get("thought") == entry.get("thought")
    )


def _sent(entry: Mapping[str, Any]) -> Any:
    """The messages that a step has of its request."""
    return entry.get("query", entry.get("messages"))


def _word(entry: Any) -> str:
    """The first word of a step's action."""
    action = entry.get("action") if type(entry) is dict else None
    words = action.split(maxsplit=1) if type(action) is str else []
    return words[0] if words else ""
