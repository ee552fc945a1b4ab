"""Runs that are recorded while somebody looks: pages go along by themselves, and never where nobody wants to go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import Tabs, served
from playwright.sync_api import expect
from stage import recorded
from stepping import stepping


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("live"))


@pytest.fixture(scope="module")
def address(store: Path) -> Iterator[str]:
    """A server over that store, in which each test has a run of its own."""
    with served(store, store.parent / "said") as found:
        yield found


def test_the_first_run_takes_the_place_of_how_to_record_it(tabs: Tabs, tmp_path: Path) -> None:
    """An empty list says what to do, and shows the run as soon as it begins; its steps count up, and it ends."""
    store = recorded(tmp_path)
    with tabs.on(store, tmp_path / "said"):
        page = tabs.open()
        expect(page.get_by_role("heading", name="No runs yet")).to_be_visible()
        expect(page.locator(".commands button")).to_have_text(
            ["agentreplay demo", "agentreplay run agent.py:step", "agentreplay import run.jsonl"]
        )
        with stepping(store) as run:
            row = page.locator(f"tr[data-key={run.id}]")
            expect(row).to_contain_text("stepping")
            expect(row.locator(".status")).to_have_text("● running")
            run.step(2)
            expect(row.locator("td").nth(3)).to_have_text("2")
            run.complete()
            expect(row.locator(".status")).to_have_text("✓ completed")


def test_new_steps_come_in_by_themselves_where_the_end_is_seen(tabs: Tabs, store: Path) -> None:
    """The list grows, the slider is longer, and the step that is looked at stays; the end of the run is told."""
    with stepping(store) as run:
        run.step(2)
        page = tabs.open(f"/runs/{run.id}/steps/1")
        expect(page.locator("#detail h2")).to_contain_text("Step 1 · Retry")
        run.step(3)
        expect(page.locator("a.step[data-step='5']")).to_be_visible()
        expect(page.get_by_role("slider")).to_have_attribute("max", "5")
        expect(page.locator("#head")).to_contain_text("running")
        expect(page.locator("#detail h2")).to_contain_text("Step 1 · Retry")
        page.locator("a.step[data-step='5']").click()
        expect(page.locator("#changes")).to_contain_text("n 4 → 5")
        run.complete()
        expect(page.locator("#head")).to_contain_text("✓ completed")
        expect(page.get_by_role("button", name="new")).to_be_hidden()


def test_who_has_scrolled_away_is_told_how_many_steps_are_new(tabs: Tabs, store: Path) -> None:
    """The list stays where it is; one click goes to the newest."""
    with stepping(store) as run:
        run.step(60)
        page = tabs.open(f"/runs/{run.id}/steps/3")
        expect(page.locator("a.step[data-step='3']")).to_be_in_viewport()
        page.locator("#steps").evaluate("list => { list.scrollTop = 0; }")
        run.step(12)
        new = page.get_by_role("button", name="new")
        expect(new).to_have_text("12 new")
        assert page.locator("#steps").evaluate("list => list.scrollTop") == 0
        new.click()
        expect(page.locator("a.step[data-step='72']")).to_be_in_viewport()
        expect(new).to_be_hidden()


def test_a_crash_shows_what_was_in_flight(tabs: Tabs, store: Path) -> None:
    """And no other page is held up by it."""
    with stepping(store) as run:
        run.step(2)
        page = tabs.open(f"/runs/{run.id}")
        expect(page.locator("#head")).to_contain_text("● running")
        run.kill()
        expect(page.locator("#head")).to_contain_text("✕ crashed")
    page = tabs.open()
    expect(page.locator(f"tr[data-key={run.id}] .status")).to_have_text("✕ crashed")


def test_a_server_that_is_gone_is_told_and_not_waited_for(tabs: Tabs, store: Path, tmp_path: Path) -> None:
    """What is in the page stays, and what needs the server says that it does not answer."""
    with stepping(store) as run:
        run.step(3)
        run.complete()
    with tabs.on(store, tmp_path / "said"):
        page = tabs.open(f"/runs/{run.id}/steps/1")
        expect(page.locator("#changes")).to_contain_text("n 0 → 1")
        tabs.expect_no_server()
    page.get_by_role("slider").fill("3")
    expect(page.get_by_role("status").first).to_have_text("The server does not answer. Is it still running?")
    expect(page.locator("#changes")).to_contain_text("n 0 → 1")
