"""Importing: formats are found, files are imported entirely or not at all, once, and nothing fails without a word."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from agentreplay.recorder.errors import ImportFailed, StoreError
from agentreplay.recorder.event_codec import encode_event
from agentreplay.recorder.events import Event, new_event
from agentreplay.recorder.importers import FORMATS, IMPORTERS, detect, import_file
from agentreplay.recorder.importers.builder import RunBuilder
from agentreplay.recorder.importers.importing import Importing
from agentreplay.recorder.importers.source import SourceFile, clean_text, seconds_of, time_of
from agentreplay.recorder.importers.swe_frame import INFO_FIELDS
from agentreplay.recorder.importers.swe_steps import ENTRY_FIELDS
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.redaction import RedactionRules
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore, RunInfo, Summary, new_uid
from agentreplay.recorder.values import decode
from agentreplay.replay.timeline import states
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "swe_agent"
STEPS = FIXTURES / "state_as_text_submitted.traj"
LIST = FIXTURES / "mini_list_submitted.traj.json"
START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EventStore]:
    opened: EventStore = MemoryStore() if request.param == "memory" else SqlStore(f"sqlite:///{tmp_path / 'store.db'}")
    yield opened
    opened.close()


def step(**fields: Any) -> dict[str, Any]:
    return {"action": "ls", "observation": "tea", "response": "I look.", "thought": "I look.", "state": {}, **fields}


def write(path: Path, document: Any, **options: Any) -> Path:
    path.write_text(json.dumps(document, **options))
    return path


def events_of(store: EventStore, run: str = "run1") -> list[Event]:
    return list(store.events(run))


# -- which format --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.traj*")), ids=lambda path: path.name)
def test_the_format_is_found_from_the_content(path: Path, tmp_path: Path) -> None:
    """A file is known by what is in it, under any name."""
    renamed = tmp_path / "something"
    renamed.write_bytes(path.read_bytes())
    expected = "mini-swe-agent" if path.name.startswith("mini_") else "swe-agent"
    assert detect(SourceFile.read(renamed)).name == expected


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        7,
        "text",
        None,
        {"trajectory": "none"},
        [{"task_id": 1, "traj": []}],
        {"messages": []},
        {"history": [{}]},
    ],
    ids=str,
)
def test_a_file_of_no_known_format_is_refused_with_what_is_known(document: Any, tmp_path: Path) -> None:
    """The message names the file, what it holds, every format with what it looks for, and the way to name one."""
    path = write(tmp_path / "other.json", document)
    with pytest.raises(ImportFailed) as caught:
        import_file(path, MemoryStore())
    message = str(caught.value)
    assert caught.value.path == str(path)
    assert "its format is not recognised" in message
    assert all(f"{name}: {IMPORTERS[name].reads}" in message for name in FORMATS)
    assert "--format" in message


def test_a_named_format_is_not_guessed(tmp_path: Path) -> None:
    """`format=` forces an importer, which then says what it misses."""
    path = write(tmp_path / "chat.json", {"messages": [{"role": "user", "content": "go"}]})
    assert import_file(path, MemoryStore(), format="mini-swe-agent").imported == 1
    with pytest.raises(ImportFailed) as caught:
        import_file(path, MemoryStore(), format="swe-agent")
    assert "neither a list `trajectory` nor `history`" in str(caught.value)
    with pytest.raises(ImportFailed) as caught:
        import_file(path, MemoryStore(), format="cobol")
    assert 'there is no format "cobol"; expected one of cassette, mini-swe-agent, swe-agent' in str(caught.value)


# -- what cannot be read -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "found", "line"),
    [
        (b"", "it is empty", None),
        (b" \n\n", "it is empty", None),
        (b"once upon a time", "Expecting value at column 1, before 'once upon a time'", 1),
        (b'{"trajectory": [\n  {"action": "ls",\n', "it ends in the middle", 3),
        (b'{"trajectory": [\n  {"action": "l', "Unterminated string", 2),
        (b'{"trajectory": [\n  {action: 1}]}', "property name", 2),
        (b'{"a": 1}\n{"b": 2}\n', "Extra data", 2),
        (b'{"a": "\xff\xfe', "Unterminated string", 1),
        (b"\xff\xfe\x00", "it is broken utf-16 text", None),
        (b"[" * 200_000, "it nests deeper than this Python reads", None),
        (b"[" * 200_000 + b"]" * 200_000, "it nests deeper than this Python reads", None),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number cannot be read", None),
    ],
    ids=lambda value: None if isinstance(value, bytes) else str(value)[:20],
)
def test_what_is_not_json_is_refused_where_it_breaks(
    content: bytes, found: str, line: int | None, tmp_path: Path
) -> None:
    """The message says what was found, what was expected and the line; nothing is stored."""
    path = tmp_path / "broken.traj"
    path.write_bytes(content)
    store = MemoryStore()
    for format in (None, "mini-swe-agent", "swe-agent"):
        with pytest.raises(ImportFailed) as caught:
            import_file(path, store, format)
        assert found in str(caught.value)
        assert "; expected " in str(caught.value)
        assert (caught.value.path, caught.value.line) == (str(path), line)
    assert store.runs() == []


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A missing file, a folder, a device, a path that no file can have."""
    store = MemoryStore()
    refused = {}
    for path in (tmp_path / "missing.traj", tmp_path, "/dev/null", "nul\0character"):
        with pytest.raises(ImportFailed) as caught:
            import_file(path, store)
        refused[str(path)] = str(caught.value)
    found = [text.partition(": ")[2].partition(";")[0] for text in refused.values()]
    assert found == [
        "it cannot be read (No such file or directory)",
        "it is a folder",
        "it is a device",
        "it cannot be read (embedded null byte)",
    ]


# -- what a log can hold, it keeps ---------------------------------------------------------------------------------


def test_values_beyond_json_are_kept_exactly(tmp_path: Path) -> None:
    """NaN, infinities, huge integers, lone surrogates and NUL come back from the log as the file has them."""
    text = '{"nan": NaN, "inf": -Infinity, "big": 123456789012345678901234567890, "half": "\\ud800", "nul": "\\u0000"}'
    path = tmp_path / "values.traj"
    path.write_text(f'{{"trajectory": [{{"action": "ls", "observation": "", "state": {text}}}], "info": {{}}}}')
    store = MemoryStore()
    report = import_file(path, store)
    payload = dict(states(store.events(report.runs[0])))[1].payload
    assert (report.imported, report.damaged) == (2, 0)
    assert payload.pop("nan") != payload.get("nan")
    assert payload == {
        "inf": float("-inf"),
        "big": 123456789012345678901234567890,
        "half": "\ud800",
        "nul": "\0",
    }


def test_data_that_looks_like_our_own_tags_stays_data(tmp_path: Path) -> None:
    """A file cannot smuggle in a value that only looks like one of ours."""
    state = {"$type": "blob", "hash": "sha256:0", "size": 1}
    document = {
        "trajectory": [step(state=state, observation=state, response=None, extra_info=state)],
        "history": [{"role": "assistant", "content": "I look.", "$type": "messages", "hash": "x", "count": 1}],
    }
    store = MemoryStore()
    import_file(write(tmp_path / "tags.traj", document), store)
    reached = dict(states(store.events("run1")))[1]
    assert reached.payload == state
    assert reached.messages == document["history"]


def test_bytes_that_are_no_text_are_kept_and_counted(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 become lone surrogates, which say which bytes they were."""
    path = tmp_path / "latin.traj"
    path.write_bytes(json.dumps({"trajectory": [step(observation="caf@")]}).encode().replace(b"@", b"\xe9"))
    store = MemoryStore()
    report = import_file(path, store)
    results = [decode(event.data.result) for event in events_of(store) if event.kind == "tool.returned"]
    assert report.damaged == 1
    assert "1 bytes of the file are not UTF-8" in report.notes[0]
    assert [result.encode("utf-8", "surrogateescape") for result in results] == [b"caf\xe9"]


def test_a_value_hidden_by_a_second_key_is_kept_and_counted(tmp_path: Path) -> None:
    """Of a key that stands twice the last value counts; the other one is in a report."""
    path = tmp_path / "twice.traj"
    path.write_text('{"trajectory": [{"action": "ls", "observation": "one", "observation": "two", "state": {}}]}')
    store = MemoryStore()
    report = import_file(path, store)
    assert (report.read, report.imported, report.damaged) == (2, 1, 1)
    kept = [event.data for event in events_of(store) if event.kind == "report"]
    assert [(data.content, data.level) for data in kept] == [("one", "warning")]
    assert 'the key "observation" stands twice' in kept[0].message
    assert [event.data.result for event in events_of(store) if event.kind == "tool.returned"] == ["two"]


def test_encodings_of_json_are_read(tmp_path: Path) -> None:
    """UTF-8 with a byte order mark, and UTF-16."""
    text = json.dumps({"trajectory": [step(observation="thé")]}, ensure_ascii=False)
    for encoding in ("utf-8-sig", "utf-16", "utf-16-be", "utf-32"):
        path = tmp_path / encoding
        path.write_bytes(text.encode(encoding))
        store = MemoryStore()
        assert import_file(path, store).damaged == 0
        assert [event.data.result for event in events_of(store) if event.kind == "tool.returned"] == ["thé"]


def test_huge_and_deep_values_are_imported(tmp_path: Path) -> None:
    """Texts of 130,000 characters, and nesting that a parser just reads."""
    deep: Any = "tea"
    for _ in range(300):
        deep = [deep]
    long = "é<script>\x1b[31m" * 10_000
    document = {"trajectory": [step(observation=long, state={"deep": deep}, response=long)], "info": {"more": deep}}
    store = MemoryStore()
    report = import_file(write(tmp_path / "huge.traj", document), store)
    assert report.damaged == 0
    assert dict(states(store.events("run1")))[1].payload == {"deep": deep}
    assert [event.data.result for event in events_of(store) if event.kind == "tool.returned"] == [long]


def test_names_that_are_no_proper_text_are_written_out(tmp_path: Path) -> None:
    """A lone surrogate in a tool's name, an exit status or a file's name is shown as an escape."""
    path = tmp_path / "caf\udce9.traj"
    calls = [{"id": "\ud800", "function": {"name": "l\ud800s", "arguments": "\ud800"}}]
    write(
        path,
        {
            "history": [{"role": "assistant", "content": "\ud800", "tool_calls": calls}],
            "info": {"exit_status": "\ud800"},
        },
    )
    store = MemoryStore()
    import_file(path, store)
    events = events_of(store)
    call = next(event.data for event in events if event.kind == "tool.called")
    assert (call.name, call.raw, call.tool_call) == ("l\\ud800s", "\\ud800", "\\ud800")
    assert events[-1].data.stop_reason == "\\ud800"
    assert events[0].data.source["file"] == "caf\\udce9.traj"
    assert store.verify() == []


# -- once, and entirely or not at all ------------------------------------------------------------------------------


def test_importing_a_file_twice_adds_nothing_and_names_the_run(store: EventStore, tmp_path: Path) -> None:
    """The content decides, not the name: a copy is the same file."""
    first = import_file(STEPS, store)
    copy = tmp_path / "copy.traj"
    copy.write_bytes(STEPS.read_bytes())
    second = import_file(copy, store)
    assert (first.runs, second.runs) == (["run1"], ["run1"])
    assert (first.imported, second.imported) == (15, 0)
    assert second.read == first.read == 16
    assert second.notes[0] == "imported before: run1 holds this file; nothing was added for it"
    assert len(store.runs()) == 1
    assert import_file(LIST, store).runs == ["run2"]


def test_a_run_has_the_uid_that_its_file_gives(store: EventStore) -> None:
    """The same file has the same uid in every store; it says by its version that it was made so."""
    import_file(STEPS, store)
    other = MemoryStore()
    import_file(STEPS, other)
    uid = store.run("run1").uid
    assert uid == other.run("run1").uid
    assert (UUID(uid).version, UUID(uid).variant) == (8, "specified in RFC 4122")
    assert store.run(uid[:8]).id == "run1"


def test_an_import_that_loses_a_race_is_an_import_that_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that imports the same file in the same moment is found out when the store refuses the uid."""
    store = MemoryStore()
    add_runs = store.add_runs

    def add_after_another(runs: Any) -> Any:
        monkeypatch.undo()
        import_file(STEPS, store)
        return add_runs(runs)

    monkeypatch.setattr(store, "add_runs", add_after_another)
    report = import_file(STEPS, store)
    assert (report.runs, report.imported, len(store.runs())) == (["run1"], 0, 1)


class TwoRuns:
    """A format whose second run may turn out to be damaged beyond use."""

    name = "two-runs"
    reads = "anything"
    fails: Exception | None = None

    def detects(self, source: SourceFile) -> float:
        return 1.0 if source.data.startswith(b"two") else 0.0

    def runs(self, work: Importing) -> Iterator[RunBuilder]:
        for agent in ("first", "second"):
            if agent == "second" and self.fails is not None:
                raise self.fails
            builder = work.run(agent, payload={"n": 0})
            builder.begin_round()
            builder.change_payload({"n": 1})
            builder.end_round()
            builder.finish("completed", "done")
            work.tally.imported += 1
            yield builder


@pytest.mark.parametrize(
    "error", [ImportFailed("the second run is broken"), KeyError("cup"), RecursionError()], ids=repr
)
def test_a_file_whose_second_run_fails_leaves_nothing(
    error: Exception, store: EventStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All runs of a file are added, or none is; whatever an importer raises is one clear refusal."""
    importer = TwoRuns()
    monkeypatch.setitem(IMPORTERS, "two-runs", importer)
    path = tmp_path / "two"
    path.write_bytes(b"two")
    importer.fails = error
    with pytest.raises(ImportFailed):
        import_file(path, store)
    assert store.runs() == []
    importer.fails = None
    report = import_file(path, store)
    assert (report.runs, report.imported) == (["run1", "run2"], 2)
    assert [run.agent for run in store.runs()] == ["first", "second"]
    assert store.verify() == []


def test_a_store_that_fails_in_the_middle_holds_nothing_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk while the events are written leaves no half run; the next import works, messages and all."""
    store = SqlStore(f"sqlite:///{tmp_path / 'store.db'}")
    keep = store._keep
    calls = 0

    def fill_up(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise StoreError("the disk is full")
        keep(*arguments)

    monkeypatch.setattr(store, "_keep", fill_up)
    with pytest.raises(StoreError):
        import_file(STEPS, store)
    assert store.runs() == []
    import_file(LIST, store)
    import_file(STEPS, store)
    assert [run.agent for run in store.runs()] == ["mini-swe-agent", "swe-agent"]
    assert store.verify() == []
    assert [len(dict(states(store.events(run)))) for run in store.runs()] == [5, 5]
    store.close()


def whole_run(uid: str, count: int) -> tuple[RunInfo, list[Any]]:
    data = {"agent": "clerk", "payload": None, "payload_hash": "merkle1:0"}
    events = [new_event("run.started", seq=0, round=0, time=START, data=data)]
    events += [new_event("report", seq=seq, round=0, time=START, data={"message": "hm"}) for seq in range(1, count)]
    redactor = MemoryStore(RedactionRules.off()).redactor
    info = RunInfo(number=0, uid=uid, **Summary.of(events).fields)
    return info, [encode_event(event, redactor) for event in events]


def test_whole_runs_are_added_together_or_not_at_all(store: EventStore) -> None:
    """One transaction: a uid that is there already refuses every run that comes with it."""
    first, second = new_uid(), new_uid()
    added = store.add_runs([whole_run(first, 3), whole_run(second, 2)])
    assert [(run.id, run.head_seq) for run in added] == [("run1", 2), ("run2", 1)]
    with pytest.raises(StoreError):
        store.add_runs([whole_run(new_uid(), 1), whole_run(first, 1)])
    with pytest.raises(StoreError):
        store.add_runs([whole_run(third := new_uid(), 1), whole_run(third, 1)])
    assert [run.uid for run in store.runs()] == [first, second]
    assert [event.seq for event in store.events("run1")] == [0, 1, 2]
    store.append("run1", 2, [new_event("report", seq=3, round=0, time=START, data={"message": "more"})])
    assert store.verify() == []


# -- what the log says ---------------------------------------------------------------------------------------------


def test_progress_goes_from_nothing_to_all(store: EventStore) -> None:
    """`progress` is told how many events there are, and that each of them is ready."""
    seen: list[tuple[int, int]] = []
    import_file(STEPS, store, progress=lambda done, total: seen.append((done, total)))
    total = len(events_of(store))
    assert seen == [(done, total) for done in range(total + 1)]


def test_a_file_without_times_has_the_time_it_was_written(tmp_path: Path) -> None:
    """Its events are a microsecond apart, so that their order shows, and the run says that it has no times."""
    path = tmp_path / "old.traj"
    path.write_bytes(STEPS.read_bytes())
    os.utime(path, (1767225600, 1767225600))
    store = MemoryStore()
    import_file(path, store)
    events = events_of(store)
    assert events[0].time == datetime(2026, 1, 1, tzinfo=UTC)
    assert [(event.time - events[0].time).microseconds for event in events] == list(range(len(events)))
    assert events[0].data.source["times"] == "none"
    assert (store.run("run1").status, store.run("run1").duration) == ("completed", None)
    import_file(FIXTURES / "mini_object_limits_exceeded.traj.json", store)
    assert store.run("run2").duration == pytest.approx(2.75, abs=0.001)


def test_secrets_of_a_file_are_redacted(tmp_path: Path) -> None:
    """They are tokens in the log, in the payload and in what has no place alike, and the payload still folds."""
    secret = "hunter2-hunter2-hunter2"
    document = {
        "trajectory": [
            step(state={"password": secret, "open_file": "a"}),
            step(state={"password": secret, "open_file": "b"}),
        ],
        "replay_config": {"agent": {"model": {"api_key": secret}}},
    }
    store = MemoryStore()
    import_file(write(tmp_path / "secret.traj", document), store)
    assert all(secret.encode() not in (row.body or b"") for row in store.rows("run1"))
    payloads = [state.payload for state in dict(states(store.events("run1"))).values()]
    assert [payload.get("open_file") for payload in payloads] == [None, "a", "b"]
    assert payloads[1]["password"].startswith("[redacted:")


def test_times_and_durations_are_read_leniently() -> None:
    """Seconds or ISO texts, UTC unless they say otherwise; what is neither is no time, and no error."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert time_of(1767268800) == time_of("2026-01-01T12:00:00") == time_of("2026-01-01T13:00:00+01:00") == noon
    strange = [
        "soon",
        "",
        None,
        True,
        -1,
        0,
        float("nan"),
        float("inf"),
        10**30,
        1e300,
        [],
        {},
        "0001-01-01",
        "9999-12-31",
    ]
    assert [time_of(value) for value in strange] == [None] * len(strange)
    assert [seconds_of(value) for value in (0, 1.5, -1, float("nan"), float("inf"), "1", True, 10**400)] == [
        0.0,
        1.5,
        *[None] * 6,
    ]
    assert clean_text("caf\u00e9 \ud800") == "caf\u00e9 \\ud800"


# -- anything at all -----------------------------------------------------------------------------------------------

texts = st.text(max_size=8) | st.sampled_from(["\ud800", "submit", "{}", "[1]", "```bash\nls\n```", "ls -F", "$type"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
keys = st.sampled_from(
    [
        *sorted(ENTRY_FIELDS | INFO_FIELDS),
        *("role", "content", "tool_calls", "function", "name", "arguments", "id", "tool_call_ids", "is_demo"),
        *("extra", "actions", "timestamp", "usage", "info", "tokens_sent", "tokens_received", "$type"),
    ]
)
anything = st.recursive(
    scalars | st.just("assistant"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys | texts, inner, max_size=6),
    max_leaves=30,
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["assistant", "user", "tool", "system", "exit"]) | anything, "content": anything},
    optional={"action": anything, "thought": anything, "tool_calls": st.lists(anything) | anything, "extra": anything},
)
entries = st.fixed_dictionaries(
    {"action": anything, "observation": anything},
    optional={"state": anything, "response": anything, "thought": anything, "messages": st.lists(messages) | anything},
)
lists_of = {"trajectory": entries, "history": messages, "messages": messages}
documents = st.one_of(
    anything,
    st.lists(messages | anything, max_size=4),
    st.fixed_dictionaries(
        {},
        optional={name: st.lists(inner | anything, max_size=4) | anything for name, inner in lists_of.items()}
        | {"info": anything, "replay_config": anything, "trajectory_format": st.just("mini-swe-agent-1.1") | anything},
    ),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(document=documents, format=st.sampled_from([None, *FORMATS]))
def test_any_json_is_imported_soundly_or_refused(document: Any, format: str | None, tmp_path: Path) -> None:
    """Whatever a file holds: a run whose payloads fold and whose counts add up, or one refusal with nothing stored."""
    path = write(tmp_path / "any.json", document)
    store = MemoryStore()
    refusal = ""
    try:
        report = import_file(path, store, format)
    except ImportFailed as error:
        refusal = str(error)
    if refusal:
        assert "fault of agentreplay" not in refusal
        assert store.runs() == []
    else:
        last = [state for _, state in states(store.events(report.runs[0]))][-1]
        assert last.ended
        assert report.read == report.imported + report.unknown + report.damaged
        assert store.verify() == []
