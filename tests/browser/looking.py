"""How a page looks, measured in the browser: does it fit its window, and what would axe-core object to."""

from __future__ import annotations

from typing import Any, Final

from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]  # the package has no types
from browsing import WIDTHS, Scheme
from playwright.sync_api import Page

SIDEWAYS: Final = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

CUT: Final = """() => [...document.querySelectorAll("button, .tool, .button, select, h1, h2, th a")]
  .filter((one) => one.offsetParent && !one.closest("[aria-hidden]"))
  .filter((one) => {
    const box = one.getBoundingClientRect(), scrolls = one.closest(".wide, .scroll, .pane, .panes");
    return one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).textOverflow !== "ellipsis"
      || (!scrolls && (box.right > innerWidth + 1 || box.left < -1));
  })
  .map((one) => one.textContent.trim().slice(0, 80))"""
"""Buttons, links of the frame and headings whose text is wider than they are, or that reach out of the window."""

AXE: Final = {"resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}


def expect_fit(page: Page) -> None:
    """At each width nothing scrolls the page sideways, and nothing that is read or pressed is cut off."""
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate(SIDEWAYS) == 0, f"at {width}"
        assert page.evaluate(CUT) == [], f"at {width}"


def objections(page: Page, width: int, scheme: Scheme) -> list[str]:
    """What axe-core finds at that width and in that scheme that is more than minor, with where it is."""
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})
    page.emulate_media(color_scheme=scheme)
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found: dict[str, Any] = page.evaluate("options => axe.run(document, options)", AXE)
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:200]} {node['failureSummary'][:300]}"
        for rule in found["violations"]
        if rule["impact"] in ("moderate", "serious", "critical")
        for node in rule["nodes"]
    ]


def expect_readable(page: Page) -> None:
    """On a phone in the dark and on a desk by day, axe-core finds nothing that is more than minor."""
    assert objections(page, 390, "dark") == []
    assert objections(page, 1440, "light") == []
