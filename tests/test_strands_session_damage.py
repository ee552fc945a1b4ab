"""Session directories of Strands that are not whole: refused with the file that is at fault, or salvaged and listed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.errors import ImportFailed
from agentreplay.recorder.importers import ImportReport, import_file
from agentreplay.recorder.memory_store import MemoryStore
from cli_runs import invoke, json_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strands.session.file_session_manager import FileSessionManager
from strands_scripted import IMAGE, Use, World

ABOUT = "agents/agent_calc/agent.json"
NESTED = b'{"message":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001

WORDS = ("role", "content", "text", "toolUse", "name", "toolUseId", "state", "__bytes_encoded__", "data", "message")


def place(number: int) -> str:
    return f"agents/agent_calc/messages/message_{number}.json"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    """Eight messages, an `agent.json` and a `session.json`, written by the SDK: a question with two tools, an image."""
    agent = World().agent(
        ["let me see", Use("divide", {"a": 1, "b": 2}, "t1"), Use("remember", {"key": "half", "value": "0.5"}, "t2")],
        [Use("divide", {"a": 1, "b": 0}, "t3")],
        ["a half"],
        ["a pixel"],
        tools=World().tools("divide", "remember"),
        session_manager=FileSessionManager("calc", storage_dir=str(tmp_path)),
        agent_id="calc",
        state={"start": 1},
    )
    agent("divide")
    agent(IMAGE)
    return tmp_path / "session_calc"


def refused(folder: Path) -> str:
    """What the refusal says; nothing may have been stored."""
    store = MemoryStore()
    with pytest.raises(ImportFailed) as error:
        import_file(folder, store)
    assert store.runs() == []
    return str(error.value)


def salvaged(folder: Path) -> tuple[MemoryStore, ImportReport]:
    store = MemoryStore()
    report = import_file(folder, store, salvage=True)
    assert store.verify() == []
    return store, report


def changed(file: Path, change: Callable[[Any], Any]) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def warned(store: MemoryStore) -> list[Any]:
    events = [event for run in store.runs() for event in store.events(run)]
    return [event.data for event in events if event.kind == "report" and event.data.level == "warning"]


# -- files -----------------------------------------------------------------------------------------------


def test_a_whole_session_is_imported_and_nothing_is_salvaged_of_it(session: Path) -> None:
    """Both ways give the same run."""
    store = MemoryStore()
    plain = import_file(session, store)
    assert (plain.runs, plain.read, plain.imported, plain.unknown, plain.damaged) == (["run1"], 10, 10, 0, 0)
    kept = "kept as reports, having no place in a run: conversation_manager_state, _internal_state, updated_at"
    assert plain.notes == [kept]
    assert import_file(session, store, salvage=True).runs == ["run1"]
    assert len(store.runs()) == 1


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "it is empty"),
        (b"\n  \n", "it is empty"),
        (b"\0" * 300, "it holds nothing but 300 NUL bytes"),
        (b"\0" * 8 + b"{}", "it begins with 8 NUL bytes"),
        (b'{"message": {}}' + b"\0" * 64, "line 1: Extra data at column 16"),
        (b'{"message": {\n"role": "us', "line 2: Unterminated string starting at"),
        (b'{"message": {\n', "line 2: it ends in the middle"),
        (b'{\n"message": nil}', "line 2: Expecting value at column 12, before 'nil}'"),
        (b"[1, 2]", "it holds a list; expected an object"),
        (b'"text"', "it holds a text; expected an object"),
        (b"null", "it holds null; expected an object"),
        (NESTED, "it nests deeper than this Python reads"),
        (b'{"message_id": 3, "message_id": 3}', 'the key "message_id" stands twice in one object'),
        (b'{"message": "\xff\xfe"}', "2 bytes of the file are not UTF-8, the first one at offset 13"),
    ],
)
def test_a_broken_file_is_refused_by_name(session: Path, data: bytes, found: str) -> None:
    """The message has the file, the line where there is one, what was found, and what to do."""
    (session / place(3)).write_bytes(data)
    said = refused(session)
    assert said.startswith(f"cannot import {session / place(3)}")
    assert found in said
    assert "; expected " in said
    assert said.endswith("`agentreplay import --salvage` keeps what is sound of it.")


def test_a_broken_file_is_listed_when_the_rest_is_salvaged(session: Path) -> None:
    """The note names it as the refusal did; its text is kept in the run."""
    (session / place(3)).write_bytes(b'{"message": {\n')
    store, report = salvaged(session)
    assert (report.runs, report.read, report.imported, report.damaged) == (["run1"], 10, 9, 1)
    assert any(note.startswith(f"{session / place(3)}, line 2: it ends in the middle") for note in report.notes)
    assert [one.content for one in warned(store)] == ['{"message": {\n']
    assert place(3) in warned(store)[0].message
    assert len(ar.state_at("run1", store=store).messages) == 7


@pytest.mark.parametrize("missing", [ABOUT, "session.json"])
def test_a_missing_file_is_told(session: Path, missing: str) -> None:
    """Every session has these two; what is left is the conversation."""
    (session / missing).unlink()
    assert refused(session).startswith(f"cannot import {session / missing}: it is missing; expected ")
    store, report = salvaged(session)
    assert (report.imported, report.damaged) == (9, 1)
    assert len(ar.state_at("run1", store=store).messages) == 8
    assert any("it is missing" in note and missing in note for note in report.notes)


@pytest.mark.parametrize(
    ("gone", "told"), [([2], "message_2.json"), ([0, 1], "message_0.json"), ([4, 5, 6], "message_4.json")]
)
def test_a_gap_in_the_messages_is_told(session: Path, gone: list[int], told: str) -> None:
    """The SDK numbers them from 0 without one; each that is missing counts."""
    for number in gone:
        (session / place(number)).unlink()
    said = refused(session)
    assert told in said
    assert "is missing" in said or "are missing" in said
    store, report = salvaged(session)
    assert (report.imported, report.damaged) == (10 - len(gone), len(gone))
    assert len(ar.state_at("run1", store=store).messages) == 8 - len(gone)


def test_a_missing_folder_of_messages_is_told(session: Path) -> None:
    """The SDK makes it with the agent, so the conversation is gone; what is left is the state."""
    folder = session / "agents" / "agent_calc" / "messages"
    shutil.rmtree(folder)
    assert refused(session).startswith(f"cannot import {folder}: it is missing; expected the folder of its messages")
    store, report = salvaged(session)
    assert (report.imported, report.damaged) == (2, 1)
    assert ar.state_at("run1", store=store).payload == {"start": 1, "half": "0.5"}


def test_the_last_messages_of_a_session_cannot_be_missed(session: Path) -> None:
    """Nothing says how many there were; so the run ends before the model's last word, with a note."""
    (session / place(7)).unlink()
    store = MemoryStore()
    report = import_file(session, store)
    assert (report.damaged, store.runs()[0].status) == (0, "failed")
    assert any("ends before the model's last word" in note for note in report.notes)


def test_two_files_of_one_number_are_told(session: Path) -> None:
    """Neither is dropped for the other."""
    shutil.copy(session / place(3), session / place(3).replace("_3.", "_03."))
    assert "message_3.json" in refused(session)
    _, report = salvaged(session)
    assert (report.read, report.imported, report.damaged) == (11, 10, 1)


def test_several_damaged_files_are_all_named(session: Path) -> None:
    """The refusal is about the first, and says how many more there are."""
    for number in (2, 4, 6):
        (session / place(number)).write_text("{")
    (session / ABOUT).write_text("[]")
    said = refused(session)
    assert said.startswith(f"cannot import {session / ABOUT}: it holds a list")
    assert "3 more are damaged: " in said
    assert all(f"message_{number}.json" in said for number in (2, 4, 6))
    _, report = salvaged(session)
    assert (report.imported, report.damaged) == (6, 4)
    assert sum("message_" in note or "agent.json" in note for note in report.notes) == 4


def test_many_damaged_files_are_listed_up_to_a_hundred(session: Path) -> None:
    """The counts have all of them."""
    for number in range(8, 258):
        (session / place(number)).write_text("{")
    _, report = salvaged(session)
    assert (report.imported, report.damaged) == (10, 250)
    assert "and 150 more that are damaged" in report.notes
    assert sum("message_" in note for note in report.notes) == 100


def test_nothing_sound_is_refused_even_when_it_is_to_be_salvaged(session: Path) -> None:
    """A run of nothing would be none."""
    for number in range(8):
        (session / place(number)).write_text("{")
    (session / ABOUT).unlink()
    with pytest.raises(ImportFailed, match="Nothing of it can be salvaged"):
        import_file(session, MemoryStore(), salvage=True)


def test_a_link_is_not_followed(session: Path, tmp_path: Path) -> None:
    """The SDK refuses to read one; what it points to is not read."""
    (tmp_path / "elsewhere.json").write_text((session / place(3)).read_text())
    (session / place(3)).unlink()
    (session / place(3)).symlink_to(tmp_path / "elsewhere.json")
    said = refused(session)
    assert said.startswith(f"cannot import {session / place(3)}: it is a symbolic link; expected a file")
    store, report = salvaged(session)
    assert (report.imported, report.damaged) == (9, 1)
    assert len(ar.state_at("run1", store=store).messages) == 7


def test_a_linked_folder_is_not_followed(session: Path, tmp_path: Path) -> None:
    """Its messages are those of another place."""
    messages = session / "agents" / "agent_calc" / "messages"
    messages.rename(tmp_path / "elsewhere")
    messages.symlink_to(tmp_path / "elsewhere")
    assert f"{messages}: it is a symbolic link" in refused(session)


def test_a_session_may_be_named_by_a_link(session: Path, tmp_path: Path) -> None:
    """That is the user's own choice."""
    (tmp_path / "here").symlink_to(session)
    assert import_file(tmp_path / "here", MemoryStore()).imported == 10


def test_what_is_no_file_is_told(session: Path) -> None:
    """A pipe would be waited for."""
    (session / place(3)).unlink()
    os.mkfifo(session / place(3))
    assert f"{session / place(3)}: it is no regular file" in refused(session)
    (session / place(3)).unlink()
    (session / place(3)).mkdir()
    assert f"{session / place(3)}: it is a folder" in refused(session)
    assert salvaged(session)[1].imported == 9


def test_a_file_that_may_not_be_read_is_told(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name; the others are salvaged."""
    read = Path.read_bytes

    def guarded(path: Path) -> bytes:
        if path.name == "message_3.json":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", guarded)
    said = refused(session)
    assert f"{session / place(3)}: it cannot be read (Permission denied); expected a readable file" in said
    assert salvaged(session)[1].imported == 9


def test_a_folder_that_may_not_be_read_is_told(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its messages are not taken to be missing from the session."""
    scan = os.scandir

    def guarded(path: Any) -> Any:
        if str(path).endswith("messages"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", guarded)
    assert "messages: it cannot be read (Permission denied); expected a readable folder" in refused(session)


# -- what stands in a file -------------------------------------------------------------------------------


def block(number: int, at: int, value: Any) -> Callable[[Path], None]:
    def put(session: Path) -> None:
        changed(session / place(number), lambda entry: entry["message"]["content"].__setitem__(at, value))

    return put


def entry(number: int, **fields: Any) -> Callable[[Path], None]:
    return lambda session: changed(session / place(number), lambda one: one.update(fields))


def message(number: int, **fields: Any) -> Callable[[Path], None]:
    return lambda session: changed(session / place(number), lambda one: one["message"].update(fields))


def about(**fields: Any) -> Callable[[Path], None]:
    return lambda session: changed(session / ABOUT, lambda one: one.update(fields))


BYTES = {"image": {"format": "png", "source": {"bytes": {"__bytes_encoded__": True, "data": "iVBOR*w0K"}}}}

SHAPES: list[tuple[str, Callable[[Path], None], str, str]] = [
    (place(6), block(6, 1, BYTES), "`message.content[1].image.source.bytes` holds no bytes in base 64", "kept"),
    (
        place(6),
        block(6, 1, {"image": {"__bytes_encoded__": True}}),
        "`message.content[1].image` holds no bytes in base 64",
        "kept",
    ),
    (place(1), block(1, 1, {"toolUse": "divide"}), "`message.content[1].toolUse` is a text", "kept"),
    (place(1), block(1, 1, {"toolUse": None}), "`message.content[1].toolUse` is null", "kept"),
    (place(1), block(1, 1, {"toolUse": {"toolUseId": "t1"}}), "`message.content[1].toolUse.name` is missing", "kept"),
    (
        place(1),
        block(1, 1, {"toolUse": {"name": "divide", "toolUseId": 7, "input": {}}}),
        "`message.content[1].toolUse.toolUseId` is a number",
        "kept",
    ),
    (place(2), block(2, 0, {"toolResult": ["x"]}), "`message.content[0].toolResult` is a list", "kept"),
    (
        place(2),
        block(2, 0, {"toolResult": {"toolUseId": "t1", "status": "success", "content": "0.5"}}),
        "`message.content[0].toolResult.content` is a text",
        "kept",
    ),
    (place(5), block(5, 0, {"text": 5}), "`message.content[0].text` is a number", "kept"),
    (place(5), block(5, 0, "text"), "`message.content[0]` is a text", "kept"),
    (place(5), message(5, content="text"), "`message.content` is a text", "lost"),
    (place(5), message(5, content=None), "`message.content` is null", "lost"),
    (place(5), message(5, role=None), "`message.role` is null", "lost"),
    (place(5), entry(5, message=None), "`message` is null", "lost"),
    (place(5), entry(5, message=[1]), "`message` is a list", "lost"),
    (place(5), entry(5, redact_message="gone"), "`redact_message` is a text", "lost"),
    (place(5), entry(5, message_id=6), "`message_id` is 6", "kept"),
    (place(5), entry(5, created_at="yesterday"), "`created_at` is no time", "kept"),
    (ABOUT, about(state=[1]), "`state` is a list", "kept"),
    (ABOUT, about(agent_id="other"), '`agent_id` is "other"', "kept"),
    (ABOUT, about(_internal_state=7), "`_internal_state` is a number", "kept"),
]


@pytest.mark.parametrize(("file", "damage", "found", "kept"), SHAPES, ids=[shape[2] for shape in SHAPES])
def test_what_is_not_of_its_shape_is_refused_and_salvaged_whole(
    session: Path, file: str, damage: Callable[[Path], None], found: str, kept: str
) -> None:
    """It is named with its place in the file; nothing of it vanishes when the rest is salvaged."""
    damage(session)
    said = refused(session)
    assert said.startswith(f"cannot import {session / file}: {found}")
    store, report = salvaged(session)
    assert (report.read, report.imported, report.damaged) == (10, 9, 1)
    assert any(note.startswith(f"{session / file}: {found}") for note in report.notes)
    assert len(ar.state_at("run1", store=store).messages) == (8 if kept == "kept" else 7)
    assert any(file in one.message and found in one.message for one in warned(store))


def test_a_tool_use_that_is_a_text_stays_in_the_conversation(session: Path) -> None:
    """It is what the model's message holds, though no call can be made of it."""
    block(1, 1, {"toolUse": "divide"})(session)
    store, _ = salvaged(session)
    said = ar.state_at("run1", store=store).messages[1]["content"]
    assert said[1] == {"toolUse": "divide"}
    calls = [one.data.tool_call for one in store.events(store.runs()[0]) if one.kind == "tool.called"]
    assert calls == ["t2", "t3"]


def test_bytes_that_cannot_be_decoded_stay_as_they_are(session: Path) -> None:
    """The text that stood for them is kept."""
    block(6, 1, BYTES)(session)
    store, _ = salvaged(session)
    assert ar.state_at("run1", store=store).messages[6]["content"][1] == BYTES


def test_a_state_that_is_no_object_is_kept_as_damaged(session: Path) -> None:
    """The payload does not take it up."""
    about(state=[1])(session)
    store, _ = salvaged(session)
    assert ar.state_at("run1", store=store).payload == {}
    assert warned(store)[0].content["state"] == [1]


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([ABOUT, place(3), "session.json", "notes.json"]), ODD, st.integers(0, 4))
def test_any_json_in_a_file_is_imported_refused_or_salvaged_soundly(
    session: Path, file: str, value: Any, depth: int
) -> None:
    """Whatever stands in a file, or in a part of it: all is taken, or the file is named and the rest is taken."""
    whole = (session / file).read_text() if (session / file).exists() else None
    content = json.loads(whole or "{}")
    keys = [] if whole is None else ["message", "content", 0, "toolUse"][: depth if file == place(3) else 0]
    within: Any = {"file": content}
    last: Any = "file"
    for key in keys:
        within, last = within[last], key
    within[last] = value
    if not keys:
        content = value
    (session / file).write_text(json.dumps(content))
    store = MemoryStore()
    try:
        said = ""
        try:
            report = import_file(session, store)
        except ImportFailed as error:
            said = str(error)
        if said:
            assert said.startswith(f"cannot import {session / file}")
            assert "fault of agentreplay" not in said
            assert store.runs() == []
            store, report = salvaged(session)
        assert report.damaged == (1 if said else 0)
        assert report.read == 10 + (whole is None)
        assert store.verify() == []
    finally:
        if whole is None:
            (session / file).unlink()
        else:
            (session / file).write_text(whole)


# -- what is odd, and sound ------------------------------------------------------------------------------


def test_kinds_of_blocks_and_roles_that_are_not_known_are_kept_and_told(session: Path) -> None:
    """A later SDK may have more of them."""
    block(5, 0, {"hologram": {"data": [1, 2]}})(session)
    message(6, role="critic")(session)
    store = MemoryStore()
    report = import_file(session, store)
    assert (report.imported, report.damaged) == (10, 0)
    assert f'{place(5)}: blocks of the kind "hologram" are not known here; they are kept as they are' in report.notes
    assert f'{place(6)}: the role "critic" is not known here; the message is kept as it is' in report.notes
    messages = ar.state_at("run1", store=store).messages
    assert messages[5]["content"] == [{"hologram": {"data": [1, 2]}}]
    assert messages[6]["role"] == "critic"


def test_a_result_that_nobody_asked_for_is_told(session: Path) -> None:
    """It stays in the conversation."""
    result = {"toolResult": {"toolUseId": "t9", "status": "success", "content": [{"text": "?"}]}}
    changed(session / place(2), lambda one: one["message"]["content"].append(result))
    store = MemoryStore()
    report = import_file(session, store)
    assert report.damaged == 0
    assert any(place(2) in note and '"t9"' in note for note in report.notes)
    assert ar.state_at("run1", store=store).messages[2]["content"][2] == result


def test_numbers_beyond_json_are_what_the_sdk_wrote(session: Path) -> None:
    """It writes NaN, infinity and integers of any size, and reads them."""
    about(state={"rate": float("nan"), "most": float("inf"), "big": 10**30})(session)
    store = MemoryStore()
    assert import_file(session, store).damaged == 0
    payload = ar.state_at("run1", store=store).payload
    assert (repr(payload["rate"]), payload["most"], payload["big"]) == ("nan", float("inf"), 10**30)


def test_what_editors_do_to_a_file_is_read_over_with_a_note(session: Path) -> None:
    """A byte order mark, line ends of Windows, and another encoding change nothing of what it says."""
    text = (session / place(3)).read_text()
    (session / place(3)).write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    (session / place(4)).write_bytes((session / place(4)).read_text().encode("utf-16"))
    report = import_file(session, MemoryStore())
    assert (report.imported, report.damaged) == (10, 0)
    assert f"{place(3)} is in utf-8-sig, and is read so; the SDK writes plain UTF-8" in report.notes
    assert f"{place(4)} is in utf-16, and is read so; the SDK writes plain UTF-8" in report.notes


def test_files_that_are_no_part_of_a_session_are_told(session: Path) -> None:
    """JSON is kept as a report, other files are named."""
    (session / "notes.json").write_text('{"by": "me"}')
    (session / "agents" / "agent_calc" / "messages" / ".strands_x1.tmp").write_text("{")
    (session / "README").write_text("mine")
    store = MemoryStore()
    report = import_file(session, store)
    assert (report.imported, report.unknown, report.damaged) == (10, 1, 0)
    (note,) = [note for note in report.notes if note.startswith("not read, being no JSON")]
    assert ".strands_x1.tmp" in note
    assert "README" in note


def test_what_was_redacted_is_left_out_and_told(session: Path) -> None:
    """The SDK shows the agent what stands in its place."""
    instead = {"role": "assistant", "content": [{"text": "[redacted]"}]}
    entry(5, redact_message=instead)(session)
    store = MemoryStore()
    report = import_file(session, store)
    assert report.damaged == 0
    assert ar.state_at("run1", store=store).messages[5] == instead
    assert f"{place(5)}: the message was redacted; what it was before is not taken over" in report.notes


def test_many_megabytes_are_imported(session: Path) -> None:
    """A message of 50 MB is kept once, though later requests hold it too."""
    block(0, 0, {"text": "x" * 50_000_000})(session)
    store = MemoryStore()
    assert import_file(session, store).imported == 10
    assert len(ar.state_at("run1", store=store).messages[0]["content"][0]["text"]) == 50_000_000


# -- agents, graphs and swarms ---------------------------------------------------------------------------


def second(session: Path) -> None:
    World().agent(
        ["me too"],
        session_manager=FileSessionManager("calc", storage_dir=str(session.parent)),
        agent_id="other",
    )("and you?")


def test_each_agent_is_a_run(session: Path) -> None:
    """In the order of their names."""
    second(session)
    store = MemoryStore()
    report = import_file(session, store)
    assert (report.runs, report.imported, report.damaged) == (["run1", "run2"], 13, 0)
    assert [(run.agent, run.steps) for run in sorted(store.runs(), key=lambda run: run.number)] == [
        ("calc", 4),
        ("other", 1),
    ]


def test_an_agent_of_which_nothing_is_sound_does_not_take_the_others_along(session: Path) -> None:
    """What is left of it stands in the run of another."""
    second(session)
    other = session / "agents" / "agent_other"
    (other / "agent.json").unlink()
    for file in (other / "messages").iterdir():
        file.write_text("{")
    store, report = salvaged(session)
    assert (report.runs, report.imported, report.damaged) == (["run1"], 10, 3)
    assert 'nothing of the agent "other" is sound, so it is no run' in report.notes
    assert len(warned(store)) == 3


def test_an_agent_that_was_never_asked_has_its_state(tmp_path: Path) -> None:
    """It did not fail."""
    manager = FileSessionManager("fresh", storage_dir=str(tmp_path))
    World().agent(["never"], session_manager=manager, agent_id="calc", state={"start": 1})
    store = MemoryStore()
    report = import_file(tmp_path / "session_fresh", store)
    assert (report.imported, report.damaged) == (2, 0)
    assert (store.runs()[0].status, store.runs()[0].steps) == ("completed", 0)
    assert ar.state_at("run1", store=store).payload == {"start": 1}


def test_an_agent_that_never_answered_has_its_state(session: Path) -> None:
    """The model was never reached, so there is no round; the state is there all the same."""
    for number in range(1, 8):
        (session / place(number)).unlink()
    store = MemoryStore()
    import_file(session, store)
    assert (store.runs()[0].status, store.runs()[0].steps) == ("failed", 0)
    assert ar.state_at("run1", store=store).payload == {"start": 1, "half": "0.5"}


def test_an_empty_folder_of_an_agent_is_told(session: Path) -> None:
    """It has lost its files."""
    (session / "agents" / "agent_gone").mkdir()
    assert f"{session / 'agents' / 'agent_gone' / 'agent.json'}: it is missing" in refused(session)


def graph_session(folder: Path) -> Path:
    """A graph of two nodes, written by the SDK."""
    from strands.multiagent import GraphBuilder

    world = World()
    builder = GraphBuilder()
    for name in ("planner", "writer"):
        builder.add_node(world.agent([f"{name} did it"], plugged=False, name=name), name)
    builder.add_edge("planner", "writer")
    builder.set_entry_point("planner")
    builder.set_graph_id("pair")
    builder.set_max_node_executions(5)
    builder.set_session_manager(FileSessionManager("duo", storage_dir=str(folder)))
    builder.build()("go")
    return folder / "session_duo"


def test_a_graph_is_a_run_with_a_round_for_each_node(tmp_path: Path) -> None:
    """Its session holds the results of the nodes, and no conversations."""
    store = MemoryStore()
    report = import_file(graph_session(tmp_path), store)
    assert (report.runs, report.imported, report.unknown, report.damaged) == (["run1"], 2, 0, 0)
    (run,) = store.runs()
    assert (run.agent, run.status, run.steps) == ("pair", "completed", 2)
    said = [one["content"][0]["text"] for one in ar.state_at("run1", store=store).messages]
    assert said == ["planner did it ", "writer did it "]
    decided = [one.data.decision for one in store.events(run) if one.kind == "step.decided"]
    assert [(one["step"], one["subAgent"]["name"]) for one in decided] == [
        ("Sub-Agent", "planner"),
        ("Sub-Agent", "writer"),
    ]


def test_a_swarm_is_a_run_too(tmp_path: Path) -> None:
    """A round for each turn of a node, in the order of its history."""
    from strands.multiagent import Swarm

    world = World()
    first = world.agent(
        [Use("handoff_to_agent", {"agent_name": "second", "message": "take it"})],
        ["handed over"],
        plugged=False,
        name="first",
    )
    other = world.agent(["second did it"], plugged=False, name="second")
    Swarm([first, other], id="two", session_manager=FileSessionManager("swarm", storage_dir=str(tmp_path)))("go")
    store = MemoryStore()
    report = import_file(tmp_path / "session_swarm", store)
    assert (report.imported, report.damaged) == (2, 0)
    (run,) = store.runs()
    assert (run.agent, run.status, run.steps) == ("two", "completed", 2)
    assert ar.state_at("run1", store=store).messages[-1]["content"] == [{"text": "second did it "}]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda graph: graph.update(node_results=[1]), "`node_results` is a list"),
        (lambda graph: graph["node_results"].update(planner="done"), "`node_results.planner` is a text"),
        (lambda graph: graph.update(execution_order="planner"), "`execution_order` is a text"),
        (lambda graph: graph.update(status="odd"), '`status` is "odd"'),
    ],
)
def test_a_damaged_graph_is_told(tmp_path: Path, change: Callable[[Any], None], found: str) -> None:
    """Its file is kept whole when it is salvaged."""
    session = graph_session(tmp_path)
    file = session / "multi_agents" / "multi_agent_pair" / "multi_agent.json"
    changed(file, change)
    assert refused(session).startswith(f"cannot import {file}: {found}")
    store, report = salvaged(session)
    assert (report.imported, report.damaged) == (1, 1)
    assert warned(store)[0].content["id"] == "pair"


# -- folders that are no session -------------------------------------------------------------------------


def test_a_folder_that_is_no_session_says_what_it_is(tmp_path: Path, session: Path) -> None:
    """And what to name in its place."""
    (tmp_path / "empty").mkdir()
    assert "It is empty: was anything recorded there?" in refused(tmp_path / "empty")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.txt").write_text("x")
    assert "it is a folder" in refused(tmp_path / "other")
    assert f"It is a part of the session {session}; name that." in refused(session / "agents" / "agent_calc")
    for number in range(6):
        shutil.copytree(session, tmp_path / f"session_{number}")
    said = refused(tmp_path)
    assert f"It holds sessions; name them one by one, or all: {tmp_path}/session_*" in said
    assert "session_0, session_1, session_2, session_3, session_4 and 2 more" in said


def test_a_session_without_agents_is_refused(session: Path) -> None:
    """There is nothing to make a run of, whether or not it is to be salvaged."""
    shutil.rmtree(session / "agents")
    assert "it has no agent" in refused(session)
    with pytest.raises(ImportFailed, match="it has no agent"):
        import_file(session, MemoryStore(), salvage=True)


# -- the command -----------------------------------------------------------------------------------------


def test_the_command_ends_as_it_does_for_cassettes(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3 for what is damaged, with nothing stored; 0 for what is salvaged, with what is lost in a list."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTREPLAY_STORE", "runs.db")
    (session / place(3)).write_text("{")
    result = invoke("import", "session_calc")
    assert result.exit_code == 3
    said = " ".join(result.stderr.split())
    assert f"cannot import session_calc/{place(3)}, line 1: it ends in the middle" in said
    assert "`agentreplay import --salvage` keeps what is sound of it." in said
    assert json_of("ls") == []
    result = invoke("import", "session_calc", "--salvage")
    assert result.exit_code == 0
    said = " ".join(result.stdout.split())
    assert "10 records read: 9 imported, 0 unknown, 1 damaged" in said
    assert f"session_calc/{place(3)}, line 1: it ends in the middle" in said
    counts = json_of("import", "session_calc", "--salvage")
    assert (counts["runs"], counts["imported"], counts["damaged"]) == (["run1"], 0, 1)
    assert any(place(3) in note for note in counts["notes"])


def test_a_repaired_session_is_a_run_of_its_own(session: Path) -> None:
    """The store has both: what was salvaged, and the whole."""
    whole = (session / place(3)).read_text()
    (session / place(3)).write_text("{")
    store, report = salvaged(session)
    (session / place(3)).write_text(whole)
    assert (report.runs, import_file(session, store).runs) == (["run1"], ["run2"])
