"""What was recorded is text on every page, whatever it looks like."""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from web import client_of

MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
EVIL = MARKUP + "\x1b[31m\u202e\u2066\u200b\x00\x7f{{7*7}}{% raw %}'\"`"
ACTING = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
ADDRESSES = ("href", "src", "action", "data-src", "data-rows", "data-values", "data-blame")
TAGS = """html head meta title link script body a header nav main section article div span p ol ul li dl dt dd table
    thead tbody tr th td form input select option button label details summary dialog h1 h2 h3 h4 bdi code kbd b
    del ins mark time svg g rect polyline noscript"""
LONG = "<b>" + "n" * 10_000

PAGES = [
    "/runs",
    "/runs?q=%3Cscript%3E&status=failed",
    "/runs/run1",
    "/runs/run1/steps/0",
    "/runs/run1/steps/1",
    "/runs/run1/steps/2",
    "/runs/run1/steps/1?part=messages",
    "/runs/run1/steps/1/detail",
    "/runs/run1/steps/1/value?path=/evil",
    "/runs/run1/steps/1/value?path=/evil&from=20",
    "/runs/run1/rows",
    "/runs/run1/picture",
    "/runs/run1/head",
    "/runs/run1/events",
    "/runs/run1/search?q=alert",
    "/runs/run1/search?q=%3C/script%3E%3Cscript%3E%E2%80%AE",
    "/runs/run1/blame?path=/evil/big",
    "/diff?from=run1:1&to=run1:2",
    "/diff?from=run1:0&to=run1:2",
    "/diff?to=run1:2&part=messages",
    "/diff",
    "/health",
    "/runs/%3Cscript%3E",
    "/runs/run1/steps/1?part=%3Cscript%3E",
    "/diff?from=%3Cscript%3E&to=%E2%80%AE:1",
    "/%3Cscript%3Ealert(1)%3C/script%3E",
]


@cache
def hostile() -> MemoryStore:
    """A store with a run in which every name and value is meant to be more than text."""
    store = MemoryStore()
    record_hostile(store)
    return store


def record_hostile(store: EventStore) -> None:
    """Record a run of two rounds in which every name and value is meant to be more than text."""
    evil: dict[str, Any] = {
        "text": EVIL,
        "link": "javascript:alert(1)",
        "big": 2**53 + 1,
        "nan": float("nan"),
        "bytes": b"<script>\xff",
        "surrogate": "\ud800",
        "null": None,
        EVIL: {EVIL: EVIL},
        LONG: {"inner": {"deep": 1}},
        "": "no name",
        "a/b~c": 1,
        "long": EVIL * 400,
        "lines": "\n".join([EVIL] * 20),
        "keys": {1: EVIL, "1": 2, None: 3},
        "wide": {f"key{at}": EVIL for at in range(60)},
        "list": [EVIL] * 80,
    }

    def tool(**_arguments: Any) -> None:
        raise ValueError(EVIL)

    with ar.record(f"agent{EVIL}", payload={"start": EVIL}, input=EVIL, store=store) as run:
        run.messages.append({"role": EVIL, "content": EVIL, EVIL: EVIL})
        with run.round() as r:
            with pytest.raises(ValueError, match="alert"):
                r.tool(f"tool{EVIL}{LONG}", {EVIL: EVIL, "evil": evil}, tool)
            r.model(EVIL, {"messages": [{"role": "user", "content": EVIL}]}, lambda messages: {"content": EVIL})
            r.change(new={"evil": evil}, reason=EVIL)
            r.report(EVIL)
            r.decide(step=EVIL, reasoning=EVIL + "\n\n" + EVIL)
        with run.round() as r:
            edits = [
                {"op": "replace", "path": "/evil/big", "value": 2**53 + 2},
                {"op": "replace", "path": "/evil/long", "value": EVIL * 200 + "changed" + EVIL * 200},
                {"op": "remove", "path": "/evil/null"},
                {"op": "move", "from": "/evil/list/0", "path": "/evil/list/4"},
            ]
            r.change(patch=edits, reason=EVIL)
            r.decide(step="Failed", errorMessage=EVIL)
        run.complete(EVIL)


class Markup(HTMLParser):
    """Gathers what a page could do: its tags, the attributes that act, its addresses, its text."""

    ALLOWED = frozenset(TAGS.split())

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.problems: list[str] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag not in self.ALLOWED:
            self.problems.append(f"<{tag}>")
        if tag == "script" and not re.fullmatch(r"/static/[a-z]+\.js\?v=[0-9a-f]{12}", given.get("src") or ""):
            self.problems.append(f"script {given}")
        for name, value in attrs:
            if name.startswith("on") or name in ("style", "srcdoc", "formaction", "background", "http-equiv"):
                self.problems.append(f"{tag} {name}")
            if name in ADDRESSES and value and not re.match(r"/(?!/)|#|\?", value):
                self.problems.append(f"{tag} {name}={value[:80]!r}")

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("url", PAGES)
def test_nothing_recorded_becomes_markup(url: str) -> None:
    """No element, attribute or address on any page comes from a recording or from what was asked."""
    text = client_of(hostile()).get(url).get_data(as_text=True)
    found = Markup(text)
    assert found.problems == []
    assert "49{%" not in text  # a template in a value is not carried out


@pytest.mark.parametrize("url", PAGES)
def test_nothing_acts_or_hides(url: str) -> None:
    """Escape sequences, marks that turn text round and characters of no width are written out, in attributes too."""
    text = client_of(hostile()).get(url).get_data(as_text=True)
    assert (
        re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]", text)
        == []
    )


@pytest.mark.parametrize("url", PAGES)
def test_no_page_is_large(url: str) -> None:
    """Names of ten thousand characters and long values do not make a page of more than 300 KB."""
    assert len(client_of(hostile()).get(url).data) < 300_000


def test_what_is_hostile_is_visible() -> None:
    """It is shown, as it is, and not dropped."""
    text = "".join(Markup(client_of(hostile()).get("/runs/run1/steps/1").get_data(as_text=True)).text)
    assert "</script><script>alert(1)</script><img src=x onerror=alert(1)>" in text
    assert "\\x1b[31m\\u202e\\u2066\\u200b\\x00\\x7f{{7*7}}{% raw %}" in text


def test_exact_values_stay_exact() -> None:
    """In the page, and in the answer of the API, where they are text in their tags."""
    client = client_of(hostile())
    text = "".join(Markup(client.get("/runs/run1/steps/2").get_data(as_text=True)).text)
    assert "9007199254740993 → 9007199254740994" in re.sub(r"\s+", " ", text)
    answer = client.get("/api/v1/runs/run1/steps/2/state?path=/evil/big")
    assert answer.data == b'{"$type":"int","value":"9007199254740994"}'
    assert client.get("/api/v1/runs/run1/steps/1/state?path=/evil/null").data == b"null"
    assert client.get("/api/v1/runs/run1/steps/2/state?path=/evil/null").status_code == 404


def test_a_name_that_no_path_holds_is_an_address() -> None:
    """Slashes, tildes, quotes and the empty name are found at the addresses that the page has for them."""
    client = client_of(hostile())
    text = client.get("/runs/run1/steps/1/value?path=/evil", headers={"X-Part": "1"}).get_data(as_text=True)
    for href in re.findall(r'href="(/[^"]+)"', text):
        assert client.get(href.replace("&amp;", "&"), headers={"X-Part": "1"}).status_code == 200
