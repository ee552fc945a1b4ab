"""The list of runs in a browser: what it shows, and how a run is found in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from browsing import Tabs, expect_path, served
from playwright.sync_api import Route, expect
from stage import record_many, record_refunds, recorded


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """run1 to run3 are the example's, run4 to run58 short ones of three agents."""
    folder = tmp_path_factory.mktemp("runs")
    with served(recorded(folder, record_refunds, lambda store: record_many(store, 55)), folder / "said") as found:
        yield found


def test_the_newest_run_is_on_top_and_the_rest_a_page_further(tabs: Tabs) -> None:
    """Fifty on a page, and an address for the next."""
    page = tabs.open("/")
    expect(page).to_have_title("Runs · agentreplay")
    names = page.locator("tbody a.name")
    expect(names).to_have_count(50)
    expect(names.first).to_have_text("run58")
    page.get_by_role("link", name="Next page").click()
    expect(names).to_have_count(8)
    expect(names.last).to_have_text("run1")
    page.get_by_role("link", name="First page").click()
    expect(names.first).to_have_text("run58")


def test_a_status_and_an_agent_are_chosen_without_a_button(tabs: Tabs) -> None:
    """A choice is an address that can be shared, and is undone by one link."""
    page = tabs.open()
    page.get_by_label("Status").select_option("failed")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("a refund of 95.50 is more than the 77.70 that was paid for A-17")
    page.get_by_role("link", name="Clear").click()
    page.get_by_label("Agent", exact=True).select_option("agent 1")
    expect(page.locator("tbody tr")).to_have_count(18)
    expect_path(page, "/runs?q=&in=&status=&agent=agent+1")
    assert tabs.open("/runs?q=&status=&agent=agent+1").locator("tbody tr").count() == 18


def test_a_slash_begins_a_search_and_what_does_not_fit_says_so(tabs: Tabs) -> None:
    """Names of agents and errors are searched; nothing found leads back to all."""
    page = tabs.open()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("refund of 95")
    page.keyboard.press("Enter")
    expect(page.locator("tbody a.name")).to_have_text(["run1"])
    page.keyboard.press("/")
    page.keyboard.type("no such thing")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="No run fits")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    expect(page.locator("tbody tr")).to_have_count(50)


def test_a_column_sorts_down_and_then_up(tabs: Tabs) -> None:
    """The order is told to the eye by an arrow and to a screen reader; runs alike stand by their numbers."""
    page = tabs.open()
    head, names = page.get_by_role("columnheader", name="steps"), page.locator("tbody a.name")
    assert head.get_attribute("aria-sort") is None
    head.get_by_role("link").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    assert names.all_text_contents()[:3] == ["run3", "run1", "run58"]
    head.get_by_role("link").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert names.all_text_contents()[:2] == ["run2", "run4"]
    expect_path(page, "/runs?sort=steps")


def test_arrows_move_in_the_list_and_enter_opens_a_run(tabs: Tabs) -> None:
    """The focus goes from run to run, and stays in the list at its ends."""
    page = tabs.open("/runs?agent=refunds")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="run3", exact=True)).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("tbody tr[data-key=run1] a.name")).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="run1 refunds")).to_be_visible()


def test_a_run_leads_to_the_one_that_it_comes_from(tabs: Tabs) -> None:
    """A fork and a child run name it."""
    page = tabs.open("/runs?q=refunds&sort=run")
    expect(page.locator("tr[data-key=run3]")).to_contain_text("fork of run1")
    page.locator("tr[data-key=run3]").get_by_role("link", name="run1").click()
    expect(page.get_by_role("heading", name="run1 refunds")).to_be_visible()


def test_a_list_in_which_no_run_fits_is_brought_up_to_date_where_it_stands(tabs: Tabs) -> None:
    """It follows what is recorded, too; what came is put into the page, which is not loaded again."""
    page = tabs.open("/health")
    held: list[Route] = []
    page.route(re.compile("part=table"), lambda route: held.append(route))
    with page.expect_request(re.compile("part=table")):
        page.goto(f"{tabs.address}/runs?q=no+such+thing")
    page.locator("#runs .notice").evaluate("notice => { notice.id = 'before'; window.not_loaded_again = true; }")
    held[0].continue_()
    expect(page.locator("#before")).to_have_count(0)
    expect(page.get_by_role("heading", name="No run fits")).to_be_visible()
    assert page.evaluate("window.not_loaded_again")
    page.unroute_all()


def test_a_value_is_found_in_all_runs_and_leads_to_its_step(tabs: Tabs) -> None:
    """By the choice beside the search; the newest run comes first, and a hit opens the step at its event."""
    page = tabs.open()
    page.get_by_label("Search", exact=True).fill("needle 5")
    page.get_by_label("Where to search").select_option("in values")
    expect(page.get_by_text(re.compile("Searched [0-9]+ of 58 runs"))).to_be_visible()
    expect(page.get_by_role("heading", name=re.compile("^run58 agent 0"))).to_be_visible()
    assert page.locator("section.found").first.get_attribute("aria-label") == "run58"
    page.locator("section.found").first.get_by_role("link", name=re.compile("step 1 tool.called")).click()
    expect_path(page, "/runs/run58/steps/1#e2")
    expect(page.get_by_role("heading", name="run58 agent 0")).to_be_visible()
