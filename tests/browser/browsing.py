"""What the browser tests share: the web debugger in a process of its own, and tabs of a real Chromium that look at it.

A tab notes everything that must never happen, whatever a test is about: an error or a warning in the console, an
uncaught exception, a dialog, a request to another host, an answer that is an error, something that the page's policy
forbids. The test that had the tab fails with it in the end.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, Response, expect

WIDTHS: Final = {1440: 900, 1000: 800, 390: 844}
"""The widths that the pages are made for, in pixels, with a height to each."""

WAIT: Final = 15_000
"""Milliseconds after which what a test waits for will not come."""

expect.set_options(timeout=WAIT)

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
OPTIONS: Final = (
    "--no-sandbox",  # root, as which continuous integration runs, has none
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

WATCH: Final = """
window.forbidden = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.forbidden.push(`${event.effectiveDirective}: ${event.blockedURI} ${event.sample}`);
  console.error(`forbidden: ${event.effectiveDirective} ${event.blockedURI}`);
});
"""
"""Runs before the scripts of a page: what its policy forbids becomes an error in the console."""


def chromium() -> str:
    """Where Chromium is; a test that needs it fails where it is missing, and is never skipped."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    pytest.fail(
        "The browser tests need Chromium, and none of "
        f"{', '.join(NAMES)} is on the path. On Debian: apt-get install chromium",
        pytrace=False,
    )


@contextmanager
def served(store: Path, log: Path, *options: str) -> Iterator[str]:
    """Run `agentreplay ui` over a store, in a process of its own, and give its address without a slash at the end.

    Args:
        store: a file.
        log: where what it says goes.
        options: more of the command line.
    """
    command = [sys.executable, "-m", "agentreplay", "ui", "--store", str(store), "--port", "0", *options]
    with log.open("w", encoding="utf-8") as said:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True, encoding="utf-8")
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://"), log.read_text(encoding="utf-8")
        yield address.rstrip("/")
    finally:
        process.terminate()
        process.communicate(timeout=20)
    assert "Traceback" not in log.read_text(encoding="utf-8"), log.read_text(encoding="utf-8")


class Tabs:
    """Tabs of a browser on one server; each has storage of its own, as in a new profile.

    Args:
        browser: what opens them.
        address: of the server.
    """

    def __init__(self, browser: Browser, address: str) -> None:
        self._browser = browser
        self.address = address
        self.problems: list[str] = []
        self._open: list[Any] = []
        self._expected: set[int] = set()

    def open(self, path: str = "/runs", width: int = 1440, scheme: str = "light", **options: Any) -> Page:
        """Open a page in a new tab, and wait until it is there.

        Args:
            path: with its query.
            width: of the window, one of `WIDTHS`.
            scheme: "light" or "dark", as the system says.
            options: more of `Browser.new_context`.
        """
        context = self._browser.new_context(
            viewport={"width": width, "height": WIDTHS[width]},
            color_scheme="dark" if scheme == "dark" else "light",
            **options,
        )
        self._open.append(context)
        context.set_default_timeout(WAIT)
        context.add_init_script(WATCH)
        context.on("request", self._asked)
        context.on("response", self._answered)
        context.on("console", self._said)
        context.on("weberror", lambda error: self.problems.append(f"uncaught: {error.error}"))
        context.on("dialog", self._asked_by_dialog)
        page = context.new_page()
        page.goto(self.address + path)
        return page

    def expect_status(self, status: int) -> None:
        """Say that an answer of this test has that status, which otherwise is a problem."""
        self._expected.add(status)

    def close(self) -> None:
        """Close all tabs."""
        for context in self._open:
            context.close()

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.address + "/", "data:", "blob:")):
            self.problems.append(f"a request to {request.url}")

    def _asked_by_dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _answered(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self._expected:
            self.problems.append(f"{response.status} from {response.url}")

    def _said(self, message: ConsoleMessage) -> None:
        told = re.search(r"status of (\d+)", message.text)
        if told and int(told[1]) in self._expected:
            return
        if message.type in ("error", "warning", "assert"):
            self.problems.append(f"console {message.type}: {message.text} ({message.location})")


def expect_path(page: Page, path: str) -> None:
    """The page has that address, query included, or soon will."""
    expect(page).to_have_url(re.compile(f"^http://[^/]+{re.escape(path)}$"))
