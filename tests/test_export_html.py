"""A run as one file: it holds what was recorded, exactly and as text, and nothing in it can act."""

from __future__ import annotations

import json
import random
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.examples import refunds
from agentreplay.recorder.errors import CorruptLog, ExportFailed, UsageError
from agentreplay.recorder.events import Event
from agentreplay.recorder.hashes import same
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.payload import apply_change
from agentreplay.recorder.store import EventStore
from agentreplay.recorder.values import encode
from agentreplay.replay.diff import diff_values
from agentreplay.replay.timeline import states
from agentreplay.webui import export_data
from agentreplay.webui.export_html import html_of
from agentreplay.webui.export_values import LIMIT, ValueWriter, as_script, read_back, written
from cassette_runs import UID, record_family
from cli_runs import as_process, invoke, output
from event_builder import EventBuilder
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_insides import VALUES, edited, stored
from value_examples import values

BAD = "</script><script>x()</script><!-- \x1b[31m \u202e javascript:x() \x00 \u2028 ' \" & é"


class Page(HTMLParser):
    """What a browser makes of a file: its elements, and the text of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str | None, str]] = []
        self._within: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._within.append(tag)
        if tag in ("script", "style"):
            self.texts.append((tag, dict(attrs).get("type"), ""))

    def handle_endtag(self, tag: str) -> None:
        while self._within and self._within.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._within and self._within[-1] in ("script", "style"):
            tag, kind, text = self.texts[-1]
            self.texts[-1] = tag, kind, text + data

    @property
    def data(self) -> Any:
        """What the script reads."""
        (text,) = [text for tag, kind, text in self.texts if kind == "application/json"]
        return json.loads(text)


def page_of(events: Sequence[Event]) -> Page:
    """The page of a run of these events."""
    store = MemoryStore()
    info = store.create_run(events[0].data.agent, uid=UID(1))
    store.append(info, -1, events)
    return Page(html_of(store, store.run(UID(1))).decode())


def states_in(data: Any) -> list[Any]:
    """The payload after each step, as the script of the page works it out."""
    found: list[Any] = []
    for step in data["steps"]:
        if "gap" in step:
            found.append(read_back(step["payload"]))
            continue
        patch = []
        for name, keys, *more in step["patch"]:
            path = "".join(["/" + key.replace("~", "~0").replace("/", "~1") for key in keys])
            if name == "move":
                start = "".join(["/" + key.replace("~", "~0").replace("/", "~1") for key in more[0]])
                patch.append({"op": "move", "from": start, "path": path})
            else:
                at = more[0] - len(step["changes"]) if more else -1
                told = step["wholes"][at] if at >= 0 else step["changes"][more[0]]["new"] if more else None
                value = {"value": read_back(told)} if more else {}
                patch.append({"op": name, "path": path, **value})
        before = found[-1] if found else read_back(data["start"])
        found.append(apply_change(before, patch, "json-patch", stored=True).result)
    return found


# -- values ----------------------------------------------------------------------------------------------------------


@given(values)
@example("\ud800\udc00")  # which a browser takes for one character
@example({"\ud800\udc00": 1})
@settings(max_examples=300, deadline=None)
def test_a_value_comes_back_from_a_page_as_it_was(value: Any) -> None:
    """Types, signs, the order of keys and what JSON has no word for, through the text of a script."""
    stored = encode(value).stored
    text = as_script(written(stored))
    back = read_back(json.loads(text))
    assert same(back, stored)
    assert json.dumps(back) == json.dumps(stored)
    assert not set("<>&") & set(text)
    assert text.isascii()


def test_numbers_that_a_browser_would_change_are_texts() -> None:
    """Integers beyond 2^53 and floats; what a browser reads as it is stays a number."""
    assert written([2**53 - 1, 2**53, -(2**53), 1.0, -0.5, 1e16, 7]) == [
        9007199254740991,
        {"n": "9007199254740992"},
        {"n": "-9007199254740992"},
        {"n": "1.0"},
        {"n": "-0.5"},
        {"n": "1e+16"},
        7,
    ]
    assert written(encode(float("nan")).stored)["t"] == "nan"
    assert written(encode(b"\x00</script>").stored)["t"] == "b'\\x00</script>'"
    assert written(encode("\ud800").stored) == "\ud800"
    assert written({"2": 1, "1": 2, "__proto__": 3}) == {"o": ["2", 1, "1", 2, "__proto__", 3]}


def test_what_is_large_is_left_out_by_rule() -> None:
    """A value over 20 KB with its size, and of a text how it starts; of a payload only the parts that are large."""
    write = ValueWriter()
    assert write.value("x" * 19_000) == "x" * 19_000
    assert write.value("y" * 20_001) == {"x": "text, 20,001 characters", "s": "y" * 300}
    assert write.value(["z" * 9_000] * 3) == {"x": "3 items, 27.0 KB"}
    assert write.value({"a": "z" * 30_000}) == {"x": "1 key, 30.0 KB"}
    kept = write.payload({"a": "z" * 30_000, "b": ["z" * 9_000] * 3, "c": 1})
    assert kept == {"o": ["a", {"x": "text, 30,000 characters", "s": "z" * 300}, "b", ["z" * 9_000] * 3, "c", 1]}
    assert write.payload([0] * 1_001) == [0] * 1_001
    assert write.payload({"many": ["z" * 20] * 1_001}) == {"o": ["many", {"x": "1,001 items, 23.0 KB"}]}
    assert write.left_out == {"large": 4, "long": 1}
    with pytest.raises(ValueError, match=r"left out: text, 30,000 characters"):
        read_back(kept)


def test_a_file_that_is_full_leaves_out_what_is_not_small() -> None:
    """So a run of many middling values still gives a file that opens."""
    write = ValueWriter(room=10_000)
    assert write.value("a" * 12_000) == "a" * 12_000
    assert write.value("b" * 500) == {"x": "text, 500 characters", "s": "b" * 300}
    assert write.value("c" * 100) == "c" * 100
    assert write.left_out == {"full": 1}


# -- the page --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store() -> EventStore:
    """The example, which fails, as run1."""
    made = MemoryStore()
    refunds.step.run(refunds.START, store=made)
    return made


@pytest.fixture(scope="module")
def html(store: EventStore) -> str:
    return html_of(store, store.run("run1")).decode()


def test_a_page_holds_every_step_with_its_payload(store: EventStore, html: str) -> None:
    """What the script works out from the start and the changes is what the log says of each step."""
    data = Page(html).data
    expected = [state.stored_payload for _, state in states(store.events("run1"))]
    assert len(expected) == 11
    assert [same(*pair) for pair in zip(states_in(data), expected, strict=True)] == [True] * 11
    step = data["steps"][7]
    assert (step["n"], step["word"], step["outcome"]) == (7, "Retry", "continue")
    assert step["why"] == "The coupon SPRING takes 40 % off the total."
    assert [(change["kind"], change["display"]) for change in step["changes"]] == [
        ("replace", "order.total"),
        ("add", "totals_checked"),
    ]
    assert step["changes"][0]["cause"]["call"] == "7.1"
    assert [(call["call"], call["name"], call["status"]) for call in step["calls"]] == [("7.1", "ask", "returned")]
    assert (data["run"]["status"], data["run"]["last"]) == ("failed", 10)
    assert data["steps"][10]["error"] == "a refund of 95.50 is more than the 77.70 that was paid for A-17"


def test_a_message_is_in_a_page_once(html: str) -> None:
    """Requests that repeat the conversation name the messages, which are those that were added."""
    data = Page(html).data
    asked = [step["calls"][0]["asked"][0]["o"] for step in data["steps"][1:]]
    assert [name for name, _ in asked] == ["messages"] * 10
    assert [len(value["m"]) for _, value in asked] == [2 * n for n in range(1, 11)]
    assert asked[9][1]["m"] == list(range(20))
    assert len(data["messages"]) == 21
    assert data["steps"][10]["said"] == [19, 20]


def test_nothing_in_a_page_comes_from_elsewhere(html: str) -> None:
    """No address but places in the page itself; the policy allows its script and style by their hashes, and no more."""
    page = Page(html)
    addresses = [
        value for _, attributes in page.elements for name, value in attributes.items() if name in ("src", "href")
    ]
    assert addresses == ["#step"]
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", html)
    (policy,) = [a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    hashes = {tag: b64encode(sha256(text.encode()).digest()).decode() for tag, kind, text in page.texts if kind is None}
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes['script']}'; style-src 'sha256-{hashes['style']}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert [kind for tag, kind, _ in page.texts] == [None, "application/json", None]
    assert not [
        name for _, attributes in page.elements for name in attributes if name.startswith("on") or name == "style"
    ]


def test_a_page_has_the_colours_of_the_debugger(html: str) -> None:
    """Both schemes: all that its own style asks for."""
    style = next(text for tag, _, text in Page(html).texts if tag == "style")
    asked = set(re.findall(r"var\((--[a-z-]+)[,)]", style)) - {"--share", "--depth"}
    defined = set(re.findall(r"^ *(--[a-z-]+):", style, re.M))
    assert asked <= defined
    assert "prefers-color-scheme: dark" in style
    assert '[data-theme="dark"]' in style


def test_what_was_recorded_cannot_act_in_a_page() -> None:
    """Names, texts, keys, errors and decisions with markup in them leave the elements of the page as they are."""

    def run(word: str) -> list[Event]:
        log = EventBuilder({word: word}, input=word)
        log.begin()
        log.call(word, word, arguments={word: word})
        log.add("tool.failed", call=word, error={"type": word, "message": word, "traceback": word})
        log.add("message.added", message={"role": word, "content": word})
        log.add("report", source=word, level=word, message=word, content=word)
        log.change({"newElements": {"new" + word: word}}, reason=word, warnings=[word])
        log.add("step.decided", decision={"step": word, "reasoning": word, "errorMessage": word + word})
        log.end()
        log.finish(value=word)
        start = log.events[0].data.model_copy(update={"agent": word})
        return [log.events[0].model_copy(update={"data": start}), *log.events[1:]]

    page, plain = page_of(run(BAD)), page_of(run("plain"))
    assert page.elements[4:] == plain.elements[4:]  # before that are the policy and the title
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    step = page.data["steps"][1]
    assert (step["word"], step["calls"][0]["name"], step["changes"][0]["keys"]) == (BAD, BAD, ["new" + BAD])
    assert states_in(page.data)[1] == {BAD: BAD, "new" + BAD: BAD}


def test_changes_of_lists_are_in_a_page_in_an_order_that_applies() -> None:
    """Items that moved, came and went, and keys that look like numbers."""
    log = EventBuilder({"items": [{"id": n} for n in range(6)], "7": {"a/b~c": [1, 2]}}, applier="replace")
    for payload in (
        {"items": [{"id": 5}, {"id": 0}, {"id": 9}, {"id": 2, "x": 1}], "7": {"a/b~c": [2, 1, 3]}},
        {"items": [{"id": 2}, {"id": 5}], "7": []},
        ["another", {"kind": "of payload"}],
        None,
    ):
        log.begin()
        log.change(payload)
        log.end()
    data = page_of(log.events).data
    expected = [state.stored_payload for _, state in states(log.events)]
    assert [same(*pair) for pair in zip(states_in(data), expected, strict=True)] == [True] * 5


def test_tags_and_cost_are_in_a_page_where_they_are_known() -> None:
    """As the pages show them: of the run, and of each step what its calls cost; nothing where usage does not say."""
    store = MemoryStore()
    with ar.record("priced", store=store, tags=["nightly", BAD[:64]]) as run:
        for cost in (0.5, 0.25):
            with run.round() as r:
                r.model("m", {"q": "dear"}, lambda q, cost=cost: {"usage": {"input_tokens": 7, "cost": cost}})
        with run.round() as r:
            r.model("m", {"q": "free"}, lambda q: {"usage": {"input_tokens": 7}})
    data = Page(html_of(store, store.run("run1")).decode()).data
    assert (data["run"]["tags"], data["run"]["cost"], data["run"]["tokens"]) == (["nightly", BAD[:64]], "0.75", "21")
    assert [step["cost"] for step in data["steps"]] == ["", "0.5", "0.25", ""]
    plain = page_of(EventBuilder({}).events).data["run"]
    assert (plain["tags"], plain["cost"]) == ([], "")


@dataclass
class Asked:
    history: Any
    model: str


def test_messages_are_in_a_page_wherever_in_a_request_they_stand() -> None:
    """Nested, in fields of an object, in a tuple, under keys that are no texts: by their numbers, each once."""
    texts = [f"message {n} " + "x" * 600 for n in range(3)]
    messages = [{"role": "user", "content": text} for text in texts]
    store = MemoryStore()
    with ar.record("deep", store=store) as run, run.round() as r:
        request = {
            "messages": messages,
            "body": {"messages": messages, "n": 1},
            "asked": Asked(tuple(messages[:2]), "large"),
            "either": (messages, 7),
            "lists": [[1], messages],
            "by": {1: messages[1:]},
            "system": {"prompt": "s" * 2_000},
        }
        r.model("m", request, lambda **given: "yes")
    data = Page(html_of(store, store.run("run1")).decode()).data
    assert [read_back(message) for message in data["messages"]] == messages
    (asked,) = data["steps"][1]["calls"][0]["asked"]
    parts = dict(zip(asked["o"][::2], asked["o"][1::2], strict=True))
    assert parts == {
        "messages": {"m": [0, 1, 2]},
        "body": {"o": ["messages", {"m": [0, 1, 2]}, "n", 1]},
        "asked": {"o": ["history", {"m": [0, 1]}, "model", "large"], "t": "Asked"},
        "either": {"o": ["0", {"m": [0, 1, 2]}, "1", 7], "t": "tuple"},
        "lists": [[1], {"m": [0, 1, 2]}],
        "by": {"o": ["1", {"m": [1, 2]}], "t": "dict"},
        "system": {"o": ["prompt", "s" * 2_000]},
    }


@given(VALUES, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=60)
def test_changes_inside_of_tags_are_in_a_page_with_what_replaces_these(value: Any, chance: random.Random) -> None:
    """They are told as `diff` tells them, and the payload after each step is what the log says."""
    payloads = [{"p": edited(value, chance)}, {"p": value}, {"p": edited(value, chance)}]
    store = MemoryStore()
    with ar.record("inside", payloads[0], store=store, applier="replace") as run:
        for payload in payloads[1:]:
            with run.round() as r:
                r.change(payload=payload)
    data = Page(html_of(store, store.run("run1")).decode()).data
    assert [same(*pair) for pair in zip(states_in(data), map(stored, payloads), strict=True)] == [True] * 3
    for step, (before, after) in zip(data["steps"][1:], pairwise(map(stored, payloads)), strict=True):
        expected = diff_values(before, after, inside_tags=True)
        assert [(change["kind"], change["keys"]) for change in step["changes"]] == [
            (change.kind, list(change.keys)) for change in expected
        ]


def test_long_runs_are_cut_in_the_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps at both ends are there, and the payload behind the gap; the page says which steps are not."""
    monkeypatch.setattr(export_data, "STEPS", 6)
    log = EventBuilder({"n": 0})
    for n in range(1, 11):
        log.begin()
        log.call(f"{n}.1", "ask", "model", request={"messages": [{"role": "user", "content": str(n)}]})
        log.change({"updateElements": {"n": n}})
        log.end()
    data = page_of(log.events).data
    assert [step.get("gap") or step["n"] for step in data["steps"]] == [0, 1, 2, 3, [4, 7], 8, 9, 10]
    assert [state["n"] for state in states_in(data)] == [0, 1, 2, 3, 7, 8, 9, 10]
    assert data["left_out"]["steps"] == [4, 7]
    assert len(data["messages"]) == 6
    monkeypatch.setattr(export_data, "STEPS", 10)
    assert page_of(log.events).data["left_out"]["steps"] is None


def test_large_values_of_calls_are_not_even_read() -> None:
    """They stand in the page by their size; smaller ones that stand elsewhere in the store are in it."""
    store = MemoryStore()
    record_family(store)
    data = Page(html_of(store, store.run(UID(1))).decode()).data
    asked = data["steps"][2]["calls"][1]["asked"][0]["o"]
    assert asked[:2] == ["document", {"x": "a value of 96.0 KB"}]
    assert data["left_out"]["large"] == 4
    text = "y" * 12_000
    log = EventBuilder({})
    log.begin()
    log.call("1.1", "read", arguments={str(n): text for n in range(6)})
    log.end()
    (call,) = page_of(log.events).data["steps"][1]["calls"]
    assert call["asked"][0]["o"][1::2] == [text] * 6
    assert len(text) < LIMIT


def test_a_run_in_progress_can_be_written() -> None:
    """As far as it is now: a call in flight, a round that goes on."""
    log = EventBuilder({"a": 1})
    log.begin()
    log.call("1.1", "wait")
    data = page_of(log.events).data
    assert (data["steps"][1]["outcome"], data["steps"][1]["calls"][0]["status"]) == (None, "open")
    assert (data["run"]["took"], data["run"]["value"], data["run"]["error"]) == ("", None, None)


def test_a_page_is_the_same_each_time(store: EventStore, html: str) -> None:
    """Nothing of when or where it was written is in it."""
    assert html_of(store, store.run("run1")).decode() == html


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    record_family(ar.open_store())
    return tmp_path


def test_a_page_is_written_as_a_file(home: Path) -> None:
    """By the verb, which says how large it is, through a pipe, and from Python; the same bytes."""
    text = output("export", "run1", "a.html", "--format", "html")
    assert re.fullmatch(r"run1 → a\.html  \d+\.\d KB, opens in any browser\n", text)
    page = Path("a.html").read_bytes()
    assert page.startswith(b"<!doctype html>")
    assert as_process("export", "run1", "--format", "html").stdout.encode() == page
    assert ar.export_run("run1", "b.html", format="html") == Path("b.html")
    assert Path("b.html").read_bytes() == page
    assert sorted(path.name for path in home.iterdir() if path.name[0] != ".") == ["a.html", "b.html"]


def test_a_page_takes_the_place_of_a_file_as_a_whole_or_not_at_all(home: Path) -> None:
    """A damaged log, or a folder that is not there, leaves what there was."""
    Path("a.html").write_text("before")
    store = MemoryStore()
    record_family(store)
    row = next(row for row in store.rows("run1") if row.kind == "round.finished")
    row.body = b"{"
    with pytest.raises(CorruptLog):
        ar.export_run("run1", "a.html", format="html", store=store)
    assert Path("a.html").read_text() == "before"
    with pytest.raises(ExportFailed):
        ar.export_run("run1", "missing/a.html", format="html")
    with pytest.raises(UsageError, match="expected cassette, html"):
        ar.export_run("run1", "a.html", format="pdf")
    assert invoke("export", "run1", "a.html", "--format", "pdf").exit_code == 2
    assert Path("a.html").read_text() == "before"
