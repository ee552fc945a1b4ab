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
from typing import Any, Final, Literal

import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Dialog, Page, Request, Response, WebError, expect

WIDTHS: Final = {1440: 900, 1000: 800, 390: 844}
"""The widths that the pages are made for, in pixels, with a height to each."""

WAIT: Final = 15_000
"""Milliseconds after which what a test waits for will not come."""

Scheme = Literal["light", "dark"]

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
    """Tabs of a browser on one server, which know nothing of those of the test before.

    Args:
        context: a profile, which tests share one after the other: a new one takes longer than most of them.
        address: of the server.
    """

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.address = address
        self.problems: list[str] = []
        self._context = context
        self._open: list[Page] = []
        self._expected: set[int] = set()
        self._has_server = True
        self._watched: dict[Any, Any] = {
            "request": self._asked,
            "response": self._answered,
            "console": self._said,
            "weberror": self._thrown,
            "dialog": self._stopped,
        }
        for event, act in self._watched.items():
            context.on(event, act)

    def open(self, path: str = "/runs", width: int = 1440, scheme: Scheme = "light") -> Page:
        """Open a page in a new tab, and wait until it is there.

        Args:
            path: with its query.
            width: of the window, one of `WIDTHS`.
            scheme: what the system says.
        """
        pages = self._context.pages
        page = pages[len(self._open)] if len(self._open) < len(pages) else self._context.new_page()
        self._open.append(page)
        page.set_viewport_size({"width": width, "height": WIDTHS[width]})
        page.emulate_media(color_scheme=scheme, reduced_motion="null")
        page.goto(self.address + path)
        return page

    @contextmanager
    def on(self, store: Path, log: Path, *options: str) -> Iterator[None]:
        """Look at another store: over it runs a server of its own, and pages leave it before it ends.

        A page asks for more when it likes, also of a server that a test has ended: then it finds nobody, and says so.
        What a page does then is for tests that say `expect_no_server`; their pages stay.

        Args:
            store: as that of `served`, like the others.
            log: where what the server says goes.
            options: more of its command line.
        """
        with served(store, log, *options) as self.address:
            try:
                yield
            finally:
                if self._has_server:
                    self.leave()

    def leave(self) -> None:
        """Leave all pages, and with them what they still wait for, and forget what they stored."""
        for page in self._open:
            if page.url.startswith("http"):
                page.evaluate("localStorage.clear(); sessionStorage.clear()")
            page.goto("about:blank")

    def allow_clipboard(self) -> None:
        """Let pages read and write the clipboard, as somebody would who is asked."""
        self._context.grant_permissions(["clipboard-read", "clipboard-write"])

    def expect_status(self, status: int) -> None:
        """Say that an answer of this test has that status, which otherwise is a problem."""
        self._expected.add(status)

    def expect_no_server(self) -> None:
        """Say that the server is gone, or soon will: what a page asks it then is answered by nobody."""
        self._has_server = False

    def close(self) -> None:
        """Leave all pages, and close all tabs but one."""
        self.leave()
        for page in self._open[1:]:
            page.close()
        self._context.clear_permissions()
        for event, act in self._watched.items():
            self._context.remove_listener(event, act)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.address + "/", "data:", "blob:")):
            self.problems.append(f"a request to {request.url}")

    def _thrown(self, error: WebError) -> None:
        self.problems.append(f"uncaught: {error.error}")

    def _stopped(self, dialog: Dialog) -> None:
        self.problems.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _answered(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self._expected:
            self.problems.append(f"{response.status} from {response.url}")

    def _said(self, message: ConsoleMessage) -> None:
        told = re.search(r"status of (\d+)", message.text)
        if (told and int(told[1]) in self._expected) or (not self._has_server and "net::ERR_" in message.text):
            return
        if message.type in ("error", "warning", "assert"):
            self.problems.append(f"console {message.type}: {message.text} ({message.location})")


def expect_path(page: Page, path: str) -> None:
    """The page has that address, query included, or soon will."""
    expect(page).to_have_url(re.compile(f"^http://[^/]+{re.escape(path)}$"))
