"""Watching an expression in a browser: it is typed, followed from change to change, shared by its address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from browsing import Tabs, expect_path, served
from playwright.sync_api import Page, expect
from stage import record_long, record_refunds, recorded
from stepping import stepping

BOXES: Final = """() => {
  const box = (selector) => document.querySelector(selector).getBoundingClientRect();
  const picture = box("#picture svg"), chart = box("#watch svg"), here = box("#watch [data-here]");
  const thumb = parseFloat(getComputedStyle(document.querySelector("#slider")).getPropertyValue("--mark"));
  return { left: chart.left - picture.left, right: chart.right - picture.right, below: chart.top >= picture.bottom,
           mark: here.width - thumb, centre: (here.left + here.right) / 2 - picture.left, width: picture.width };
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """run1 is the example that fails, run4 is long."""
    folder = tmp_path_factory.mktemp("watched")
    store = recorded(folder, record_refunds, lambda store: record_long(store, 4_000))
    with served(store, folder / "said") as found:
        yield found


def watch(page: Page, text: str) -> None:
    page.keyboard.press("w")
    page.keyboard.type(text)
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")


def test_a_value_is_followed_from_change_to_change(tabs: Tabs) -> None:
    """w, an expression, and then ] and [; the address says what is watched, and going back keeps it."""
    page = tabs.open("/runs/run1/steps/3")
    watch(page, "order.total")
    now = page.locator("#watch .now")
    expect(now).to_have_text("129.5")
    expect_path(page, "/runs/run1/steps/3?watch=order.total")
    page.keyboard.press("]")
    expect(now).to_have_text("77.7")
    expect_path(page, "/runs/run1/steps/7?watch=order.total")
    expect(page.locator("#heard")).to_contain_text("order.total: 77.7")
    page.keyboard.press("]")
    expect(page.get_by_role("status").first).to_contain_text("It does not change after this step")
    page.keyboard.press("ArrowLeft")
    expect(now).to_have_text("129.5")
    page.keyboard.press("[")
    page.keyboard.press("ArrowLeft")
    expect(now).to_have_text("nothing there")
    page.go_back()
    page.reload()
    expect(page.locator("#watch svg")).to_be_visible()


def test_each_change_leads_to_its_step_and_to_what_made_it(tabs: Tabs) -> None:
    """In a list, which opens above the page and stays open from step to step."""
    page = tabs.open("/runs/run1/steps/3?watch=order.total")
    page.locator("#watch summary").click()
    changes = page.locator("#watch .watchlist li")
    expect(changes).to_have_text(["step 1 129.5 blame at step 1", "step 7 77.7 blame at step 7"])
    page.locator("#watch").get_by_role("link", name="step 7", exact=True).click()
    expect_path(page, "/runs/run1/steps/7?watch=order.total")
    expect(changes.nth(1)).to_have_attribute("aria-current", "true")
    page.locator("#watch").get_by_role("link", name="blame at step 7").click()
    expect(page.get_by_role("dialog")).to_contain_text("129.5 → 77.7")


@pytest.mark.parametrize("width", [1440, 1000, 390])
def test_the_chart_stands_below_the_picture_step_by_step(tabs: Tabs, width: int) -> None:
    """Both begin and end at the same place, and the chosen step has the same."""
    page = tabs.open("/runs/run1/steps/7?watch=order.total", width=width)
    expect(page.locator("#size")).to_contain_text("payload")
    found = page.evaluate(BOXES)
    assert abs(found["left"]) < 1
    assert abs(found["right"]) < 1
    assert abs(found["mark"]) < 2
    assert abs(found["centre"] - found["width"] * 7.5 / 11) < 2
    assert found["below"]


def test_a_mistake_is_told_and_put_right(tabs: Tabs) -> None:
    """The field says so; an empty one watches nothing, and its keys say how to begin."""
    page = tabs.open("/runs/run1/steps/7")
    watch(page, "order..total")
    alert = page.locator("#watch").get_by_role("alert")
    expect(alert).to_contain_text("this is no JMESPath expression")
    field = page.get_by_role("textbox", name="Watch an expression over the steps")
    expect(field).to_have_attribute("aria-invalid", "")
    watch(page, "order.totl")
    expect(alert).to_contain_text("did you mean order.total?")
    field.fill("")
    field.press("Enter")
    field.press("Escape")
    expect(page.locator("#watch > *")).to_have_count(0)
    expect_path(page, "/runs/run1/steps/7")
    page.keyboard.press("]")
    expect(page.get_by_role("status").first).to_contain_text("Nothing is watched")


def test_a_long_run_is_watched_a_little_at_a_time(tabs: Tabs) -> None:
    """The page is there before; in the end all of the run was looked at."""
    page = tabs.open("/runs/run4/steps/2000?watch=n")
    expect(page.locator("#watch summary")).to_contain_text("changed in 4,000 of 4,000 steps, 0 to 4000")
    expect(page.locator("#watch .now")).to_have_text("2000")
    expect(page.locator("#watch svg .amount")).to_have_count(240)


def test_a_run_that_is_recorded_is_watched_as_it_goes_on(tabs: Tabs, tmp_path_factory: pytest.TempPathFactory) -> None:
    """New steps are in the chart without a load."""
    folder = tmp_path_factory.mktemp("live")
    store = recorded(folder)
    with tabs.on(store, folder / "said"), stepping(store) as run:
        run.step(2)
        page = tabs.open(f"/runs/{run.id}?watch=n")
        expect(page.locator("#watch summary")).to_contain_text("changed in 2 of 2 steps")
        run.step(2)
        expect(page.locator("#watch summary")).to_contain_text("changed in 4 of 4 steps")
        run.complete()
        expect(page.locator("#head")).to_contain_text("completed")


def test_blame_of_what_was_removed_is_that_of_its_place_before(
    tabs: Tabs, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In the payload of the step that removed it, where its place in the list is its neighbour's by now."""
    import agentreplay as ar

    def record(store: object) -> None:
        with ar.record("lists", payload={"l": ["a", "b", "c"]}, store=store) as run, run.round() as r:
            r.change(payload={"l": ["a", "c"]}, reason="no b")

    folder = tmp_path_factory.mktemp("removed")
    with tabs.on(recorded(folder, record), folder / "said"):
        page = tabs.open("/runs/run1/steps/1")
        gone = page.locator("#payload .node.remove")
        expect(gone).to_contain_text('1 "b"')
        gone.hover()
        page.keyboard.press("b")
        expect(page.get_by_role("dialog")).to_contain_text("l[1]")
        expect(page.get_by_role("dialog")).to_contain_text('"b"')
        expect(page.get_by_role("dialog")).not_to_contain_text('"c"')
