"""What streamed calls gave is shown wherever a call is: how many chunks, and the text that they are together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.locate import open_store
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.replay.compare import compare_runs
from agentreplay.replay.streamed import Streamed
from agentreplay.webui.export_html import html_of
from cli_runs import output
from test_export_html import Page
from web import client_of, page


def delta(text: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text, **more}}]}


def block(index: int, **change: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": change}


@pytest.mark.parametrize(
    ("chunks", "line"),
    [
        (["It is ", "on its way."], '2 chunks: "It is on its way."'),
        ([delta("", role="assistant"), delta("Hel"), delta("lo")], '3 chunks: "Hello"'),
        ([block(0, text="Hi "), block(0, text="you"), block(1, partial_json='{"a"')], '3 chunks: "Hi you"'),
        ([block(0, text="a"), block(1, text="x"), block(0, text="b"), block(1, text="y")], '4 chunks: "ab\\nxy"'),
        ([{"delta": "Hi "}, {"delta": "you"}, {"text": "Hi you"}], '3 chunks: "Hi you"'),
        ([{"$type": "bytes", "base64": "w6"}, 1], '2 chunks: [bytes(base64="w6"), 1]'),
        ([{"$type": "bytes", "base64": "ww=="}, {"$type": "bytes", "base64": "qQ=="}], '2 chunks: "é"'),
        ([{"row": 1}, {"row": 2}], '2 chunks: [{"row": 1}, {"row": 2}]'),
        ([], "0 chunks"),
    ],
)
def test_chunks_are_told_as_the_text_that_they_are(chunks: list[Any], line: str) -> None:
    """Texts, deltas of several makers, several blocks beside each other, bytes cut within a letter; else the chunks."""
    assert Streamed(chunks).line(200) == line


def test_chunks_that_were_not_kept_are_counted() -> None:
    """And a stream that its consumer left says so."""
    assert Streamed(["a", "b"], dropped=5).line(200) == '7 chunks: "ab"'
    assert Streamed(["a"], abandoned=True).line(200) == '1 chunk, then left unread: "a"'


def answer(messages: list[str]) -> Iterator[str]:
    yield from ["It is ", "on its ", messages[-1]]


def record(store: Any, last: str = "way.") -> None:
    with ar.record("streams", payload={}, store=store) as run, run.round() as r:
        r.change(new={"said": "".join(r.model("some-model", {"messages": [last]}, answer))})


def test_the_terminal_shows_what_was_streamed(tmp_path: Path) -> None:
    """The steps of a run, what one step did, and the events as they come."""
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    record(store)
    options = ("--store", store.url)
    assert 'gave   3 chunks: "It is on its way."' in output("show", "run1", "--step", 1, *options)
    assert 'gave   3 chunks: "It is on its way."' in output("diff", "run1", "--step", 1, *options)
    assert '3 chunks: "It is on its way."' in output("tail", "run1", *options)


def test_pages_and_files_show_what_was_streamed() -> None:
    """In the line of the call, and in full with its chunks; `null` is nowhere."""
    store = MemoryStore()
    record(store)
    client = client_of(store)
    text = page(client, "/runs/run1/steps/1")
    assert "<bdi>3 chunks: &#34;It is on its way.&#34;</bdi>" in text
    assert '<h4>streamed <span class="quiet">3 chunks</span></h4>' in text
    assert '<span class="lines">It is on its way.</span>' in text
    assert "<h4>answered</h4>" not in text
    (call,) = client.get("/api/v1/runs/run1/steps/1").get_json()["step"]["calls"]
    assert call["chunks"] == 3
    (call,) = Page(html_of(store, store.run(1)).decode()).data["steps"][1]["calls"]
    assert (call["gave"], call["streamed"]) == (None, ["3 chunks", "It is on its way.", None])


def test_runs_that_streamed_something_else_differ() -> None:
    """Where only the chunks are others: in the result of that call, not in what came of it."""
    store = MemoryStore()
    for last in ("way.", "head."):
        with ar.record("streams", payload={}, store=store) as run, run.round() as r:
            list(r.model("some-model", {}, lambda last=last: (text for text in [last])))
    assert [difference.kind for difference in compare_runs(store.run(1), store.run(1), store).differences] == []
    (found,) = compare_runs(store.run(1), store.run(2), store).differences
    assert (found.kind, found.path, found.expected, found.actual) == ("another result", "/stream/0", "way.", "head.")
