"""Inspect AI's evaluation logs: every file is read twice, by the importer and independently here."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
from agentreplay.recorder.errors import ImportFailed
from agentreplay.recorder.events import Event
from agentreplay.recorder.importers import ImportReport, detect, import_file
from agentreplay.recorder.importers.source import SourceFile
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.redaction import RedactionRules
from agentreplay.recorder.store import EventStore, RunInfo
from agentreplay.recorder.values import decode
from agentreplay.replay.reducer import reduce
from agentreplay.replay.state import RunState
from agentreplay.replay.timeline import states
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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


# -- laws that hold for every file -----------------------------------------------------------------------------


@every_file
def test_each_sample_and_epoch_is_a_run(path: Path) -> None:
    """As many runs as samples, in order; a log without samples is one run."""
    imported, samples = Imported(path), documents_in(path)
    named = [(source["sample"], source["epoch"]) for source in sources(imported) if samples]
    assert named == [(sample["id"], sample["epoch"]) for sample in samples]
    assert len(imported.runs) == max(1, len(samples))
    assert imported.report.format == "inspect"


def sources(imported: Imported) -> list[dict[str, Any]]:
    return [imported.of("run.started", run=number)[0].source for number in range(len(imported.runs))]


@every_file
def test_steps_and_tool_calls_equal_an_independent_count(path: Path) -> None:
    """A run has as many rounds as its sample has model events of its own, and all of its tool calls, by name."""
    imported = Imported(path)
    for number, sample in enumerate(documents_in(path)):
        assert imported.runs[number].steps == rounds_in(sample)
        assert max(imported.states(number)) == rounds_in(sample)
        assert [data.name for data in imported.of("tool.called", run=number)] == calls_in(sample)


@every_file
def test_model_calls_equal_an_independent_count(path: Path) -> None:
    """Every model event is a model call, wherever it stands, with the tokens that it used."""
    imported = Imported(path)
    for number, sample in enumerate(documents_in(path)):
        models = [event for event in all_events(events_in(sample)) if event["event"] == "model"]
        if models:
            called = imported.of("model.called", run=number)
            assert [data.model for data in called] == [event["model"] for event in models]
            spent = sum(event["output"].get("usage", {}).get("total_tokens", 0) for event in models)
            assert imported.last(number).usage["total_tokens"] == spent


@every_file
def test_after_each_state_and_store_event_the_payload_is_what_jsonpatch_makes_of_it(path: Path) -> None:
    """There is one change for each such event, and after it the payload equals the patches applied by `jsonpatch`."""
    imported = Imported(path)
    for number, sample in enumerate(documents_in(path)):
        if events_in(sample):
            wanted, found = payloads_in(sample), imported.payloads(number)
            assert len(found) == len(wanted)
            assert found == wanted


@every_file
def test_the_payload_ends_with_the_store_of_the_sample(path: Path) -> None:
    """The store that the file has for the end of the sample is the one that the patches lead to."""
    imported = Imported(path)
    for number, sample in enumerate(documents_in(path)):
        assert imported.last(number).payload["store"] == sample.get("store", {})


@every_file
def test_the_conversation_ends_as_the_sample_does(path: Path) -> None:
    """The messages at the end of a run are those of the sample."""
    imported = Imported(path)
    for number, sample in enumerate(documents_in(path)):
        attachments = sample.get("attachments") or sample.get("transcript", {}).get("content", {})
        assert imported.last(number).messages == put_back(sample["messages"], attachments)


@every_file
def test_an_imported_run_is_sound(path: Path) -> None:
    """Its chain verifies, it has ended, it says where it comes from, and every record was counted once."""
    imported = Imported(path)
    assert imported.store.verify() == []
    for number, run in enumerate(imported.runs):
        started = imported.of("run.started", run=number)[0]
        assert imported.last(number).ended
        assert (run.origin, started.source["format"], started.source["file"]) == ("imported", "inspect", path.name)
        assert started.payload.keys() == {"state", "store"}
    report = imported.report
    assert report.read == report.imported + report.unknown + report.damaged


@every_file
def test_every_record_is_counted_once(path: Path) -> None:
    """Records are the fields of the log, the samples and their events (or messages), and the parts of an archive."""
    samples = documents_in(path)
    if path.suffix == ".eval":
        with zipfile.ZipFile(path) as archive:
            parts = [name for name in archive.namelist() if not name.startswith("samples/")]
            fields = len(json.loads(archive.read("header.json"))) + len(parts) - 1
    else:
        fields = len([name for name in json.loads(path.read_text()) if name != "samples"])
    events = sum(len(list(all_events(events_in(sample)))) or len(sample["messages"]) for sample in samples)
    assert Imported(path).report.read == fields + len(samples) + events


@every_file
def test_nothing_of_a_sound_file_is_damaged(path: Path) -> None:
    """Only the file with a reference to nothing has a damaged record: the sample that it is in."""
    assert Imported(path).report.damaged == (1 if path == POOLS else 0)


@every_file
def test_importing_twice_adds_nothing(path: Path) -> None:
    """The runs are found again, whatever the file is called."""
    imported = Imported(path)
    again = import_file(path, imported.store)
    assert (again.runs, again.imported) == (imported.report.runs, 0)
    assert len(imported.store.runs()) == len(imported.runs)


@every_file
def test_no_reference_is_left_in_a_run(path: Path) -> None:
    """Attachments are put back everywhere, but for the one that the file does not have."""
    imported = Imported(path)
    left = set()
    for run in imported.runs:
        for event in imported.store.events(run):
            left |= set(references(event.data.model_dump()))
    assert left - {"0" * 32} == set()


def references(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value.startswith(("attachment://", "tc://")):
        yield value.split("://", 1)[1]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        yield from references(item)


# -- what a sample becomes ---------------------------------------------------------------------------------------


def test_the_agent_is_the_task_and_its_solver() -> None:
    """The solver that the evaluation names, else the last of its plan."""
    assert [run.agent for run in Imported(SPANS).runs] == ["brew_tea/brew", "brew_tea/brew"]
    assert Imported(STEPS).runs[0].agent == "count_cups/shopkeeper"


def test_a_run_knows_its_input_and_how_it_was_set_up() -> None:
    """Input, target, metadata, model and configuration are where a recorded run has them."""
    started = Imported(STEPS).of("run.started")[0]
    assert started.input == "How many cups are in the pot?"
    assert started.params["sample"] == {"id": 1, "epoch": 1, "target": "3", "metadata": {"shelf": 2}}
    assert (started.params["task"], started.params["model"]) == ("count_cups", "house/some-model")
    assert started.params["config"] == {"epochs": 2, "log_images": True}
    assert [step["solver"] for step in started.params["plan"]["steps"]] == ["system_message", "shopkeeper"]
    assert (started.source["run_id"], started.source["sample"], started.source["epoch"]) == ("RunTea1", 1, 1)


def test_a_run_ends_with_the_answer_the_scores_and_the_usage() -> None:
    """The value is the text of the output; scores and the file's own counts are metrics."""
    finished = Imported(SPANS).of("run.finished")[0]
    assert (finished.status, finished.stop_reason, finished.value) == ("completed", "stop", "The tea is ready.")
    assert finished.metrics["scores"] == {"grader": {"value": 1.0, "answer": "The tea is ready."}}
    assert finished.metrics["total_time"] == 29.9
    assert finished.metrics["accumulatedUsage"] == {"input_tokens": 157, "output_tokens": 23, "total_tokens": 180}
    assert finished.metrics["cycleCount"] == 6


@pytest.mark.parametrize(
    ("path", "ends"),
    [
        (STEPS, [("completed", "stop")]),
        (SPANS, [("completed", "stop"), ("failed", "error")]),
        (POOLS, [("failed", "token limit")]),
        (TRANSCRIPT, [("completed", "stop"), ("cancelled", "cancelled")]),
        (MESSAGES, [("completed", "success")]),
        (NO_SAMPLES, [("failed", "error")]),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else None,
)
def test_a_run_ends_as_its_sample_did(path: Path, ends: list[tuple[str, str]]) -> None:
    """An error or a limit fails it; what was not finished shares the fate of the evaluation."""
    imported = Imported(path)
    finished = [imported.of("run.finished", run=number)[0] for number in range(len(imported.runs))]
    assert [(data.status, data.stop_reason) for data in finished] == ends
    for number, (status, _) in enumerate(ends):
        outcomes = [data.outcome for data in imported.of("round.finished", run=number)]
        assert outcomes[-1:] in ([], ["complete" if status == "completed" else status])


@pytest.mark.parametrize(
    ("status", "expected"),
    [("success", "completed"), ("error", "failed"), ("cancelled", "cancelled"), ("started", "interrupted")],
)
def test_an_unfinished_sample_shares_the_fate_of_the_evaluation(status: str, expected: str, tmp_path: Path) -> None:
    """A sample without scores, error or an end of its own."""
    document = json.loads(TRANSCRIPT.read_text())
    document["status"] = status
    path = write(tmp_path / "log.json", document)
    assert [run.status for run in Imported(path).runs] == ["completed", expected]


def write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_an_error_of_the_sample_is_the_error_of_the_run() -> None:
    """Its type is read from its message; the traceback is kept."""
    error = Imported(SPANS).of("run.finished", run=1)[0].error
    assert (error.type, error.message) == ("RuntimeError", "RuntimeError('the pot is broken')")
    assert error.traceback.endswith("RuntimeError: the pot is broken\n")


def test_events_before_the_first_model_call_are_round_0() -> None:
    """The first patch of the state is there, with the payload that it led to."""
    imported = Imported(STEPS)
    assert [event.round for event in imported.events() if event.kind == "payload.changed"] == [0, 1, 2, 3, 3]
    assert [message["role"] for message in imported.states()[0].payload["state"]["messages"]] == ["system", "user"]
    assert len(imported.states()[0].messages) == 2


def test_a_patch_is_recorded_as_the_file_has_it_below_its_document() -> None:
    """Paths are below /state or /store; `replaced` is kept; the call within which it happened is its cause."""
    changes = Imported(STEPS).of("payload.changed")
    assert changes[0].request[1] == {
        "op": "replace",
        "path": "/state/messages/0/role",
        "value": "system",
        "replaced": "user",
    }
    assert changes[1].request == [
        {"op": "add", "path": "/store/seen", "value": ["pot"]},
        {"op": "add", "path": "/store/cups", "value": 3},
    ]
    assert [change.source for change in changes] == [
        {"kind": "code"},
        {"kind": "action", "call": "1.2"},
        {"kind": "action", "call": "2.2"},
        {"kind": "code"},
        {"kind": "code"},
    ]
    assert {change.applier["name"] for change in changes} == {"json-patch"}


def test_what_an_outer_span_reports_again_changes_nothing() -> None:
    """The store is patched from where the span began: a list that an inner span added to does not grow twice."""
    imported = Imported(SPANS)
    stores = [payload["store"].get("leaves") for payload in imported.payloads()]
    assert stores == [["green"]] * 2 + [["green", "sipped"]] * 6
    again = imported.of("payload.changed")[4]
    assert (again.request, again.counts) == ([], {"additions": 0, "updates": 0, "deletions": 0})
    assert again.reason == "what tool taster changed of the store"


def test_the_store_of_a_subtask_is_its_own() -> None:
    """Its change is a report, not a change of the payload."""
    imported = Imported(STEPS)
    kept = [data for data in imported.of("report") if data.message.startswith("a change of the store of a subtask")]
    assert [data.content for data in kept] == [[{"op": "add", "path": "/scale", "value": "zeroed"}]]
    assert all("scale" not in payload["store"] for payload in imported.payloads())


def test_what_happens_in_a_tool_happens_within_its_call() -> None:
    """Model and tool calls of an agent that is a tool, by spans and by nested events alike."""
    for path, outer in ((STEPS, "ask_shop"), (SPANS, "taster")):
        events = [event for event in Imported(path).events() if event.kind in ("model.called", "tool.called")]
        call = next(event.data.call for event in events if event.data.name == outer)
        inner = [(event.kind, event.data.name) for event in events if event.within == call]
        tool = {"ask_shop": "measure", "taster": "sip"}[outer]
        model = {"ask_shop": "house/other-model", "taster": "house/taster-model"}[outer]
        assert inner == [("model.called", model), ("tool.called", tool)]


def test_a_call_returns_within_what_it_was_made_in() -> None:
    """Call and return agree on what is around them, and on the round."""
    for path in (STEPS, SPANS, POOLS):
        around = {}
        for event in Imported(path).events():
            if event.kind.endswith(".called"):
                around[event.data.call] = (event.within, event.round)
            elif event.kind in ("model.returned", "model.failed", "tool.returned", "tool.failed"):
                assert around[event.data.call] == (event.within, event.round)


def test_tools_that_run_at_once_end_in_their_own_order() -> None:
    """Each returns where its span ends, at its own time."""
    events = Imported(SPANS).events()
    ends = [(event.data.call, event.time.second) for event in events if event.kind == "tool.returned"][:2]
    assert ends == [("1.3", 5), ("1.2", 8)]
    sandbox = next(event for event in events if getattr(event.data, "event", "") == "sandbox")
    assert sandbox.within == "1.2"


def test_a_tool_that_fails_has_its_error_and_what_it_gave_all_the_same() -> None:
    """Type and message are the file's; a tool that raised without saying what says so."""
    imported = Imported(SPANS)
    failed = imported.of("tool.failed")
    assert [(data.error.type, data.error.message) for data in failed] == [
        ("unknown", "the sink is full"),
        ("parsing", "Tool nosuch not found"),
    ]
    assert (failed[0].result, failed[0].truncated) == ("a puddle", [30, 8])
    assert [data.error.type for data in imported.of("tool.failed", run=1)] == ["exception"]


def test_a_model_call_that_fails_is_a_round_that_is_tried_again() -> None:
    """Its error has a type, a message and a traceback."""
    imported = Imported(SPANS)
    failed = imported.of("model.failed")[0]
    assert (failed.error.type, failed.error.traceback) == ("RateLimitError", "Traceback: …")
    steps = [data.decision["step"] for data in imported.of("step.decided")]
    assert steps == ["Actions", "Actions", "Actions", "Retry", "Answer", "Success"]


def test_a_decision_is_what_the_model_said() -> None:
    """Thoughts and text are the reasoning; each tool call is an action; the last round says how it ended."""
    decisions = [decode(data.decision) for data in Imported(SPANS).of("step.decided")]
    assert decisions[0] == {
        "step": "Actions",
        "reasoning": "Water first, leaves too.\nI boil water and take leaves.",
        "actions": [
            {"name": "boil", "params": {"liters": 1}},
            {"name": "take", "params": {"leaf": "green", "grams": 9007199254740993}},
        ],
    }
    last = Imported(POOLS).of("step.decided")[-1].decision
    assert (last["step"], last["terminate"]) == ("Failed", True)
    assert last["errorMessage"] == "a limit stopped the sample"


def test_a_model_call_has_its_request_its_parameters_and_what_was_sent_raw() -> None:
    """Messages and tools are the request; the raw request stands beside them, with its messages apart."""
    called = Imported(STEPS).of("model.called")[1]
    long = "You keep a tea shop. " + "Be kind to the guests. " * 5
    assert [message["content"] for message in called.request["messages"]] == [long, "How many cups are in the pot?"]
    assert [tool["name"] for tool in called.request["tools"]] == ["look"]
    assert called.request["tool_choice"] == "auto"
    assert called.request["api_request"] == {"model": "some-model-2026"}
    assert called.request["api_messages"][0]["content"] == long
    assert called.parameters == {"temperature": 0.0, "max_tokens": 64}
    assert called.inspect == {"retries": 2}
    assert called.path == ["solver shopkeeper"]
    returned = Imported(STEPS).of("model.returned")[1]
    assert (returned.duration, returned.stop_reason) == (1.25, "tool_calls")
    assert returned.api_response == {"id": "answer-1"}


def test_pools_of_messages_are_put_back() -> None:
    """A model call that refers to messages has them, and so has the raw request."""
    called = Imported(POOLS).of("model.called")
    assert [len(data.request["messages"]) for data in called] == [2, 4, 6]
    assert [len(data.request["api_messages"]) for data in called] == [2, 4, 6]
    assert called[1].request["messages"][3] == {
        "content": "page 1",
        "role": "tool",
        "tool_call_id": "r1",
        "function": "read",
        "id": "p3",
    }
    assert called[0].request["messages"][0]["content"].startswith("A leaflet about tea.")


@pytest.mark.parametrize("place", ["message_pool", "events_data"])
def test_pools_are_found_wherever_a_version_keeps_them(place: str, tmp_path: Path) -> None:
    """In `events_data`, or beside the events."""
    document = json.loads(POOLS.read_text())
    sample = document["samples"][0]
    if place == "message_pool":
        data = sample.pop("events_data")
        sample["message_pool"], sample["call_pool"] = data["messages"], data["calls"]
    called = Imported(write(tmp_path / "log.json", document)).of("model.called")
    assert [len(data.request["messages"]) for data in called] == [2, 4, 6]


def test_a_reference_to_nothing_stays_and_is_counted() -> None:
    """The sample counts as damaged, and a report says what is missing."""
    imported = Imported(POOLS)
    text = "3 references to attachment://00000000000000000000000000000000 lead to nothing and stay as they are"
    assert [data.content["count"] for data in imported.of("report") if data.message == text] == [3]
    assert imported.report.notes[0] == f"samples[0]: {text}"
    assert imported.last().messages[5]["content"] == "attachment://" + "0" * 32


def test_references_beyond_a_pool_are_counted(tmp_path: Path) -> None:
    """What is there is put back; what is no reference is damage."""
    document = json.loads(POOLS.read_text())
    models = [event for event in document["samples"][0]["events"] if event["event"] == "model"]
    models[0]["input_refs"] = [[0, 1], [5, 999_999_999_999]]
    models[1]["input_refs"] = [["a", 2]]
    models[2]["call"]["call_refs"] = "all"
    imported = Imported(write(tmp_path / "log.json", document))
    assert [len(data.request["messages"]) for data in imported.of("model.called")] == [3, 0, 6]
    assert imported.report.damaged == 3
    assert any("999999999992 references to messages" in note for note in imported.report.notes)


def test_a_call_in_flight_stays_open() -> None:
    """A pending event was never brought to its end."""
    calls = Imported(POOLS).last().open_calls.values()
    assert [(call.call, call.name) for call in calls] == [("3.2", "read")]


def test_other_events_are_reports_with_their_kind() -> None:
    """They hold what the event held; a log line has its level and text; an unknown kind is counted."""
    imported = Imported(STEPS)
    told = {data.event: data for data in imported.of("report") if hasattr(data, "event")}
    assert told["info"].content == {"source": "shopkeeper", "data": {"open": True}}
    assert told["sandbox"].message == "sandbox · exec"
    assert (told["logger"].source, told["logger"].level, told["logger"].message) == (
        "log",
        "warning",
        "The pot is full.",
    )
    assert told["score"].content["score"]["value"] == "C"
    assert [row["name"] for row in told["spans"].content] == ["system_message", "shopkeeper", "includes"]
    unknown = [data for data in Imported(POOLS).of("report") if getattr(data, "field", None) == "event teapot"]
    assert unknown[0].content["handle"] == "left"
    limit = next(data for data in Imported(POOLS).of("report") if getattr(data, "event", "") == "sample_limit")
    assert (limit.level, limit.content["limit"]) == ("warning", 60)


def test_what_a_file_has_beside_its_samples_is_in_the_first_run() -> None:
    """Results and statistics belong to no sample."""
    imported = Imported(SPANS)
    kept = [[data.field for data in imported.of("report", run=run) if hasattr(data, "field")] for run in (0, 1)]
    assert kept == [["results", "stats"], []]
    spec = [data.content for data in imported.of("report") if getattr(data, "event", "") == "eval"]
    assert spec[0]["dataset"]["name"] == "teas"


def test_messages_of_a_sample_without_events_are_rounds() -> None:
    """Results find their calls by id; one without a call tells of a call itself; an error is a failure."""
    imported = Imported(MESSAGES)
    assert [(data.call, data.name, data.arguments) for data in imported.of("tool.called")] == [
        ("1.2", "ls", {"path": "/teas"}),
        ("1.3", "ls", {"path": "/cups"}),
        ("2.2", "bash", None),
    ]
    assert [(data.call, data.error.type) for data in imported.of("tool.failed")] == [
        ("1.3", "permission"),
        ("2.2", "unknown"),
    ]
    assert [data.result for data in imported.of("tool.returned")] == ["green\nblack"]
    assert imported.last().payload == {"state": {}, "store": {"listed": True}}
    assert imported.of("model.called")[0].reconstructed


def test_times_are_those_of_the_file_and_order_is_that_of_the_file() -> None:
    """Zones are respected; a run lasts from its start to its end; a file without times has no duration."""
    imported = Imported(SPANS)
    assert imported.events()[0].time.isoformat() == "2026-03-02T08:00:00.100000+00:00"
    assert imported.runs[0].duration == pytest.approx(29.9, abs=0.001)
    assert imported.of("tool.returned")[0].duration == pytest.approx(0.0, abs=10)
    assert Imported(MESSAGES).runs[0].duration is None
    assert Imported(TRANSCRIPT).runs[0].duration == pytest.approx(3, abs=0.001)


def test_two_samples_of_one_id_and_epoch_are_two_runs(tmp_path: Path) -> None:
    """A note says so."""
    document = json.loads(STEPS.read_text())
    document["samples"] *= 2
    imported = Imported(write(tmp_path / "log.json", document))
    assert len(imported.runs) == 2
    assert "samples[0] and samples[1] are both sample 1, epoch 1; each is a run" in imported.report.notes


def test_a_log_without_samples_is_one_run() -> None:
    """It has the error and the results, NaN included, and no rounds."""
    imported = Imported(NO_SAMPLES)
    finished = imported.of("run.finished")[0]
    assert (imported.runs[0].steps, finished.error.type) == (0, "ValueError")
    results = next(data.content for data in imported.of("report") if getattr(data, "field", "") == "results")
    metrics = decode(results)["scores"][0]["metrics"]
    assert str(metrics["accuracy"]["value"]) == "nan"
    assert metrics["bound"]["value"] == float("-inf")


# -- patches that are not as they should be ------------------------------------------------------------------------


def log_of(*events: dict[str, Any], **sample: Any) -> dict[str, Any]:
    init = {"event": "sample_init", "state": {"messages": [], "store": {"cups": [1]}}, "sample": {"input": "tea"}}
    return {
        "eval": {"task": "tea", "model": "m"},
        "samples": [{"id": 1, "epoch": 1, "input": "tea", "messages": [], "events": [init, *events], **sample}],
    }


def store_event(*changes: Any, **fields: Any) -> dict[str, Any]:
    return {"event": "store", "changes": list(changes), **fields}


@pytest.mark.parametrize(
    "changes",
    [
        [{"op": "remove", "path": "/saucers"}],
        [{"op": "replace", "path": "/cups/7", "value": 1}],
        [{"op": "add", "path": "cups", "value": 1}],
        [{"op": "add", "path": 5, "value": 1}],
        [{"op": "pour", "path": "/cups"}],
        [{"op": "test", "path": "/cups", "value": [2]}],
        [{"op": "remove", "path": ""}],
        [{"op": "move", "path": "/cups/0/x", "from": "/cups/0"}],
        ["add"],
        [None],
        "all",
        {"op": "add"},
    ],
    ids=repr,
)
def test_a_patch_that_does_not_apply_is_kept_and_counted(changes: Any, tmp_path: Path) -> None:
    """The payload stays as it was, the report has the event, and the next patch applies."""
    broken = {"event": "store", "changes": changes}
    imported = Imported(
        write(tmp_path / "log.json", log_of(broken, store_event({"op": "add", "path": "/cups/-", "value": 2})))
    )
    assert imported.report.damaged == 1
    assert [data.content for data in imported.of("report") if data.level == "warning"] == [broken]
    assert imported.payloads() == [{"state": {"messages": [], "store": {"cups": [1]}}, "store": {"cups": [1, 2]}}]


def test_a_patch_of_a_file_that_counts_from_the_event_before_applies_too(tmp_path: Path) -> None:
    """Writers other than Inspect patch the store as it stands: within a span, and after what is inside it."""
    span = {"event": "span_begin", "id": "a", "type": "solver", "name": "brew"}
    inner = {"event": "span_begin", "id": "b", "parent_id": "a", "type": "tool", "name": "pour"}
    events = [
        span,
        store_event({"op": "add", "path": "/cups/-", "value": 2}, span_id="a"),
        store_event({"op": "add", "path": "/cups/-", "value": 3}, span_id="a"),
        inner,
        store_event({"op": "add", "path": "/milk", "value": 1}, span_id="b"),
        {"event": "span_end", "id": "b", "span_id": "b"},
        store_event({"op": "replace", "path": "/milk", "value": 2}, span_id="a"),
    ]
    imported = Imported(write(tmp_path / "log.json", log_of(*events)))
    assert imported.report.damaged == 0
    assert [payload["store"] for payload in imported.payloads()] == [
        {"cups": [1, 2]},
        {"cups": [1, 2, 3]},
        {"cups": [1, 2, 3], "milk": 1},
        {"cups": [1, 2, 3], "milk": 2},
    ]


def test_a_store_that_no_patch_explains_is_the_last_change(tmp_path: Path) -> None:
    """The payload ends with the store that the sample has."""
    imported = Imported(write(tmp_path / "log.json", log_of(store={"cups": [1, 2]})))
    assert [(data.request, "no event" in data.reason) for data in imported.of("payload.changed")] == [
        ([{"op": "add", "path": "/store/cups/1", "value": 2}], True)
    ]


def test_copies_of_copies_do_not_fill_the_memory(tmp_path: Path) -> None:
    """A patch whose copies come to more than a million values is refused."""
    doubling = [{"op": "copy", "from": "/cups", "path": "/cups/0"} for _ in range(64)]
    imported = Imported(write(tmp_path / "log.json", log_of(store_event(*doubling))))
    assert (imported.report.damaged, imported.payloads()) == (1, [])


def test_values_beyond_json_are_patched_exactly(tmp_path: Path) -> None:
    """NaN, huge integers, lone surrogates, keys with slashes and data that looks like our own tags."""
    text = '{"nan": NaN, "big": 123456789012345678901, "half": "\\ud800", "$type": "blob", "\\udfff/~": {"a~1": 1}}'
    events = [
        store_event({"op": "add", "path": "/odd", "value": json.loads(text)}),
        store_event({"op": "add", "path": "/odd/half2", "value": "\ud801"}),
        store_event({"op": "replace", "path": "/odd/\udfff~1~0/a~01", "value": 2}),
    ]
    imported = Imported(write(tmp_path / "log.json", log_of(*events)))
    odd = imported.payloads()[-1]["store"]["odd"]
    assert str(odd.pop("nan")) == "nan"
    assert odd == {
        "big": 123456789012345678901,
        "half": "\ud800",
        "$type": "blob",
        "\udfff/~": {"a~1": 2},
        "half2": "\ud801",
    }
    assert imported.report.damaged == 0


def test_secrets_in_a_store_are_redacted_and_the_payload_still_folds(tmp_path: Path) -> None:
    """The patch that adds one and the patches after it apply to what is stored."""
    events = [
        store_event({"op": "add", "path": "/api_key", "value": "hunter2-hunter2-hunter2"}),
        store_event({"op": "add", "path": "/cups/-", "value": 2}),
    ]
    store = MemoryStore()
    import_file(write(tmp_path / "log.json", log_of(*events)), store)
    assert all(b"hunter2-hunter2" not in (row.body or b"") for row in store.rows("run1"))
    payload = dict(states(store.events("run1")))[0].payload
    assert payload["store"]["cups"] == [1, 2]
    assert payload["store"]["api_key"].startswith("[redacted:")


# -- damage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "found", "line"),
    [
        (b'{"eval": {"task": "tea"},\n "samples": [{"id": 1,', "it ends in the middle", 2),
        (b'{"eval": {"task": "tea"}, "samples": [{"id": 1}', "it ends in the middle", 1),
        (b'{"eval": {"task": "tea"},\n\n "samples": [}', "before '}'", 3),
        (b"[]", "it holds a list", None),
        (b"{}", "it holds an object without them", None),
        (b'{"eval": "tea"}', "it holds an object without them", None),
    ],
    ids=lambda value: value[:25] if isinstance(value, str) else None,
)
def test_what_is_no_log_is_refused(content: bytes, found: str, line: int | None, tmp_path: Path) -> None:
    """One message with the file and the line; nothing is stored."""
    path = tmp_path / "log.json"
    path.write_bytes(content)
    store = MemoryStore()
    with pytest.raises(ImportFailed) as caught:
        import_file(path, store, format="inspect")
    assert found in str(caught.value)
    assert (caught.value.path, caught.value.line) == (str(path), line)
    assert store.runs() == []


OPAQUE = ("value", "replaced", "parameters", "packages", "dataset", "metrics")
"""Fields into which the importer does not look."""


def places(value: Any, path: tuple[Any, ...] = (), shape: tuple[Any, ...] = ()) -> Iterator[Any]:
    """The place of every value in a document, and its shape: the keys that lead to it, and the kinds of events."""
    if path:
        yield shape, path
    if isinstance(value, dict) and path[-1:] not in [(name,) for name in OPAQUE]:
        for key, item in value.items():
            yield from places(item, (*path, key), (*shape, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            kind = item.get("event", item.get("op")) if isinstance(item, dict) else None
            yield from places(item, (*path, index), (*shape, "[]", kind))


GONE = object()


def changed(text: str, path: tuple[Any, ...], value: Any) -> Any:
    """The document with another value at a place, or without that place."""
    document = json.loads(text)
    where = document
    for key in path[:-1]:
        where = where[key]
    if value is GONE:
        del where[path[-1]]
    else:
        where[path[-1]] = value
    return document


@pytest.mark.parametrize("value", [GONE, None, 7, "text", [], {}], ids=["gone", "null", "7", "text", "[]", "{}"])
@every_fixture
def test_damage_anywhere_is_counted_or_refused(path: Path, value: Any, tmp_path: Path) -> None:
    """With any one value missing or replaced: runs that fold and counts that add up, or one clear refusal."""
    text = path.read_text(encoding="utf-8")
    file = tmp_path / path.name
    refusals = {}
    for place in dict(places(json.loads(text))).values():
        write(file, changed(text, place, value))
        store = MemoryStore(RedactionRules.off())
        try:
            report = import_file(file, store, format="inspect")
        except ImportFailed as error:
            refusals[place] = str(error)
            assert store.runs() == []
            continue
        assert report.read == report.imported + report.unknown + report.damaged, place
        for run in report.runs:
            assert [state for _, state in states(store.events(run))][-1].ended, place
    assert [text for text in refusals.values() if "fault of agentreplay" in text] == []


texts = st.text(max_size=6) | st.sampled_from(
    ["attachment://" + "a" * 32, "a" * 32, "s", "t", "tool", "add", "/a", "/messages/0", "begin", "end", "\ud800"]
)
keys = st.sampled_from(
    [
        *("event", "events", "id", "name", "type", "span_id", "parent_id", "changes", "op", "path", "value", "from"),
        *("action", "function", "arguments", "result", "error", "input", "output", "choices", "message", "messages"),
        *("role", "content", "tool_calls", "usage", "config", "call", "request", "call_refs", "input_refs", "pending"),
        *("completed", "timestamp", "state", "store", "sample", "metadata", "stop_reason", "failed", "$type"),
    ]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys | texts, inner, max_size=6),
    max_leaves=20,
)
kinds = st.sampled_from(
    ["model", "tool", "state", "store", "span_begin", "span_end", "step", "subtask", "sample_init", "info", "logger"]
)
patches = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]) | anything,
            "path": st.sampled_from(["", "/a", "/a/0", "/a/-", "/b", "/a/b"]) | anything,
        },
        optional={"value": anything, "from": st.sampled_from(["/a", "/b", ""]) | anything},
    )
    | anything,
    max_size=4,
)
names = st.sampled_from(["s", "t", "u", "look"])
event_lists = st.recursive(
    st.lists(st.fixed_dictionaries({"event": kinds | anything}, optional={"changes": patches}) | anything, max_size=3),
    lambda inner: st.lists(
        st.fixed_dictionaries(
            {"event": kinds},
            optional={
                **dict.fromkeys(("id", "name", "span_id", "parent_id", "function"), names | anything),
                **dict.fromkeys(("input", "output", "config", "error", "state", "timestamp", "call"), anything),
                "type": st.sampled_from(["tool", "subtask", "agent"]),
                "changes": patches,
                "events": inner,
                "action": st.sampled_from(["begin", "end"]),
                "pending": st.booleans(),
            },
        ),
        max_size=8,
    ),
    max_leaves=6,
)
samples = st.fixed_dictionaries(
    {"id": anything, "epoch": anything},
    optional={
        "events": event_lists | anything,
        **dict.fromkeys(("messages", "store", "output", "error", "limit", "scores", "attachments"), anything),
        "events_data": st.fixed_dictionaries({"messages": st.lists(anything), "calls": anything}) | anything,
    },
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(listed=st.lists(samples | anything, max_size=3), beside=st.dictionaries(texts, anything, max_size=3))
def test_any_log_is_imported_soundly_or_refused(listed: Any, beside: Any, tmp_path: Path) -> None:
    """Whatever a log holds: runs whose payloads fold and whose counts add up, or one refusal with nothing stored."""
    path = write(tmp_path / "any.json", {**beside, "eval": {"task": "tea"}, "samples": listed})
    store = MemoryStore()
    report = import_file(path, store, format="inspect")
    assert len(report.runs) == max(1, len(listed))
    for run in report.runs:
        assert [state for _, state in states(store.events(run))][-1].ended
    assert report.read == report.imported + report.unknown + report.damaged
    assert store.verify() == []


def test_a_log_is_found_by_what_is_in_it(tmp_path: Path) -> None:
    """Under any name."""
    for path in FILES:
        copy = tmp_path / "something"
        copy.write_bytes(path.read_bytes())
        assert detect(SourceFile.read(copy)).name == "inspect"


def test_long_texts_and_deep_values_are_imported(tmp_path: Path) -> None:
    """Texts of 130,000 characters, images, and nesting that a parser just reads."""
    deep: Any = "tea"
    for _ in range(200):
        deep = [deep]
    image = "data:image/png;base64," + "A" * 130_000
    event = {"event": "info", "data": {"deep": deep, "long": "é<script>\x1b[31m" * 10_000, "image": image}}
    imported = Imported(write(tmp_path / "log.json", log_of(event, store={"cups": [1]})))
    assert imported.report.damaged == 0
    told = next(data for data in imported.of("report") if getattr(data, "event", "") == "info")
    assert decode(told.content) == {"data": event["data"]}


def test_a_run_of_agents_that_talk_in_turn_keeps_the_conversation_of_the_sample(tmp_path: Path) -> None:
    """A model call with a conversation that is not the sample's leaves the run's messages alone."""

    def model(*messages: str, answer: str) -> dict[str, Any]:
        said = {"choices": [{"message": {"role": "assistant", "content": answer}}]}
        return {
            "event": "model",
            "model": "m",
            "input": [{"role": "user", "content": m} for m in messages],
            "output": said,
        }

    events = [model("tea?", answer="yes"), model("is yes right?", answer="it is"), model("tea?", "sure?", answer="no")]
    final = [{"role": "user", "content": "tea?"}, {"role": "assistant", "content": "no"}]
    imported = Imported(write(tmp_path / "log.json", log_of(*events, messages=final)))
    said = [[message["content"] for message in state.messages] for state in imported.states().values()]
    assert said == [["tea?"], ["tea?", "yes"], ["tea?", "yes"], ["tea?", "no"]]
    assert [data.why for data in imported.of("messages.replaced")] == [
        "the conversation that this model call was made with",
        "the conversation that the sample ended with",
    ]
