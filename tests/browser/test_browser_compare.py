"""Two steps, two runs and a tree of forks in a browser, and how the store is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browsing import Tabs, expect_path, served
from playwright.sync_api import expect
from stage import record_refunds, recorded


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """run1 fails, run2 is its child, run3 the same from step 7 on, put right."""
    folder = tmp_path_factory.mktemp("compare")
    with served(recorded(folder, record_refunds), folder / "said") as found:
        yield found


def test_a_difference_stands_as_a_list_and_side_by_side(tabs: Tabs) -> None:
    """Each change with its sign and what did it; what is the same is folded to a count."""
    page = tabs.open("/diff?from=run1:0&to=run1:7")
    listed = page.get_by_role("region", name="Changes")
    expect(listed.locator(".decisions li")).to_have_count(7)
    expect(listed.locator(".change")).to_have_count(7)
    expect(listed.locator(".change.add").first.locator(".sign")).to_have_text("+")
    page.goto(f"{tabs.address}/diff?from=run1:6&to=run1:7")
    sides = page.get_by_role("region", name="Side by side")
    expect(sides.locator("tr.replace td")).to_have_text(["129.5", "77.7"])
    expect(sides.locator("tr.folded").first).to_have_text("… 4 unchanged")
    page.get_by_role("link", name="the other way round").click()
    expect(page.locator("tr.replace td")).to_have_text(["77.7", "129.5"])


@pytest.mark.parametrize("place", [".changes", ".sides"])
def test_a_path_in_a_difference_is_clicked_for_its_blame(tabs: Tabs, place: str) -> None:
    """In the list and side by side; the key does the same for the path that has the focus."""
    page = tabs.open("/diff?from=run1:6&to=run1:7")
    total = page.locator(place).get_by_role("link", name="total", exact=place == ".sides").first
    total.click()
    told = page.get_by_role("dialog")
    expect(told.locator(".blame > li").first).to_contain_text("129.5 → 77.7")
    told.get_by_role("button", name="Close").click()
    total.focus()
    page.keyboard.press("b")
    expect(told.locator(".blame > li")).to_have_count(2)


def test_arrows_go_on_a_step_with_both_sides(tabs: Tabs) -> None:
    """And the part of the state is chosen without a button."""
    page = tabs.open("/diff?from=run1:6&to=run1:7")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("textbox", name="to")).to_have_value("run1:8")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("textbox", name="to")).to_have_value("run1:7")
    page.get_by_label("Part of the state").select_option("messages")
    expect(page.get_by_role("heading", name="2 changes: 2 added")).to_be_visible()


def test_two_steps_are_asked_for_by_name(tabs: Tabs) -> None:
    """Without any the page asks; a name that is none says what is wrong."""
    page = tabs.open("/diff")
    page.keyboard.press("/")
    page.keyboard.type("run1:6")
    page.get_by_label("to").fill("run3:7")
    page.keyboard.press("Enter")
    expect(page.locator(".change", has_text="order.coupon.used")).to_be_visible()
    tabs.expect_status(404)
    page.goto(f"{tabs.address}/diff?from=run1:6&to=run1:99")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.locator("main")).to_contain_text("run1 has no step 99: it has steps 0 (the start) to 10")


def test_blame_has_an_address_of_its_own(tabs: Tabs) -> None:
    """Newest first, each with its reason and its step."""
    page = tabs.open("/runs/run1/blame?path=/order/total")
    expect(page.locator(".blame > li")).to_have_count(2)
    page.get_by_role("link", name="model ask, step 7").click()
    expect(page.locator("#detail h2")).to_contain_text("Step 7 · Retry")


def test_all_events_are_listed_and_each_opens(tabs: Tabs) -> None:
    """↓ goes from event to event, and Enter shows what is in it."""
    page = tabs.open("/runs/run1/steps/9")
    page.get_by_role("region", name="Events").locator("summary").first.click()
    page.get_by_role("link", name="All events of the run").click()
    page.goto(f"{tabs.address}/runs/run1/events")
    expect(page.locator(".events > li")).to_have_count(92)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    first = page.locator("#e0")
    expect(first.locator(".node", has_text="agent").first).to_contain_text('"refunds"')


def test_two_runs_open_at_their_first_difference(tabs: Tabs) -> None:
    """The pair that parts is chosen, the reason in view; arrows and rows lead to the other differences."""
    page = tabs.open("/compare/run1/run3")
    expect(page.locator(".pairrow.first")).to_contain_text("7")
    told = page.get_by_role("region", name="What differs")
    expect(told.get_by_role("heading", name="The first difference")).to_be_in_viewport()
    expect(told.locator(".difference.first")).to_contain_text("order.coupon.used true")
    page.keyboard.press("ArrowRight")
    expect(page.locator("a[aria-current]")).to_contain_text("8")
    page.locator(".pairrow a").last.click()
    expect(page.locator("a[aria-current]")).to_contain_text("Success")
    page.get_by_role("link", name="payloads side by side").click()
    expect(page.locator(".change", has_text="receipt").first).to_be_visible()


def test_runs_to_compare_are_chosen_from_a_list(tabs: Tabs) -> None:
    """From the page of a run it is one click more."""
    page = tabs.open("/runs/run1")
    page.get_by_role("link", name="Compare").click()
    page.get_by_role("link", name="run3").click()
    expect(page.get_by_role("heading", name="The first difference")).to_be_visible()


def test_the_same_run_does_not_differ_from_itself(tabs: Tabs) -> None:
    """Which is told, and what is no difference."""
    page = tabs.open("/compare/run1/run1")
    expect(page.get_by_role("heading", name="No step differs")).to_be_visible()


def test_the_tree_tells_where_each_run_parted_and_what_was_edited(tabs: Tabs) -> None:
    """A row and a line for each; it leads to the runs and to their comparison."""
    page = tabs.open("/runs/run3")
    page.get_by_role("link", name="Tree").click()
    fork = page.locator("tr", has_text="run3").last
    expect(fork).to_contain_text("from step 7")
    expect(fork).to_contain_text("set /order/coupon/used true")
    expect(page.locator("tr[aria-current]")).to_contain_text("run3")
    assert page.locator("path.life").count() == 2
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("link", name="run1").last).to_be_focused()
    fork.get_by_role("link", name="compare").click()
    expect_path(page, "/compare/run1/run3")


def test_health_verifies_the_store_and_tells_what_it_found(tabs: Tabs) -> None:
    """It goes on beside the page, which shows the end by itself."""
    page = tabs.open("/health")
    expect(page.get_by_role("region", name="Store")).to_contain_text("3, 1 failed, 2 completed")
    expect(page.get_by_role("region", name="Redaction")).to_contain_text("authorization")
    page.get_by_role("button", name="Verify all runs").click()
    expect(page.locator("#check")).to_contain_text("3 runs, 197 events: nothing was changed, lost or cut off")
    page.get_by_role("link", name="1 failed").click()
    expect(page.locator("tbody a.name")).to_have_text(["run1"])
