"""Inspect AI's logs that are not as they should be: patches that do not apply, values of any type, anything at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agentreplay.recorder.errors import ImportFailed
from agentreplay.recorder.importers import import_file
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.redaction import RedactionRules
from agentreplay.recorder.values import decode
from agentreplay.replay.timeline import states
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inspect_logs import Imported, every_fixture, log_of, store_event, write

# -- patches that are not as they should be ------------------------------------------------------------------------


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
