"""Damage and values within values in a browser: what is told, and where each link leads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browsing import Tabs, expect_path, served
from playwright.sync_api import expect
from stage import record_damaged, record_inside, recorded


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """In run1 something changes inside of tags; run2 is damaged in step 4."""
    folder = tmp_path_factory.mktemp("damaged")
    with served(recorded(folder, record_inside, record_damaged), folder / "said") as found:
        yield found


def test_a_difference_across_damage_says_so_and_shows_what_is_sound(tabs: Tabs) -> None:
    """The event is named; the changes up to there stand as a list and side by side."""
    page = tabs.open("/diff?from=run2:1&to=run2:6")
    expect(page.get_by_role("alert")).to_contain_text("(payload.changed): its stored data cannot be read")
    expect(page.get_by_role("main")).to_contain_text("from run2 step 1 to run2 step 3")
    expect(page.locator(".changes .change")).to_have_count(1)
    expect(page.locator(".changes .change .new, .changes .change .v").last).to_have_text("3")
    expect(page.get_by_role("columnheader", name="run2 step 3")).to_be_visible()


def test_from_a_step_behind_damage_a_link_leads_to_the_last_sound_one(tabs: Tabs) -> None:
    """Where the payload is shown."""
    page = tabs.open("/runs/run2/steps/6")
    expect(page.locator("#payload")).to_contain_text("It cannot be worked out")
    page.locator("#payload").get_by_role("link", name="Step 3").click()
    expect_path(page, "/runs/run2/steps/3")
    expect(page.locator("#payload .node", has_text="n").first).to_be_visible()


def test_what_changed_inside_of_a_tag_is_open_and_is_blamed_with_a_click(tabs: Tabs) -> None:
    """In the tree of the payload and in the list; the dialog has the history of that very value."""
    page = tabs.open("/runs/run1/steps/1")
    order = page.locator('#payload details:has(> summary[data-path="/order"])')
    expect(order).to_have_attribute("open", "")
    expect(order.locator('[data-path="/order/total"]')).to_contain_text("3.0")
    expect(order.locator('[data-path="/order/total"]')).to_contain_text("was 12.5")
    page.locator('.change[data-path="/order/total"] a.path').click()
    expect(page.locator("#blame")).to_contain_text("order.total")
    expect(page.locator("#blame .blame li")).to_have_count(2)
    page.keyboard.press("Escape")
    page.locator('.change.remove[data-path="/seats/2"] a.path').click()
    expect(page.locator("#blame .blame li").first).to_contain_text("free")
