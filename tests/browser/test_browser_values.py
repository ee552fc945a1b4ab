"""What was recorded is shown in a browser as it is: what wants to act does nothing, and what scripts round is exact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from browsing import WIDTHS, Tabs, expect_path, served
from playwright.sync_api import Page, expect
from stage import HUGE, LINK, LONG_NAME, MARKUP, record_exact, record_hostile, record_varied, recorded

OURS: Final = "[...document.scripts].filter((one) => !one.src.startsWith(location.origin + '/static/')).length"
MADE: Final = """document.querySelectorAll("img, [onerror], iframe, a[href^='javascript'], main script").length"""
"""Elements that no page of ours has, and that what was recorded would become if it were markup."""

HOSTILE: Final = (
    "/runs",
    "/runs/run1",
    "/runs/run1/steps/1",
    "/runs/run1/steps/1?part=messages",
    "/runs/run1/steps/1/value?path=/evil",
    "/runs/run1/events",
    "/runs/run1/search?q=alert",
    "/runs/run1/tree",
    "/runs/run1/blame?path=/evil/text",
    "/diff?from=run1:0&to=run1:1",
    "/compare/run1/run2",
    "/compare?a=run1",
    "/runs/run1/steps/1/rerun",
    "/health",
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """run1 wants to be markup, run2 holds what a script would read as something else, run3 what is hardly seen."""
    folder = tmp_path_factory.mktemp("values")
    store = recorded(folder, record_hostile, record_exact, record_varied)
    with served(store, folder / "said", "--app", "agentreplay.examples.refunds:step") as found:
        yield found


def open_everything(page: Page) -> None:
    """Open all that can be opened, and what comes by that, some levels down."""
    for _ in range(4):
        page.evaluate("document.querySelectorAll('main details:not([open])').forEach((one) => { one.open = true; })")
        expect(page.locator("a[data-busy]")).to_have_count(0)


# -- what wants to act -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", HOSTILE)
def test_what_was_recorded_never_becomes_more_than_text(tabs: Tabs, path: str) -> None:
    """With all of a page opened there is no script, element or link that is not ours; no dialog; nothing sticks out."""
    page = tabs.open(path)
    open_everything(page)
    assert page.evaluate(OURS) == 0
    assert page.evaluate(MADE) == 0
    assert page.evaluate("window.forbidden") == []
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"at {width}"


def test_markup_links_and_control_characters_are_read_as_they_are(tabs: Tabs) -> None:
    """Markup character by character; what would colour or turn text stands as its escape; a link is a text."""
    page = tabs.open("/runs/run1/steps/1")
    evil = page.locator("#payload")
    expect(evil.locator(".node", has_text="link").first).to_contain_text(f'"{LINK}"')
    text = evil.locator(".node[data-shown='evil.text']")
    expect(text).to_contain_text(MARKUP)
    for shown in ("\\x1b[31mred", "\\u202eright to left", "\\u200b", "\\x00", "\\x7f", "{{7*7}}"):
        expect(text).to_contain_text(shown)
    call = page.get_by_role("region", name="Calls").locator("details").first
    call.locator("summary").first.click()
    expect(call).to_contain_text(LINK)
    expect(page.locator("#detail h2")).to_contain_text("Step 1 · Retry")
    expect(page.locator(".why")).to_contain_text(MARKUP)


def test_a_hostile_name_can_be_blamed_copied_and_loaded(tabs: Tabs) -> None:
    """Its path goes to the server and back as what it is."""
    tabs.allow_clipboard()
    page = tabs.open("/runs/run1/steps/1")
    inner = page.locator("#payload summary", has_text="bold").first
    inner.hover()
    page.get_by_role("button", name="copy path").click()
    expect(page.get_by_role("status").first).to_have_text("Copied the path.")
    assert page.evaluate("navigator.clipboard.readText()") == f'evil["{MARKUP}"]'
    page.get_by_role("button", name="blame").click()
    expect(page.get_by_role("dialog")).to_contain_text(f'evil["{MARKUP}"]')


def test_a_search_for_markup_finds_it_and_stays_text(tabs: Tabs) -> None:
    """In the field, in what was found and in the address."""
    page = tabs.open("/runs/run1")
    page.keyboard.press("/")
    page.keyboard.type("</script><script>")
    page.keyboard.press("Enter")
    expect(page.get_by_role("searchbox")).to_have_value("</script><script>")
    expect(page.locator("mark").first).to_have_text("</script><script>")
    page.goto(f"{tabs.address}/runs?q=</script><script>alert(1)</script>&agent={MARKUP}")
    expect(page.get_by_role("heading", name="No run fits")).to_be_visible()
    assert page.evaluate(OURS) == 0


def test_a_name_of_ten_thousand_characters_takes_no_more_room_than_others(tabs: Tabs) -> None:
    """It is cut with a sign, in lists and heads; its whole is there for whoever asks."""
    page = tabs.open("/runs", width=390)
    assert page.locator("tr[data-key=run1]").evaluate("row => row.offsetHeight") < 100
    page.goto(f"{tabs.address}/runs/run1/steps/1")
    assert page.locator(".top").evaluate("top => top.offsetHeight") < 140
    page.goto(f"{tabs.address}/runs/run1/steps/1/value?path=/evil/{LONG_NAME}")
    expect(page.locator("main .node")).to_contain_text(LONG_NAME)


def test_a_run_as_a_file_opens_from_a_disk_and_does_nothing_else(tabs: Tabs, tmp_path: Path) -> None:
    """No server, no request, no script but its own; what wants to act is text there, too."""
    page = tabs.open("/runs/run1")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    saved = tmp_path / "run.html"
    download.value.save_as(saved)
    before = list(tabs.problems)
    for width in WIDTHS:
        page = tabs.open("/health", width=width, scheme="dark")
        page.goto(saved.as_uri())
        expect(page.locator("#head")).to_contain_text("Step 1")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"at {width}"
        assert page.evaluate("document.querySelectorAll('img, a[href^=javascript]').length") == 0
    tabs.problems = [told for told in tabs.problems if told != f"a request to {saved.as_uri()}"]
    assert tabs.problems == before == []


# -- what scripts round ------------------------------------------------------------------------------------------------


def test_values_are_shown_exactly_before_and_after(tabs: Tabs) -> None:
    """Beyond 2^53, not a number, without an end, bytes, half a surrogate, and nothing against missing."""
    page = tabs.open("/runs/run2/steps/1")
    for name, shown in {
        "huge": f"{HUGE + 1} was {HUGE}",
        "beyond": "1180591620717411303424",
        "not_a_number": "nan",
        "endless": "-inf",
        "minus_zero": "-0.0",
        "float": "1 was 1.0",
        "bytes": r"b'\x00\xffabc'",
        "surrogate": r'"a\ud801z" was "a\ud800z"',
        "nothing": "null",
        "decimal": "Decimal('0.10')",
        "both": '{1: "number", "1": "text"}',
    }.items():
        node = page.locator(f"#payload [data-shown='{name}']")
        expect(node).to_contain_text(f"{name} {shown}".removeprefix("~ "))
    gone, here = page.locator("#payload .node.remove"), page.locator("#payload .node.add")
    expect(gone).to_have_text("−removed: gone null")
    expect(here).to_have_text("+added: here null")


def test_values_are_exact_in_differences_and_blame_and_when_they_are_copied(tabs: Tabs) -> None:
    """What leaves the page is what was recorded, as JSON that keeps it."""
    tabs.allow_clipboard()
    page = tabs.open("/diff?from=run2:0&to=run2:1")
    sides = page.get_by_role("region", name="Side by side")
    expect(sides.locator("tr.replace", has_text="huge").locator("td")).to_have_text([str(HUGE), str(HUGE + 1)])
    expect(sides.locator("tr.remove td")).to_have_text(["null", ""])
    expect(sides.locator("tr.add td")).to_have_text(["", "null"])
    page.locator(".changes").get_by_role("link", name="huge").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"{HUGE} → {HUGE + 1}")
    page.goto(f"{tabs.address}/runs/run2/steps/1")
    for name, copied in {
        "huge": f'{{"$type":"int","value":"{HUGE + 1}"}}',
        "not_a_number": '{"$type":"float","value":"nan"}',
        "nothing": "null",
    }.items():
        page.locator(f"#payload [data-shown='{name}']").hover()
        page.get_by_role("button", name="copy value").click()
        expect(page.get_by_role("status").first).to_have_text("Copied the value.")
        assert page.evaluate("navigator.clipboard.readText()").strip() == copied
        page.locator("#says").evaluate("said => { said.textContent = ''; }")


def test_values_go_through_the_editor_of_a_rerun_unchanged(tabs: Tabs) -> None:
    """What is not touched is no edit; a large integer that is typed as it is, is one, exactly."""
    page = tabs.open("/runs/run2/steps/1/rerun")
    field = page.get_by_role("textbox", name="Payload as JSON")
    text = field.input_value()
    assert text.count(str(HUGE)) == 1
    plan = page.get_by_role("complementary", name="What will happen")
    field.fill(f"{text} ")
    expect(plan).to_contain_text("Nothing is edited yet")
    field.fill(text.replace(str(HUGE), str(HUGE + 2)))
    expect(plan).to_contain_text(f"{HUGE} → {HUGE + 2}")
    field.fill("{")
    expect(page.locator("#error-payload")).not_to_be_empty()
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(plan.get_by_role("button", name="Run from step 1")).to_be_disabled()
    expect_path(page, "/runs/run2/steps/1/rerun")


# -- what is hardly seen -----------------------------------------------------------------------------------------------


def test_spaces_and_line_breaks_are_told_apart_wherever_a_value_stands(tabs: Tabs) -> None:
    """In the payload, what it was, changes, both states side by side, blame and arguments of calls; and in names."""
    page = tabs.open("/runs/run3/steps/1")
    payload, changes = page.locator("#payload"), page.locator("#changes")
    for where, shown in (
        (payload, '"a  b" was "a b"'),
        (payload, "a\\r\nb"),
        (changes, '"a  b"'),
        (changes, '"a\\r\\nb"'),
        (page.get_by_role("region", name="Calls"), 'echo  it(q="a  b"'),
    ):
        assert shown in where.inner_text()
    assert "two  spaces" in page.locator("#head").inner_text()
    for path in ("/diff?to=run3:1", "/runs/run3/blame?path=/spaces", "/compare/run3/run2"):
        page.goto(f"{tabs.address}{path}")
        assert "  " in page.locator("body").inner_text(), path
    page.goto(f"{tabs.address}/diff?to=run3:1")
    assert '"a  b"' in page.locator(".sides").inner_text()


def test_what_is_folded_between_changes_opens_where_it_is(tabs: Tabs) -> None:
    """Each key once, in its order."""
    page = tabs.open("/runs/run3/steps/1")
    wide = page.locator("#payload details", has=page.locator("> summary[data-path='/wide']")).first
    expect(wide.locator(".more a")).to_have_text(["20 more keys", "19 more keys", "9 more keys"])
    for left in (2, 1, 0):
        wide.locator(".more a").first.click()
        expect(wide.locator(".more a")).to_have_count(left)
    assert wide.locator(".leaf .key").all_inner_texts() == [f"k{at:02}" for at in range(70)]
