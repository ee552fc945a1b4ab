"""Tags in a browser: what they lead to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browsing import Tabs, served
from playwright.sync_api import expect
from stage import record_tagged, recorded


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Three runs with tags."""
    folder = tmp_path_factory.mktemp("tagged")
    with served(recorded(folder, record_tagged), folder / "said") as found:
        yield found


def test_a_tag_leads_to_its_runs_from_the_list_and_from_a_run(tabs: Tabs) -> None:
    """One click; what was asked for stands in the search, where it can be changed."""
    page = tabs.open()
    page.locator("tr[data-key=run1]").get_by_role("link", name="nightly").click()
    expect(page.get_by_role("searchbox")).to_have_value("tag:nightly")
    expect(page.locator("tbody a.name")).to_have_text(["run2", "run1"])
    page.get_by_role("link", name="run2", exact=True).click()
    page.locator("#head").get_by_role("link", name="two words").click()
    expect(page.get_by_role("searchbox")).to_have_value('tag:"two words"')
    expect(page.locator("tbody a.name")).to_have_text(["run2"])
    expect(page.get_by_role("columnheader", name="cost")).to_be_visible()
