"""A run in a browser: going from step to step with mouse, slider and keys, and finding what changed a value and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import Scheme, Tabs, expect_path, served
from playwright.sync_api import Page, expect
from stage import record_long, record_refunds, recorded


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """run1 to run3 are the example's; run4 has 300 steps."""
    folder = tmp_path_factory.mktemp("steps")
    store = recorded(folder, record_refunds, lambda store: record_long(store, 300))
    with served(store, folder / "said", "--app", "agentreplay.examples.refunds:step") as found:
        yield found


def expect_step(page: Page, step: int, decision: str) -> None:
    """The whole page is at that step: its details, the list, the slider and the address."""
    expect(page.locator("#detail h2")).to_contain_text(f"Step {step} · {decision}")
    expect(page.locator("a.step[aria-current]")).to_have_attribute("data-step", str(step))
    expect(page.get_by_role("slider")).to_have_value(str(step))
    expect(page.locator("#at")).to_have_text(str(step))


# -- the first look ----------------------------------------------------------------------------------------------------


def test_the_cause_of_the_planted_mistake_is_three_clicks_away(tabs: Tabs) -> None:
    """The run that failed, the total that is too small, and what ever changed it: step 7, with its reason."""
    page = tabs.open("/")
    page.get_by_role("link", name="run1", exact=True).last.click()
    payload = page.get_by_role("region", name="Payload")
    expect(payload).to_contain_text("a refund of 95.50 is more than the 77.70 that was paid for A-17")
    payload.locator("summary", has_text="order").first.click()
    payload.locator(".node", has_text="total 77.7").hover()
    payload.get_by_role("button", name="blame").click()
    newest = page.get_by_role("dialog").locator(".blame > li").first
    expect(newest).to_contain_text("129.5 → 77.7")
    expect(newest).to_contain_text("The coupon SPRING takes 40 % off the total.")
    expect(newest.get_by_role("link")).to_have_text("model ask, step 7")


def test_a_failed_run_opens_at_the_step_that_failed(tabs: Tabs) -> None:
    """The list marks it by word, sign and colour, and the head says how it ended."""
    page = tabs.open("/runs/run1")
    expect_step(page, 10, "Failed")
    expect(page.locator("#head")).to_contain_text("✕ failed at step 10")
    expect(page.locator("a.step.failed")).to_have_count(1)
    assert page.locator("a.step.failed .word").evaluate("word => getComputedStyle(word, '::before').content") == '"✕ "'


def test_the_list_marks_where_most_changed_and_only_where_that_says_something(tabs: Tabs) -> None:
    """Of run1 it is step 7; where all steps change alike, none is marked."""
    page = tabs.open("/runs/run1")
    expect(page.locator(".delta.most")).to_have_text(["2"])
    expect(page.locator("a.step:has(.most)")).to_have_attribute("data-step", "7")
    page = tabs.open("/runs/run4")
    expect(page.locator("[data-complete=yes]")).to_be_attached()
    expect(page.locator("a.step .delta", has_text="1").first).to_be_attached()
    expect(page.locator(".delta.most")).to_have_count(0)


# -- going from step to step -------------------------------------------------------------------------------------------


def test_arrows_go_from_step_to_step_and_each_has_an_address(tabs: Tabs) -> None:
    """They stop at both ends; a screen reader hears what was reached; the address opens the same page elsewhere."""
    page = tabs.open("/runs/run1")
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    expect_step(page, 7, "Retry")
    expect(page.locator("#heard")).to_have_text("step 7, Retry, 2 changes, 1 call")
    expect_path(page, "/runs/run1/steps/7")
    expect(page).to_have_title(re.compile("^run1 step 7 · refunds"))
    page.keyboard.press("ArrowRight")
    expect_step(page, 8, "Retry")
    again = tabs.open("/runs/run1/steps/7")
    expect_step(again, 7, "Retry")
    for _ in range(8):
        again.keyboard.press("ArrowLeft")
    expect(again.locator("#detail h2")).to_have_text("Step 0 · the start")
    expect_path(again, "/runs/run1/steps/0")


def test_the_way_back_leads_to_the_step_before(tabs: Tabs) -> None:
    """Of steps that are gone through quickly only the last stays in the history."""
    page = tabs.open("/runs/run1/steps/2")
    page.locator("a.step[data-step='9']").click()
    expect_step(page, 9, "Actions")
    page.go_back()
    expect_step(page, 2, "Actions")


def test_the_slider_scrubs_through_the_run(tabs: Tabs) -> None:
    """It is pressed anywhere on its track, dragged, and moved by keys; the buttons beside it do the same."""
    page = tabs.open("/runs/run1/steps/1")
    slider = page.get_by_role("slider")
    box = slider.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    expect_step(page, 5, "Sub-Agent")
    page.mouse.move(box["x"] + box["width"] * 0.99, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    expect_step(page, 10, "Failed")
    slider.press("ArrowLeft")
    expect_step(page, 9, "Actions")
    expect(slider).to_have_attribute("aria-valuetext", "step 9")
    page.get_by_role("link", name="The step before").click()
    page.get_by_role("link", name="The step before").click()
    expect_step(page, 7, "Retry")
    page.get_by_role("link", name="The next step").click()
    expect_step(page, 8, "Retry")


def test_up_and_down_move_in_the_list_of_steps_and_in_the_payload(tabs: Tabs) -> None:
    """In the list they choose the step, which keeps the focus; in the payload they go from value to value."""
    page = tabs.open("/runs/run1/steps/7")
    page.locator("a.step[data-step='7']").focus()
    page.keyboard.press("ArrowUp")
    expect_step(page, 6, "Retry")
    expect(page.locator("a.step[data-step='6']")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect_step(page, 7, "Retry")
    page.locator("#payload summary", has_text="order").first.focus()
    for shown in ("id", "customer", "items"):
        page.keyboard.press("ArrowDown")
        expect(page.locator("#payload .node:focus .key")).to_have_text(shown)
    expect_step(page, 7, "Retry")


def test_g_asks_for_a_step_and_goes_there(tabs: Tabs) -> None:
    """Steps that the run does not have are refused by the field."""
    page = tabs.open("/runs/run4")
    page.keyboard.press("g")
    field = page.get_by_role("dialog", name="Go to step").get_by_role("spinbutton")
    expect(field).to_be_focused()
    field.fill("301")
    page.keyboard.press("Enter")
    assert field.evaluate("field => field.validity.rangeOverflow")
    field.fill("42")
    page.keyboard.press("Enter")
    expect_step(page, 42, "Retry")
    expect_path(page, "/runs/run4/steps/42")


def test_a_question_mark_shows_all_keys_and_escape_hides_them(tabs: Tabs) -> None:
    """Every key of this page is told."""
    page = tabs.open("/runs/run1")
    page.keyboard.press("?")
    told = page.get_by_role("dialog", name="Keys")
    expect(told.locator("kbd")).to_have_text(["←", "→", "↑", "↓", "/", "g", "m", "d", "b", "w", "[", "]", "r", "?"])
    page.keyboard.press("Escape")
    expect(told).to_be_hidden()
    page.get_by_role("button", name="Keys").click()
    expect(told).to_be_visible()
    told.get_by_role("button", name="Close").click()
    expect(told).to_be_hidden()


def test_only_the_rows_that_are_seen_are_in_the_page(tabs: Tabs) -> None:
    """Of 300 steps some dozens; scrolling brings the others, each at its place."""
    page = tabs.open("/runs/run4")
    expect_step(page, 300, "Retry")
    rows = page.locator("a.step")
    assert rows.count() < 200
    expect(page.locator("a.step[data-step='3']")).to_have_count(0)
    page.locator("#steps").evaluate("list => { list.scrollTop = 0; }")
    third = page.locator("a.step[data-step='3']")
    expect(third).to_be_in_viewport()
    third.click()
    expect_step(page, 3, "Retry")
    page.get_by_role("slider").fill("150")
    expect_step(page, 150, "Retry")
    expect(page.locator("a.step[data-step='150']")).to_be_in_viewport()


# -- what a step shows -------------------------------------------------------------------------------------------------


def test_a_changed_value_is_marked_where_it_stands(tabs: Tabs) -> None:
    """Its branch is open, it has a sign beside the colour, and its old value; a screen reader hears what happened."""
    page = tabs.open("/runs/run1/steps/7")
    total = page.locator("#payload .node.replace")
    expect(total).to_contain_text("total 77.7 was 129.5")
    expect(total.locator(".sign")).to_have_text("~")
    expect(total.locator(".heard")).to_have_text("changed: ")
    changes = page.locator("#changes .change")
    expect(changes).to_have_count(2)
    expect(changes.first).to_contain_text("order.total")
    expect(changes.first.locator(".cause")).to_have_text("model ask")
    changes.first.locator(".cause").click()
    expect(page).to_have_url(re.compile(r"/runs/run1/steps/7#c\d+$"))


def test_a_call_opens_to_what_was_asked_answered_and_raised(tabs: Tabs) -> None:
    """The failed one has its traceback, and its events their data, which comes when it is asked for."""
    page = tabs.open("/runs/run1/steps/9")
    call = page.get_by_role("region", name="Calls").locator("details", has_text="issue_refund(").last
    call.locator("summary").first.click()
    expect(call).to_contain_text("safety irreversible")
    expect(call).to_contain_text("RefundRejected: a refund of 95.50 is more than the 77.70")
    expect(call).to_contain_text("Traceback (most recent call last)")
    events = page.get_by_role("region", name="Events")
    events.locator("summary").first.click()
    failed = events.locator("li", has_text="tool.failed").last
    failed.locator("summary").first.click()
    failed.locator("summary", has_text="error {4 keys}").click()
    expect(failed.locator(".node", has_text="message").first).to_contain_text(
        "a refund of 95.50 is more than the 77.70"
    )


def test_what_was_opened_stays_open_at_the_next_step(tabs: Tabs) -> None:
    """Who looks at the messages of one step looks at those of the next."""
    page = tabs.open("/runs/run1/steps/6")
    page.get_by_role("region", name="Messages").locator("summary").first.click()
    page.keyboard.press("ArrowRight")
    expect_step(page, 7, "Retry")
    expect(page.get_by_role("region", name="Messages").locator(".messages")).to_be_visible()
    page.get_by_role("link", name="The whole conversation").click()
    expect(page.locator("#payload .messages li")).to_have_count(15)
    expect_path(page, "/runs/run1/steps/7?part=messages")


# -- differences and blame ---------------------------------------------------------------------------------------------


def test_d_shows_the_step_before_beside_this_one(tabs: Tabs) -> None:
    """And so does the button."""
    page = tabs.open("/runs/run1/steps/7")
    page.keyboard.press("d")
    expect(page.get_by_role("heading", name="2 changes: 1 added, 1 replaced")).to_be_visible()
    expect_path(page, "/diff?from=run1%3A6&to=run1%3A7")
    page.go_back()
    page.get_by_role("link", name="Diff").click()
    expect(page).to_have_url(re.compile(r"/diff\?from=run1%3A6&to=run1%3A7$"))


def test_d_shows_what_lies_between_a_marked_step_and_this_one(tabs: Tabs) -> None:
    """A mark holds from page to page, in another run too, until it is taken away."""
    page = tabs.open("/runs/run1/steps/4")
    page.keyboard.press("m")
    expect(page.get_by_role("status").first).to_contain_text("Marked run1, step 4.")
    expect(page.locator("a.step.marked")).to_have_attribute("data-step", "4")
    page.goto(f"{tabs.address}/runs/run3/steps/7")
    page.keyboard.press("d")
    expect_path(page, "/diff?from=run1%3A4&to=run3%3A7")
    page.goto(f"{tabs.address}/runs/run1/steps/4")
    page.keyboard.press("m")
    expect(page.get_by_role("status").first).to_have_text("No step is marked.")
    page.keyboard.press("d")
    expect_path(page, "/diff?from=run1%3A3&to=run1%3A4")


def test_b_tells_what_ever_changed_the_value_that_has_the_focus(tabs: Tabs) -> None:
    """Without one it says how to choose one; what did it is a link to its step."""
    page = tabs.open("/runs/run1/steps/10")
    page.locator("#at").hover()
    page.keyboard.press("b")
    expect(page.get_by_role("status").first).to_contain_text("Choose a value first, with the mouse or with Tab")
    page.locator("#payload summary", has_text="order").first.click()
    page.locator("#payload .node", has_text="total 77.7").hover()
    page.keyboard.press("b")
    told = page.get_by_role("dialog")
    expect(told).to_contain_text("order.total")
    expect(told.locator(".blame > li")).to_have_count(2)
    told.get_by_role("link", name="model ask, step 7").click()
    expect_step(page, 7, "Retry")


def test_a_path_is_clicked_for_what_ever_changed_it(tabs: Tabs) -> None:
    """It opens above the page, and closes by a click beside it."""
    page = tabs.open("/runs/run1/steps/7")
    page.locator("#changes").get_by_role("link", name="order.total").click()
    told = page.get_by_role("dialog")
    expect(told.locator(".blame > li").first).to_contain_text("129.5 → 77.7")
    page.mouse.click(5, 5)
    expect(told).to_be_hidden()


def test_r_opens_the_form_that_runs_again_from_here(tabs: Tabs) -> None:
    """As the button does."""
    page = tabs.open("/runs/run1/steps/7")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", name="Re-run from step 7")).to_be_visible()
    expect_path(page, "/runs/run1/steps/7/rerun")


# -- searching, copying, arranging -------------------------------------------------------------------------------------


def test_a_slash_searches_the_run_and_leads_to_the_step(tabs: Tabs) -> None:
    """Values are searched, what was found is marked, and its place is opened."""
    page = tabs.open("/runs/run1")
    page.keyboard.press("/")
    page.keyboard.type("77.7")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/runs/run1/search\?q=77\.7$"))
    expect(page.locator("mark").first).to_have_text("77.7")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect_step(page, 7, "Retry")
    expect(page.locator(":target")).to_be_visible()


def test_paths_values_and_commands_are_copied(tabs: Tabs) -> None:
    """The command shows the same in a terminal; a value is copied as JSON."""
    tabs.allow_clipboard()
    page = tabs.open("/runs/run1/steps/7")
    page.get_by_role("button", name="agentreplay diff run1 --step 7").click()
    expect(page.get_by_role("status").first).to_have_text("Copied the command.")
    assert page.evaluate("navigator.clipboard.readText()") == "agentreplay diff run1 --step 7"
    page.locator("#payload .node", has_text="total 77.7").hover()
    page.get_by_role("button", name="copy path").click()
    expect(page.get_by_role("status").first).to_have_text("Copied the path.")
    assert page.evaluate("navigator.clipboard.readText()") == "order.total"
    page.get_by_role("button", name="copy value").click()
    expect(page.get_by_role("status").first).to_have_text("Copied the value.")
    assert page.evaluate("navigator.clipboard.readText()").strip() == "77.7"


def test_columns_are_dragged_and_stay_so(tabs: Tabs) -> None:
    """By the mouse and by keys, after the page is loaded again, too."""
    page = tabs.open("/runs/run1")
    width = "document.querySelector('.list').offsetWidth"
    assert page.evaluate(width) == 360
    bar = page.get_by_role("separator", name="Width of the list of steps")
    box = bar.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 4, 400)
    page.mouse.down()
    page.mouse.move(480, 400, steps=3)
    page.mouse.up()
    assert page.evaluate(width) == 480
    bar.press("ArrowLeft")
    assert page.evaluate(width) == 464
    page.reload()
    assert page.evaluate(width) == 464


@pytest.mark.parametrize(("system", "ground"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(21, 23, 27)")])
def test_the_scheme_follows_the_system_and_a_switch(tabs: Tabs, system: Scheme, ground: str) -> None:
    """What was chosen stays chosen, on other pages too."""
    page = tabs.open("/runs/run1", scheme=system)
    shown = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(shown) == ground
    page.get_by_role("button", name="Light or dark").click()
    switched = page.evaluate(shown)
    assert {ground, switched} == {"rgb(255, 255, 255)", "rgb(21, 23, 27)"}
    page.get_by_role("link", name="Health").click()
    expect(page.get_by_role("heading", name="Health")).to_be_visible()
    assert page.evaluate(shown) == switched


def test_a_phone_has_tabs_for_the_columns(tabs: Tabs) -> None:
    """A step that is chosen in the list shows at once what it did."""
    page = tabs.open("/runs/run1", width=390)
    expect(page.get_by_role("region", name="Changes")).to_be_visible()
    expect(page.get_by_role("region", name="Payload")).to_be_hidden()
    page.get_by_role("button", name="Payload").click()
    expect(page.get_by_role("region", name="Payload")).to_be_visible()
    page.get_by_role("button", name="Steps").click()
    expect(page.get_by_role("region", name="Payload")).to_be_hidden()
    page.locator("a.step[data-step='7']").click()
    expect_step(page, 7, "Retry")
    expect(page.get_by_role("region", name="Changes")).to_contain_text("order.total 129.5 → 77.7")


def test_two_columns_at_a_thousand_pixels_and_three_beyond(tabs: Tabs) -> None:
    """Where there is room for two, the payload comes below what the step did."""
    for width, columns in ((1440, 3), (1000, 2)):
        page = tabs.open("/runs/run1/steps/7", width=width)
        lefts = {
            round(box["x"])
            for part in (".list", ".pane.payload", ".pane.side")
            if (box := page.locator(part).bounding_box()) is not None
        }
        assert len(lefts) == columns


def test_the_address_is_that_of_the_step_that_is_shown(tabs: Tabs, tmp_path: Path) -> None:
    """Also where the next one cannot be had, because the server is gone."""
    with tabs.on(recorded(tmp_path, lambda store: record_long(store, 9)), tmp_path / "said"):
        page = tabs.open("/runs/run1/steps/3")
        expect(page.locator("#detail h2")).to_contain_text("Step 3")
        page.keyboard.press("ArrowRight")
        expect_path(page, "/runs/run1/steps/4")
        expect(page.locator("#detail h2")).to_contain_text("Step 4")
        tabs.expect_no_server()
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    expect(page.get_by_role("status").first).to_contain_text("The server does not answer")
    expect(page.locator("a.step[aria-current]")).to_have_attribute("data-step", re.compile("[456]"))
    page.wait_for_function("find('#detail h2').textContent.startsWith(`Step ${find('#at').textContent} `)")
    shown = page.locator("#at").inner_text()
    expect_path(page, f"/runs/run1/steps/{shown}")
    expect(page.locator("a.step[aria-current]")).to_have_attribute("data-step", shown)
