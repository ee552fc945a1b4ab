"""SWE-agent and mini-swe-agent: every file is read twice, by the importer and independently here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agentreplay.recorder.errors import ImportFailed
from agentreplay.recorder.event_codec import EPOCH
from agentreplay.recorder.events import Event
from agentreplay.recorder.importers import ImportReport, import_file
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.redaction import RedactionRules
from agentreplay.replay.timeline import states

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "fixtures" / "swe_agent"
SAMPLES = ROOT.parent / "shared" / "data" / "real_runs"
FILES = sorted(
    [
        *FIXTURES.glob("*.traj*"),
        *(SAMPLES / "swe-agent").glob("*.traj*"),
        *(SAMPLES / "mini-swe-agent").glob("*.traj*"),
    ]
)
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
FENCE = re.compile(r"```mswea_bash_command\n(.*?)\n```", re.DOTALL)


class Imported:
    """A file imported into a store that redacts nothing, and its states."""

    def __init__(self, path: Path, format: str | None = None) -> None:
        self.store = MemoryStore(RedactionRules.off())
        self.report: ImportReport = import_file(path, self.store, format)
        self.run = self.store.run(self.report.runs[0])
        self.events: list[Event] = list(self.store.events(self.run))
        self.states = dict(states(self.events))

    def of(self, *kinds: str, round: int | None = None) -> list[Any]:
        return [event.data for event in self.events if event.kind in kinds and (round is None or event.round == round)]

    @property
    def last(self) -> Any:
        return self.states[max(self.states)]


def messages_in(document: Any) -> list[Any]:
    return document if isinstance(document, list) else document.get("history") or document.get("messages") or []


def steps_in(document: Any) -> int:
    if isinstance(document, dict) and "trajectory" in document:
        return len(document["trajectory"])
    return sum(message["role"] == "assistant" for message in messages_in(document))


def calls_in(document: Any) -> list[str]:
    """The commands or names of the tool calls, in order."""
    if isinstance(document, dict) and "trajectory" in document:
        return [entry["action"] for entry in document["trajectory"] if entry["action"]]
    found = []
    for message in messages_in(document):
        if message["role"] != "assistant":
            continue
        if message.get("tool_calls"):
            found += [call["function"]["name"] for call in message["tool_calls"]]
        else:
            blocks = FENCE.findall(message["content"])
            found += blocks if len(blocks) == 1 else []
    return found


@every_file
def test_steps_and_tool_calls_equal_an_independent_count(path: Path) -> None:
    """A run has as many rounds and tool calls as the file has steps and calls."""
    document = json.loads(path.read_text(encoding="utf-8"))
    imported = Imported(path)
    assert max(imported.states) == steps_in(document) > 0
    assert len(imported.of("round.finished")) == steps_in(document)
    assert len(imported.of("tool.called")) == len(calls_in(document)) > 0
    assert imported.run.steps == steps_in(document)


@every_file
def test_after_each_step_the_payload_is_the_state_of_its_entry(path: Path) -> None:
    """`state_at(run, i).payload` equals the state in entry i of the file, parsed where it is a text."""
    document = json.loads(path.read_text(encoding="utf-8"))
    imported = Imported(path)
    entries = document.get("trajectory", []) if isinstance(document, dict) else []
    wanted = [json.loads(entry["state"]) if isinstance(entry["state"], str) else entry["state"] for entry in entries]
    assert [imported.states[step].payload for step in range(1, len(wanted) + 1)] == wanted


@every_file
def test_every_message_of_the_conversation_is_in_the_run_in_order(path: Path) -> None:
    """The conversation at the end of the run is the one in the file."""
    document = json.loads(path.read_text(encoding="utf-8"))
    assert Imported(path).last.messages == messages_in(document)


@every_file
def test_every_observation_is_the_result_of_its_call(path: Path) -> None:
    """What an action gave stands in the log beside the call that gave it."""
    document = json.loads(path.read_text(encoding="utf-8"))
    imported = Imported(path)
    for number, entry in enumerate(document.get("trajectory", []) if isinstance(document, dict) else [], 1):
        results = [data.result for data in imported.of("tool.returned", round=number)]
        assert results == ([entry["observation"]] if entry["action"] else [])


@every_file
def test_every_record_is_counted_once(path: Path) -> None:
    """Records are the steps, the messages and the other top-level fields; each was imported, unknown or damaged."""
    document = json.loads(path.read_text(encoding="utf-8"))
    lists = ("trajectory", "history", "messages")
    beside = [] if isinstance(document, list) else [name for name in document if name not in lists]
    steps = len(document.get("trajectory", [])) if isinstance(document, dict) else 0
    report = Imported(path).report
    assert report.read == steps + len(messages_in(document)) + len(beside)
    assert report.read == report.imported + report.unknown + report.damaged
    assert report.damaged == 0


@every_file
def test_an_imported_run_is_sound(path: Path) -> None:
    """Its chain verifies, it is finished, and it says where it comes from."""
    imported = Imported(path)
    started = imported.of("run.started")[0]
    assert imported.store.verify() == []
    assert imported.events[-1].kind == "run.finished"
    assert (imported.run.origin, started.origin) == ("imported", "imported")
    assert started.source["file"] == path.name
    assert started.source["format"] == imported.report.format
    assert started.source["sha256"].startswith("sha256:")


def test_a_state_taken_before_the_action_changes_the_payload_before_the_model_is_asked() -> None:
    """In old files a change stands at the start of the next round, caused by the call of the round before."""
    imported = Imported(FIXTURES / "state_as_text_submitted.traj")
    changes = [event for event in imported.events if event.kind == "payload.changed"]
    assert [(event.round, event.data.source) for event in changes] == [(3, {"kind": "action", "call": "2.2"})]
    assert changes[0].data.request == [{"op": "replace", "path": "/open_file", "value": "/teapot/teapot.py"}]
    kinds = [event.kind for event in imported.events if event.round == 3]
    assert kinds[:3] == ["round.started", "payload.changed", "model.called"]
    assert any("before its action" in note for note in imported.report.notes)
    assert any("before its action" in str(data.message) for data in imported.of("report"))


def test_a_state_taken_after_the_action_changes_the_payload_by_that_action() -> None:
    """In newer files a change names the call of its own round."""
    imported = Imported(FIXTURES / "state_as_object_exit_cost.traj")
    changes = [event for event in imported.events if event.kind == "payload.changed"]
    assert [(event.round, event.data.source["call"]) for event in changes] == [(2, "2.2"), (3, "3.2")]
    assert not any("before its action" in note for note in imported.report.notes)


def test_the_payload_at_the_start_is_what_the_opening_says() -> None:
    """The footer of the first prompt names the open file and the folder."""
    imported = Imported(FIXTURES / "state_as_object_exit_cost.traj")
    assert imported.states[0].payload == {"open_file": "n/a", "working_dir": "/teapot"}
    assert Imported(FIXTURES / "query_autosubmitted.traj").states[0].payload == {}


def test_a_tool_call_has_the_name_and_arguments_that_the_model_gave() -> None:
    """With function calling those are the call's; without, the first word of the action and the whole of it."""
    calls = Imported(FIXTURES / "state_as_object_exit_cost.traj").of("tool.called")
    assert [(call.name, call.arguments, call.tool_call) for call in calls] == [
        ("bash", {"command": "ls -F"}, "call_1"),
        ("open", {"path": "teapot.py"}, "call_2"),
        ("bash", {"command": "cd cups"}, "call_3"),
    ]
    decided = Imported(FIXTURES / "state_as_object_exit_cost.traj").of("step.decided")[1].decision
    assert decided["actions"] == [{"name": "open", "params": {"path": "teapot.py"}, "command": 'open "teapot.py"'}]
    calls = Imported(FIXTURES / "state_as_text_submitted.traj").of("tool.called")
    assert [call.name for call in calls] == ["ls", "open", "edit", "submit"]
    assert calls[0].arguments == {"command": "ls\n"}
    assert calls[0].tool_call is None


def test_a_duration_is_the_execution_time() -> None:
    """Seconds, as the file has them."""
    returned = Imported(FIXTURES / "state_as_object_exit_cost.traj").of("tool.returned")
    assert [data.duration for data in returned] == [0.11, 0.13, 0.05]


def test_a_request_is_what_the_step_says_was_sent() -> None:
    """`messages` ends before the answer; shortened observations stay as short as they were sent."""
    called = Imported(FIXTURES / "state_as_object_exit_cost.traj").of("model.called")
    assert [len(data.request["messages"]) for data in called] == [2, 4, 6]
    assert called[2].request["messages"][3]["content"] == "Old environment output: (1 lines omitted)"
    assert [getattr(data, "reconstructed", False) for data in called] == [False, False, False]
    assert (called[0].model, called[0].parameters) == ("some-model", {"temperature": 0.0, "top_p": 1.0})


def test_a_request_put_together_from_the_history_says_so() -> None:
    """Old files do not have the request; what stands in its place is marked."""
    called = Imported(FIXTURES / "state_as_text_submitted.traj").of("model.called")
    assert [len(data.request["messages"]) for data in called] == [3, 5, 7, 9]
    assert [data.reconstructed for data in called] == [True, True, True, True]


def test_an_answer_that_was_asked_again_is_a_round_of_its_own() -> None:
    """It has no place in the history, so what was said next goes to the round that was answered."""
    imported = Imported(FIXTURES / "query_autosubmitted.traj")
    decisions = [data.decision for data in imported.of("step.decided")]
    assert [decision["step"] for decision in decisions] == ["Retry", "Actions", "Success"]
    assert [len(imported.of("message.added", round=number)) for number in range(4)] == [2, 0, 2, 2]
    assert len(imported.of("model.called", round=2)[0].request["messages"]) == 4
    assert imported.of("model.called", round=3) == []


def test_what_has_no_place_becomes_a_report() -> None:
    """Configuration, fields of a step that are unknown, an observation without an action: all are kept whole."""
    imported = Imported(FIXTURES / "query_autosubmitted.traj")
    kept = {data.field: data.content for data in imported.of("report") if hasattr(data, "field")}
    assert kept == {
        "replay_config": None,
        "environment": "main",
        "info.swe_agent_version": "1.1.0",
        "trajectory[].reasoning_content": "How many are there?",
        "trajectory[].extra_info": {"samples": 2},
        "trajectory[].observation": "Exited (autosubmitted)",
    }
    assert imported.report.unknown == 2
    assert all(data.source == "importer" for data in imported.of("report"))


@pytest.mark.parametrize(
    ("name", "status", "step", "stop_reason"),
    [
        ("state_as_text_submitted.traj", "completed", "Success", "submitted"),
        ("state_as_object_exit_cost.traj", "failed", "Failed", "exit_cost"),
        ("query_autosubmitted.traj", "completed", "Success", "submitted (exit_context)"),
        ("history_unanswered_call.traj", "failed", "Failed", "unknown"),
        ("mini_list_submitted.traj.json", "completed", "Success", "Submitted"),
        ("mini_object_limits_exceeded.traj.json", "failed", "Failed", "LimitsExceeded"),
    ],
)
def test_the_exit_status_ends_the_run(name: str, status: str, step: str, stop_reason: str) -> None:
    """It decides the status, the last decision and the outcome of the last round, and is kept in its own words."""
    imported = Imported(FIXTURES / name)
    finished = imported.of("run.finished")[0]
    decision = imported.of("step.decided")[-1].decision
    assert (finished.status, finished.stop_reason) == (status, stop_reason)
    assert decision["step"] == step
    assert imported.of("round.finished")[-1].outcome == {"completed": "complete", "failed": "failed"}[status]
    assert imported.last.status == status


def test_the_end_has_the_tokens_the_cost_and_what_was_submitted() -> None:
    """Totals of the whole run, from `info`."""
    finished = Imported(FIXTURES / "state_as_text_submitted.traj").of("run.finished")[0]
    assert finished.metrics["accumulatedUsage"] == {"inputTokens": 1200, "outputTokens": 85, "totalTokens": 1285}
    assert (finished.metrics["cost"], finished.metrics["cycleCount"]) == (0.02, 4)
    assert finished.metrics["modelStats"]["api_calls"] == 4
    assert finished.value.startswith("\ndiff --git a/teapot.py")


def test_a_conversation_alone_has_its_payload_in_the_footers() -> None:
    """The open file and the folder are read from the end of each observation."""
    imported = Imported(FIXTURES / "history_unanswered_call.traj")
    opened = [state.payload["open_file"] for state in imported.states.values()]
    assert opened == ["n/a", "n/a", "/teapot/teapot.py", "/teapot/teapot.py", "/teapot/teapot.py"]


def test_a_call_without_an_answer_stays_open() -> None:
    """The last call of an interrupted conversation is seen as what was in flight."""
    imported = Imported(FIXTURES / "history_unanswered_call.traj")
    assert [(call.call, call.name) for call in imported.last.open_calls.values()] == [("4.2", "bash")]


def test_arguments_that_are_no_json_are_kept_as_text() -> None:
    """The raw text stands beside the call, and the id that another call had before is no confusion."""
    imported = Imported(FIXTURES / "history_unanswered_call.traj")
    call = imported.of("tool.called", round=3)[0]
    assert (call.arguments, call.raw) == (None, '{"search": "cups - 1", "replace": ')
    assert imported.of("tool.returned", round=3)[0].result.startswith("The arguments are not valid JSON.")
    assert [data.tool_call for data in imported.of("tool.called")] == ["call_1", "call_2", "call_2", "call_3"]


def test_answers_find_their_calls_by_id_and_by_place(tmp_path: Path) -> None:
    """Two calls answered in the other order; then two calls of one id, where the place decides."""

    def call(id: str, name: str) -> dict[str, Any]:
        return {"id": id, "function": {"name": name, "arguments": "{}"}}

    def answer(id: str, text: str) -> dict[str, Any]:
        return {"role": "tool", "content": text, "tool_call_ids": [id]}

    history = [
        {"role": "user", "content": "go", "message_type": "observation"},
        {"role": "assistant", "content": "", "tool_calls": [call("a", "first"), call("b", "second")]},
        answer("b", "of second"),
        answer("a", "of first"),
        {"role": "assistant", "content": "", "tool_calls": [call("a", "third"), call("a", "fourth")]},
        answer("a", "of third"),
        answer("unheard of", "of fourth"),
        {"role": "user", "content": "and nothing more"},
    ]
    path = tmp_path / "pairs.traj"
    path.write_text(json.dumps({"history": history}))
    imported = Imported(path)
    names = {data.call: data.name for data in imported.of("tool.called")}
    results = {names[data.call]: data.result for data in imported.of("tool.returned")}
    assert results == {"first": "of first", "second": "of second", "third": "of third", "fourth": "of fourth"}
    assert len(imported.last.messages) == 8


def test_a_command_is_the_one_fenced_block_of_an_answer() -> None:
    """An answer with two blocks was refused by the agent, so no call is recorded for it."""
    imported = Imported(FIXTURES / "mini_list_submitted.traj.json")
    assert [data.arguments["command"] for data in imported.of("tool.called")] == [
        "ls",
        "sed -i 's/cups - 1/cups/' teapot.py",
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff",
    ]
    assert imported.of("step.decided", round=2)[0].decision["step"] == "Retry"
    assert imported.of("step.decided", round=1)[0].decision["reasoning"] == "THOUGHT: I look around."
    assert imported.of("run.finished")[0].value == "diff --git a/teapot.py b/teapot.py\n"


def test_a_file_that_fences_its_commands_as_bash_is_read_so(tmp_path: Path) -> None:
    """The first versions marked a command as a block of bash."""
    path = tmp_path / "old.traj.json"
    path.write_text(json.dumps([{"role": "assistant", "content": "I look.\n```bash\nls\n```"}]))
    assert Imported(path).of("tool.called")[0].arguments == {"command": "ls"}


def test_times_models_and_tokens_are_those_of_the_file() -> None:
    """Newer mini-swe-agent files have a time and a usage per message."""
    imported = Imported(FIXTURES / "mini_object_limits_exceeded.traj.json")
    times = {
        (event.kind, event.round): (event.time - EPOCH).total_seconds()
        for event in imported.events
        if event.kind in ("model.returned", "tool.returned")
    }
    assert times == {
        ("model.returned", 1): 1767225600.5,
        ("tool.returned", 1): 1767225601.0,
        ("model.returned", 2): 1767225603.0,
        ("tool.returned", 2): 1767225603.25,
    }
    assert [data.duration for data in imported.of("tool.returned")] == [0.5, 0.25]
    assert [data.model for data in imported.of("model.called")] == ["some-model-2026", "some-model-2026"]
    assert imported.last.usage == {"prompt_tokens": 250, "completion_tokens": 22, "total_tokens": 272}
    assert imported.of("run.started")[0].source["times"] == "recorded"


# -- damage --------------------------------------------------------------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value in a document."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


GONE = object()


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of the document with another value at a place, or without that place."""
    copy = json.loads(json.dumps(document))
    where = copy
    for key in path[:-1]:
        where = where[key]
    if value is GONE:
        del where[path[-1]]
    else:
        where[path[-1]] = value
    return copy


@pytest.mark.parametrize("value", [GONE, None, 7, "text", [], {}], ids=["gone", "null", "7", "text", "[]", "{}"])
@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.traj*")), ids=lambda path: path.name)
def test_damage_anywhere_is_counted_or_refused(path: Path, value: Any, tmp_path: Path) -> None:
    """With any one value missing or replaced: an import that folds and adds up, or one clear refusal."""
    document = json.loads(path.read_text(encoding="utf-8"))
    file = tmp_path / path.name
    refusals = {}
    for place in places(document):
        damaged = changed(document, place, value)
        file.write_text(json.dumps(damaged))
        store = MemoryStore(RedactionRules.off())
        try:
            report = import_file(file, store)
        except ImportFailed as error:
            refusals[place] = str(error)
            assert store.runs() == []
            continue
        reached = dict(states(store.events(report.runs[0])))
        assert report.read == report.imported + report.unknown + report.damaged, place
        trajectory = damaged.get("trajectory") if isinstance(damaged, dict) else None
        if isinstance(trajectory, list):
            assert max(reached) == len(trajectory), place
    assert [text for text in refusals.values() if "fault of agentreplay" in text] == []


def broken(**changes: Any) -> dict[str, Any]:
    """A trajectory of one step, with changes."""
    entry = {"action": "ls", "observation": "teapot.py", "response": "I look.", "thought": "I look.", "state": "{}\n"}
    return {"trajectory": [{**entry, **changes}], "history": [], "info": {"exit_status": "submitted"}}


@pytest.mark.parametrize(
    ("document", "complaint", "content"),
    [
        (broken(action=5), "trajectory[0]: `action` is no text", 5),
        (broken(response={"a": 1}), "trajectory[0]: `response` is no text", {"a": 1}),
        (broken(execution_time="soon"), "trajectory[0]: `execution_time` is no number", "soon"),
        (broken(messages="none"), "trajectory[0]: the messages that were sent are no list", "none"),
        (broken(state="{not json"), "trajectory[0]: `state` is not JSON; the payload is its text", "{not json"),
        (
            broken(state=[1]),
            "trajectory[0]: `state` is no object; the payload is the value as it stands",
            [1],
        ),
        ({"trajectory": [5], "info": {}}, "trajectory[0] is no object", 5),
        ({"trajectory": [{"cup": 1}], "info": {}}, "trajectory[0] has none of the fields of a step", {"cup": 1}),
    ],
)
def test_a_damaged_step_is_counted_and_kept(document: Any, complaint: str, content: Any, tmp_path: Path) -> None:
    """The step is still a round, the report says what is wrong and holds it, and the step counts as damaged."""
    path = tmp_path / "damaged.traj"
    path.write_text(json.dumps(document))
    imported = Imported(path)
    assert imported.report.damaged == 1
    assert [(data.content, data.level) for data in imported.of("report") if data.message == complaint] == [
        (content, "warning")
    ]
    assert max(imported.states) == 1


def test_a_state_that_is_no_json_is_kept_as_its_text(tmp_path: Path) -> None:
    """The payload is then the text itself."""
    path = tmp_path / "damaged.traj"
    path.write_text(json.dumps(broken(state="{not json")))
    assert Imported(path).states[1].payload == "{not json"


def test_a_file_without_steps_is_a_run_without_rounds(tmp_path: Path) -> None:
    """An empty trajectory imports, and its messages are in the run."""
    path = tmp_path / "empty.traj"
    path.write_text(json.dumps({"trajectory": [], "history": [{"role": "user", "content": "go"}], "info": {}}))
    imported = Imported(path)
    assert (max(imported.states), imported.run.steps, len(imported.last.messages)) == (0, 0, 1)
    assert (imported.report.read, imported.report.imported) == (2, 2)


def test_a_history_that_fits_no_step_stands_at_the_end(tmp_path: Path) -> None:
    """Messages that cannot be matched are not lost, and no request is made of them."""
    document = broken()
    document["history"] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "something else"},
        {"role": "user", "content": "what?"},
    ]
    path = tmp_path / "other.traj"
    path.write_text(json.dumps(document))
    imported = Imported(path)
    assert [len(imported.of("message.added", round=number)) for number in (0, 1)] == [1, 2]
    assert imported.of("model.called")[0].request is None
    assert any("cannot be matched" in note for note in imported.report.notes)


def test_one_strange_answer_does_not_lose_the_others(tmp_path: Path) -> None:
    """Where one answer of the history fits no step, the later ones still find theirs."""
    document = json.loads((FIXTURES / "state_as_text_submitted.traj").read_text())
    document["trajectory"][1]["response"] = document["trajectory"][1]["thought"] = "changed afterwards"
    path = tmp_path / "changed.traj"
    path.write_text(json.dumps(document))
    imported = Imported(path)
    assert [data.request is not None for data in imported.of("model.called")] == [True, False, True, True]
    assert imported.last.messages == document["history"]
