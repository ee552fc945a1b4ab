"""A run in a file, in a browser: its tags and cost, messages wherever they stand, and what is left of a damaged one."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.webui.export_html import html_of
from looking import expect_fit, expect_readable
from playwright.sync_api import BrowserContext, Page, expect


@dataclass
class Asked:
    history: Any
    model: str


def files(folder: Path) -> tuple[Path, Path, Path]:
    """A run with tags, a cost and messages within values; the same with a damaged event; a change inside of a value."""
    store = MemoryStore()
    messages = [{"role": "user", "content": f"message {n} " + "x" * 600} for n in range(3)]
    with ar.record("deep", store=store, tags=["nightly", "<b>bold</b>", "three", "four"]) as run:
        for _ in range(2):
            with run.round() as r:
                request = {"asked": Asked(messages, "large"), "body": {"messages": messages}}
                r.model("m", request, lambda **given: {"usage": {"cost": 0.5}})
    whole, part, inside = folder / "whole.html", folder / "part.html", folder / "inside.html"
    whole.write_bytes(html_of(store, store.run("run1")))
    damaged = next(row for row in store.rows("run1") if row.kind == "model.returned" and row.round == 2)
    damaged.body = b"{"
    part.write_bytes(html_of(store, store.run("run1"), in_part=True))
    with ar.record("inside", {"asked": Asked((1,), "large"), "n": 1}, store=store) as run, run.round() as r:
        r.change(payload={"asked": Asked((1,), "small"), "n": 1})
    inside.write_bytes(html_of(store, store.run("run2")))
    return whole, part, inside


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """The files; recorded in a thread of their own, apart from the event loop of Playwright."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(files, tmp_path_factory.mktemp("written")).result()


@pytest.fixture
def tab(context: BrowserContext) -> Iterator[Page]:
    """A tab in which nothing may go wrong."""
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    page.close()
    assert problems == []


def test_messages_open_where_they_stand_in_a_request(tab: Page, written: tuple[Path, Path, Path]) -> None:
    """In a field of an object and in a nested object: a line with their number, which opens them."""
    tab.goto(written[0].as_uri())
    expect(tab.locator("#tags .tag")).to_have_text(["nightly", "<b>bold</b>", "three"])
    expect(tab.locator("#tags")).to_contain_text("and 1 more")
    expect(tab.locator("#facts")).to_contain_text("cost 1")
    expect(tab.locator("#head")).to_contain_text("cost 0.5")
    call = tab.locator(".call")
    call.locator("summary").first.click()
    expect(call).to_contain_text("Asked {2 keys}")
    call.get_by_text("(3 messages)", exact=True).first.click()
    expect(call.locator(".message")).to_have_count(3)
    expect(call.locator(".message").nth(1)).to_contain_text("message 1 xxx")


def test_a_damaged_run_in_a_file_says_so(tab: Page, written: tuple[Path, Path, Path]) -> None:
    """Above the steps that are there, at any width."""
    tab.goto(written[1].as_uri())
    notice = tab.get_by_role("alert")
    expect(notice).to_contain_text("The steps up to 1 are here, those after it cannot be worked out.")
    expect(notice).to_contain_text("(model.returned)")
    expect(tab.locator("#steps .row")).to_have_count(2)
    expect_fit(tab)
    tab.goto(written[0].as_uri())
    expect(tab.locator("#steps .row")).to_have_count(3)
    expect(tab.locator("#damage")).to_be_hidden()


def test_what_changed_inside_of_a_value_is_told_and_marked(tab: Page, written: tuple[Path, Path, Path]) -> None:
    """In the list by its own path, which leads to the value that it is in."""
    tab.goto(written[2].as_uri())
    expect(tab.locator(".change")).to_have_count(1)
    expect(tab.locator(".change")).to_contain_text('asked.model "large" → "small"')
    row = tab.locator("#payload li.replace")
    expect(row).to_contain_text('Asked(history=(1,), model="small")')
    tab.locator(".change .path").click()
    expect(row).to_have_class("replace found")
    tab.keyboard.press("ArrowLeft")
    expect(tab.locator("#payload")).to_contain_text('model="large"')


def hard_to_show(folder: Path) -> Path:
    """A run whose texts differ in what is hardly seen, with changes behind folds, odd keys and endless names."""
    store = MemoryStore()
    before: dict[str, Any] = {
        "spaces": "a b",
        "lines": "a\nb\nc",
        "tab": "a\nb\\tc",
        "wide": {f"k{at:02}": at for at in range(70)},
        "odd": {"$type": "fake", "half \ud800": 1, "n": 1},
        "huge": 16**1000,
    }
    after = before | {"spaces": "a  b", "lines": "a\r\nb\nc", "tab": "a\nb\tc", "odd": before["odd"] | {"n": 2}}
    after["wide"] = before["wide"] | {"k40": "new", "k60": "new"}
    with ar.record("two  spaces", before, store=store) as run:
        with run.round() as r:
            r.tool("n" * 10_000, {"m" * 10_000: 1}, lambda **given: "done")
            r.change(payload=after)
            r.decide(step="w" * 10_000)
        run.complete("done")
    file = folder / "hard.html"
    file.write_bytes(html_of(store, store.run("run1")))
    return file


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its file."""
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(hard_to_show, tmp_path_factory.mktemp("hard")).result()


def test_what_is_hardly_seen_is_told_apart_in_a_file(tab: Page, hard: Path) -> None:
    """Two spaces are two, a carriage return and a tab are escapes, also among lines."""
    tab.goto(hard.as_uri())
    payload = tab.locator("#payload").inner_text()
    for shown in ('spaces "a  b" was "a b"', "a\\r\nb\nc", "a\nb\\tc", "0x1" + "0" * 300):
        assert shown in payload
    assert "two  spaces" in tab.locator("#title").inner_text()
    tab.keyboard.press("ArrowLeft")
    assert "a\nb\\\\tc" in tab.locator("#payload").inner_text()


def test_a_file_shows_each_key_once_and_in_order(tab: Page, hard: Path) -> None:
    """What is folded between two changes is between them."""
    tab.goto(hard.as_uri())
    wide = tab.locator("#payload li.inside", has_text="wide")
    expect(wide.locator("li.rest")).to_have_text(["20 more keys", "19 more keys", "9 more keys"])
    for _ in range(3):
        wide.locator("li.rest button").first.click()
    keys = wide.locator("ul .key").all_inner_texts()
    assert [key.strip() for key in keys] == [f"k{at:02}" for at in range(70)]


def test_an_object_with_odd_keys_changes_in_a_file_as_any_other(tab: Page, hard: Path) -> None:
    """It is opened, and its values before and after are those that were recorded."""
    tab.goto(hard.as_uri())
    odd = tab.locator("#payload li.inside", has_text="odd")
    expect(odd.locator("li")).to_have_text(['$type "fake"', "half \\ud800 1", "~n 2 was 1"])
    tab.keyboard.press("ArrowLeft")
    expect(tab.locator("#payload li", has_text="odd")).to_have_text('odd {"$type": "fake", "half \\ud800": 1, "n": 1}')


def test_names_of_ten_thousand_characters_are_cut_in_a_file(tab: Page, hard: Path) -> None:
    """Of steps, tools and arguments; the file fits every window, and axe-core finds nothing in it."""
    tab.goto(hard.as_uri())
    expect_fit(tab)
    expect_readable(tab)
    assert len(tab.locator("#head h2").inner_text()) < 120
    assert len(tab.locator(".call summary").inner_text()) < 260
    assert len(tab.locator("#steps").inner_text()) < 200
