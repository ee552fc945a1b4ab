"""One Chromium for all browser tests of a process, and tabs that are looked after.

It is closed with the last of them: while Playwright runs it has an event loop of its own, beside which the tests of
coroutines could not start theirs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browsing import OPTIONS, Tabs, chromium
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A Chromium without a window, with a profile of its own."""
    found = chromium()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, headless=True, args=list(OPTIONS))
        yield started
        started.close()


@pytest.fixture
def tabs(browser: Browser, address: str) -> Iterator[Tabs]:
    """Tabs on the server that the module names by its fixture `address`; nothing may go wrong in them."""
    made = Tabs(browser, address)
    yield made
    made.close()
    assert made.problems == []
