"""One Chromium for all browser tests of a module, and tabs that are looked after.

It is closed with the last of them: while Playwright runs it has an event loop of its own, beside which the tests of
coroutines could not start theirs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browsing import OPTIONS, WAIT, WATCH, Tabs, chromium
from playwright.sync_api import BrowserContext, sync_playwright


@pytest.fixture(scope="module")
def context() -> Iterator[BrowserContext]:
    """A profile in a Chromium without a window, fresh and of these tests alone."""
    found = chromium()
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, headless=True, args=list(OPTIONS))
        made = started.new_context()
        made.set_default_timeout(WAIT)
        made.add_init_script(WATCH)
        yield made
        started.close()


@pytest.fixture
def tabs(context: BrowserContext, address: str) -> Iterator[Tabs]:
    """Tabs on the server that the module names by its fixture `address`; nothing may go wrong in them."""
    made = Tabs(context, address)
    yield made
    made.close()
    assert made.problems == []
