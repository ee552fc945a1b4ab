"""Inspect AI's evaluation logs: every file is read twice, by the importer and independently."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agentreplay.recorder.importers import detect, import_file
from agentreplay.recorder.importers.source import SourceFile
from agentreplay.recorder.values import decode
from inspect_logs import (
    FILES,
    MESSAGES,
    NO_SAMPLES,
    POOLS,
    SPANS,
    STEPS,
    TRANSCRIPT,
    Imported,
    all_events,
    calls_in,
    documents_in,
    events_in,
    every_file,
    log_of,
    payloads_in,
    put_back,
    rounds_in,
    write,
)

# -- laws that hold for every file -----------------------------------------------------------------------------


@every_file
def test_each_sample_and_epoch_is_a_run(path: Path) -> None:
    """As many runs as samples, in order; a log without samples is one run."""
    imported, samples = Imported(path), documents_in(path)
    named = [(source["sample"], source["epoch"]) for source in sources(imported) if samples]
    assert named == [(sample["id"], sample["epoch"]) for sample in samples]
    assert len(imported.runs) == max(1, len(samples))
    assert imported.report.format == "inspect"


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


def sources(imported: Imported) -> list[dict[str, Any]]:
    return [imported.of("run.started", run=number)[0].source for number in range(len(imported.runs))]


def references(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value.startswith(("attachment://", "tc://")):
        yield value.split("://", 1)[1]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        yield from references(item)


def test_a_log_is_found_by_what_is_in_it(tmp_path: Path) -> None:
    """Under any name."""
    for path in FILES:
        copy = tmp_path / "something"
        copy.write_bytes(path.read_bytes())
        assert detect(SourceFile.read(copy)).name == "inspect"


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


def test_a_sample_that_was_cancelled_did_not_fail(tmp_path: Path) -> None:
    """The error of such a sample is the cancellation; the last round ends so, too."""
    document = json.loads(SPANS.read_text())
    document["samples"][1]["error"]["message"] = "CancelledError('Cancelled via cancel scope')"
    imported = Imported(write(tmp_path / "log.json", document))
    finished = imported.of("run.finished", run=1)[0]
    assert (finished.status, finished.stop_reason, finished.error.type) == ("cancelled", "cancelled", "CancelledError")
    assert imported.of("round.finished", run=1)[-1].outcome == "cancelled"


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
    """They hold what the event held; what a logger said has its level and text; an unknown kind is counted."""
    imported = Imported(STEPS)
    told = {data.event: data for data in imported.of("report") if hasattr(data, "event")}
    assert told["info"].content == {"source": "shopkeeper", "data": {"open": True}}
    assert told["sandbox"].message == "sandbox · exec · count cups"
    assert (told["logger"].source, told["logger"].level, told["logger"].message) == (
        "log",
        "warning",
        "The pot is full.",
    )
    assert (told["score"].message, told["score"].content["score"]["value"]) == ("score · C", "C")
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
