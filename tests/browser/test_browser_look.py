"""Every page at every width in both schemes: nothing scrolls sideways, focus is seen, and axe-core has no objection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from browsing import Tabs, served
from looking import expect_fit, expect_readable, objections
from playwright.sync_api import Page, expect
from stage import (
    record_damaged,
    record_exact,
    record_hostile,
    record_inside,
    record_long,
    record_refunds,
    record_tagged,
    record_varied,
    recorded,
)

PAGES: Final = {
    "runs": "/runs",
    "runs with a tag": "/runs?q=tag:nightly",
    "values of runs": "/runs?q=value:coupon",
    "values with tags": "/runs?q=value:thimble",
    "no value": "/runs?q=value:no+such+thing",
    "tags": "/runs/run9",
    "no run fits": "/runs?q=no+such+thing",
    "run": "/runs/run1",
    "step": "/runs/run1/steps/7",
    "failed call": "/runs/run1/steps/9",
    "messages": "/runs/run1/steps/7?part=messages",
    "watched number": "/runs/run1/steps/7?watch=order.total",
    "watched words": "/runs/run1/steps/7?watch=keys(@)",
    "watched by a mistake": "/runs/run1/steps/7?watch=order..total",
    "watched for long": "/runs/run4/steps/100?watch=to_string(n)",
    "long run": "/runs/run4/steps/100",
    "exact": "/runs/run5/steps/1",
    "hostile runs": "/runs?q=%3Cscript%3E",
    "hostile": "/runs/run6/steps/1",
    "hostile diff": "/diff?from=run6:0&to=run6:1",
    "hostile events": "/runs/run6/events",
    "hostile tree": "/runs/run6/tree",
    "hostile compare": "/compare/run6/run1",
    "value": "/runs/run1/steps/7/value?path=/order",
    "diff": "/diff?from=run1:6&to=run1:7",
    "diff of runs": "/diff?from=run1:10&to=run3:10",
    "diff start": "/diff",
    "blame": "/runs/run1/blame?path=/order/total",
    "events": "/runs/run1/events",
    "search": "/runs/run1/search?q=coupon",
    "compare": "/compare/run1/run3",
    "compare start": "/compare",
    "tree": "/runs/run1/tree",
    "health": "/health",
    "re-run": "/runs/run1/steps/7/rerun",
    "re-runs": "/reruns",
    "inside": "/runs/run10/steps/1",
    "diff inside": "/diff?to=run10:1",
    "damaged": "/runs/run11/steps/4",
    "behind damage": "/runs/run11/steps/6",
    "diff across damage": "/diff?from=run11:1&to=run11:6",
    "diff in damage": "/diff?to=run11:4",
    "blame of damaged": "/runs/run11/blame?path=/n",
    "damaged events": "/runs/run11/events",
    "compare with damaged": "/compare/run11/run4",
    "child": "/runs/run1/steps/5",
    "varied": "/runs/run12/steps/1",
    "varied end": "/runs/run12/steps/2",
    "varied start": "/runs/run12/steps/0",
    "varied messages": "/runs/run12/steps/1?part=messages",
    "varied diff": "/diff?from=run12:0&to=run12:2",
    "varied blame": "/runs/run12/blame?path=/text",
    "varied value": "/runs/run12/steps/1/value?path=/wide",
    "varied re-run": "/runs/run12/steps/1/rerun",
    "varied compare": "/compare/run12/run1",
    "re-run of a damaged step": "/runs/run11/steps/6/rerun",
    "error": "/runs/run99",
}

OPEN: Final = "document.querySelectorAll('main section details, #watch details').forEach((one) => { one.open = true; })"
"""Opens calls, requests and whatever else is folded."""

FOCUS: Final = """() => {
  const one = document.activeElement;
  if (one === document.body) return null;
  const style = getComputedStyle(one), box = one.getBoundingClientRect();
  const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  return {
    is: one.outerHTML.slice(0, 120),
    seen: (ring || one.matches(".split")) && box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0,
  };
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """run1 to run3 are the example's, run4 is long, run5 holds what is hard to show, run6 what wants to be markup.

    run7 to run9 have tags. In run10 something changes inside of tags, run11 is damaged, and run12 has more
    of everything.
    """
    folder = tmp_path_factory.mktemp("look")
    first = (record_refunds, lambda store: record_long(store, 200), record_exact, record_hostile, record_tagged)
    acts = (*first, record_inside, record_damaged, record_varied)
    with served(recorded(folder, *acts), folder / "said", "--app", "agentreplay.examples.refunds:step") as found:
        yield found


def settled(page: Page) -> None:
    """Wait for what a page loads by itself after it is there."""
    expect(page.locator("[data-complete=no], #payload[data-src], a[data-busy]")).to_have_count(0)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_window_and_can_be_read_by_everybody(tabs: Tabs, name: str) -> None:
    """No sideways scroll and nothing cut off at any width; and in both schemes nothing serious by axe-core's rules."""
    tabs.expect_status(404 if name == "error" else 422)
    page = tabs.open(PAGES[name])
    settled(page)
    page.evaluate(OPEN)
    settled(page)
    expect_fit(page)
    expect_readable(page)


@pytest.mark.parametrize("name", ["step", "diff", "compare", "tree", "health", "runs", "re-run", "search", "events"])
def test_focus_is_seen_wherever_it_is(tabs: Tabs, name: str) -> None:
    """Tab goes through the page, and each place that it comes to has a ring and is in view."""
    page = tabs.open(PAGES[name])
    settled(page)
    visited = []
    for _ in range(40):
        page.keyboard.press("Tab")
        place = page.evaluate(FOCUS)
        if place is None:
            break
        visited.append(place)
    assert len(visited) >= 8
    assert [place["is"] for place in visited if not place["seen"]] == []


@pytest.mark.parametrize("key", ["?", "g"])
def test_a_dialog_can_be_read_by_everybody(tabs: Tabs, key: str) -> None:
    """It is named, fits a phone, and keeps the focus within."""
    page = tabs.open("/runs/run1/steps/7", width=390, scheme="dark")
    page.keyboard.press(key)
    dialog = page.locator("dialog[open]")
    expect(dialog).to_be_visible()
    assert objections(page, 390, "dark") == []
    assert dialog.evaluate("one => one.contains(document.activeElement) && one.scrollWidth <= one.clientWidth")


def test_nothing_moves_where_motion_is_not_wanted(tabs: Tabs) -> None:
    """The pulse of what is live is an animation only where the system does not ask for less."""
    page = tabs.open("/runs/run1")
    page.emulate_media(reduced_motion="reduce")
    moving = "document.getAnimations().length"
    page.locator("#head .status").evaluate("one => { one.className = 'status running'; }")
    assert page.evaluate(moving) == 0
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(moving) == 1
