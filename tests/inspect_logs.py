"""Inspect AI's logs as the tests see them: the files there are, their import, and an independent reading of them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
from agentreplay.recorder.events import Event
from agentreplay.recorder.importers import ImportReport, import_file
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.redaction import RedactionRules
from agentreplay.recorder.store import EventStore, RunInfo
from agentreplay.replay.reducer import reduce
from agentreplay.replay.state import RunState
from agentreplay.replay.timeline import states

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures" / "inspect"
SAMPLES = ROOT.parent / "shared" / "data" / "real_runs" / "inspect-ai"
FILES = sorted([*FIXTURES.glob("*.json"), *SAMPLES.glob("*.*")])
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
every_fixture = pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.json")), ids=lambda path: path.name)

STEPS = FIXTURES / "steps_nested_success.json"
SPANS = FIXTURES / "spans_parallel_error.json"
POOLS = FIXTURES / "pools_limit.json"
TRANSCRIPT = FIXTURES / "transcript_cancelled.json"
MESSAGES = FIXTURES / "messages_only.json"
NO_SAMPLES = FIXTURES / "no_samples_nan.json"


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


class Imported:
    """A file imported into a store that redacts nothing."""

    def __init__(self, path: Path, format: str | None = None) -> None:
        self.store: EventStore = MemoryStore(RedactionRules.off())
        self.report: ImportReport = import_file(path, self.store, format)
        self.runs: list[RunInfo] = [self.store.run(name) for name in self.report.runs]

    def events(self, run: int = 0) -> list[Event]:
        return list(self.store.events(self.runs[run]))

    def of(self, *kinds: str, run: int = 0, round: int | None = None) -> list[Any]:
        return [e.data for e in self.events(run) if e.kind in kinds and (round is None or e.round == round)]

    def states(self, run: int = 0) -> dict[int, RunState]:
        return dict(states(self.events(run)))

    def last(self, run: int = 0) -> RunState:
        reached = self.states(run)
        return reached[max(reached)]

    def payloads(self, run: int = 0) -> list[Any]:
        """The payload after each change."""
        state, found = RunState(), []
        for event in self.events(run):
            state = reduce(state, event)
            if event.kind == "payload.changed":
                found.append(state.payload)
        return found


def documents_in(path: Path) -> list[dict[str, Any]]:
    """The samples of a file, by the standard library alone; of an archive by epoch and id."""
    if path.suffix != ".eval":
        return json.loads(path.read_text(encoding="utf-8")).get("samples", [])
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("samples/")]
        found = [json.loads(archive.read(name)) for name in names]
    return sorted(found, key=lambda sample: (sample["epoch"], str(sample["id"])))


def events_in(sample: dict[str, Any]) -> list[dict[str, Any]]:
    return sample.get("events") or sample.get("transcript", {}).get("events", [])


def all_events(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The events and those inside them."""
    for event in events:
        yield event
        yield from all_events(event.get("events", []))


def spans_within_calls(events: list[dict[str, Any]], types: tuple[str, ...] = ("tool", "subtask")) -> set[str]:
    """The ids of the spans of these types, and of all spans below them."""
    found: set[str] = set()
    for event in events:
        if event["event"] == "span_begin" and (event.get("type") in types or event.get("parent_id") in found):
            found.add(event["id"])
    return found


def rounds_in(sample: dict[str, Any]) -> int:
    """The model events of the sample itself; of a sample without events, what the assistant says."""
    events = events_in(sample)
    if not events:
        return sum(message["role"] == "assistant" for message in sample.get("messages", []))
    inner = spans_within_calls(events)
    return sum(event["event"] == "model" and event.get("span_id") not in inner for event in events)


def calls_in(sample: dict[str, Any]) -> list[str]:
    """The names of all calls of tools and subtasks."""
    events = events_in(sample)
    if not events:
        return [message["function"] for message in sample.get("messages", []) if message["role"] == "tool"]
    found = [event for event in all_events(events) if event["event"] in ("tool", "subtask")]
    return [event["function"] if event["event"] == "tool" else event["name"] for event in found]


def put_back(value: Any, attachments: dict[str, str]) -> Any:
    """A value with its attachments."""
    if isinstance(value, str) and "://" in value:
        return attachments.get(value.split("://", 1)[1], value)
    if isinstance(value, list):
        return [put_back(item, attachments) for item in value]
    if isinstance(value, dict):
        return {key: put_back(item, attachments) for key, item in value.items()}
    return value


def payloads_in(sample: dict[str, Any]) -> list[Any]:
    """The payload after each state and store event, by `jsonpatch`: each from where its span, step or call began."""
    events = events_in(sample)
    attachments = sample.get("attachments") or sample.get("transcript", {}).get("content", {})
    state = next((event["state"] for event in events if event["event"] == "sample_init"), {})
    state = put_back(state, attachments)
    now = {"state": state, "store": state.get("store", {})}
    apart = spans_within_calls(events, ("subtask",))
    marks: dict[str, Any] = {}
    found: list[Any] = []

    def walk(events: list[dict[str, Any]], stack: list[Any]) -> None:
        for event in events:
            kind = event["event"]
            if kind == "span_begin":
                marks[event["id"]] = dict(now)
            elif kind == "step":
                stack.append(dict(now)) if event["action"] == "begin" else stack.pop()
            elif kind == "tool":
                walk(event.get("events", []), [*stack, dict(now)])
            elif kind in ("state", "store") and event.get("span_id") not in apart:
                changes = [
                    {**change, "value": change.get("value")} if change["op"] in ("add", "replace") else change
                    for change in put_back(event["changes"], attachments)
                ]
                base = marks.get(event.get("span_id", ""), stack[-1] if stack else now)[kind]
                now[kind] = jsonpatch.apply_patch(base, changes)
                found.append(json.loads(json.dumps(now)))

    walk(events, [])
    return found


def log_of(*events: dict[str, Any], **sample: Any) -> dict[str, Any]:
    init = {"event": "sample_init", "state": {"messages": [], "store": {"cups": [1]}}, "sample": {"input": "tea"}}
    return {
        "eval": {"task": "tea", "model": "m"},
        "samples": [{"id": 1, "epoch": 1, "input": "tea", "messages": [], "events": [init, *events], **sample}],
    }


def store_event(*changes: Any, **fields: Any) -> dict[str, Any]:
    return {"event": "store", "changes": list(changes), **fields}
