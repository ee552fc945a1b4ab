"""Running again in a browser: edit, see what will happen, run, watch it, stop it, compare both runs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import waiting
from browsing import Tabs, served
from looking import expect_fit, expect_readable, objections
from playwright.sync_api import Page, expect
from stage import record_refunds, recorded


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """run1 is the example that fails, run2 its child, run3 the same put right; re-runs come after."""
    return recorded(tmp_path_factory.mktemp("rerun"), record_refunds)


@pytest.fixture(scope="module")
def address(store: Path) -> Iterator[str]:
    """A server that runs the example again."""
    with served(store, store.parent / "said", "--app", "agentreplay.examples.refunds:step") as found:
        yield found


@pytest.fixture(scope="module")
def waiting_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that runs the agent again that waits for files, and run1 of it, which found them all."""
    folder = tmp_path_factory.mktemp("waiting")

    def record(store: Path) -> None:
        for number in range(1, waiting.ROUNDS + 1):
            (folder / str(number)).touch()
        waiting.step.run({"folder": str(folder), "n": 0}, store=store)

    with served(recorded(folder, record), folder / "said", "--app", f"{waiting.__file__}:step") as found:
        yield found


def edit(page: Page, pattern: str, new: str) -> None:
    """Change one place of the payload in the form, as somebody would who types."""
    field = page.get_by_role("textbox", name="Payload as JSON")
    text, number = re.subn(pattern, new, field.input_value())
    assert number == 1
    field.fill(text)


def test_the_mistake_is_put_right_and_both_runs_are_compared(tabs: Tabs) -> None:
    """The form tells beforehand what will happen; the new run goes well, and stands beside the old where they part."""
    page = tabs.open("/runs/run1/steps/7")
    page.get_by_role("link", name="Re-run from here").click()
    plan = page.get_by_role("complementary", name="What will happen")
    expect(plan).to_contain_text("steps 1–6 from the log")
    expect(plan.get_by_role("group", name="Called only if you allow it")).to_contain_text("issue_refund")
    expect(plan.locator(".planned .fate.refused")).to_have_text("refused")
    edit(page, '"percent": 40', '"percent": 40, "used": true')
    expect(plan.locator(".phase.edit")).to_contain_text("order.coupon.used true")
    expect(plan).to_contain_text("--set /order/coupon/used=true")
    plan.get_by_role("checkbox", name="issue_refund").check()
    expect(plan.locator(".planned .fate.refused")).to_have_count(0)
    plan.get_by_role("button", name="Run from step 7").click()
    expect(page.locator(".standing")).to_have_text(re.compile(r"run\d+ completed"))
    expect(page.get_by_role("heading", name="The first difference")).to_be_visible()
    expect(page.locator(".difference.first")).to_contain_text("order.coupon.used true")
    expect_fit(page)
    expect_readable(page)
    page.get_by_role("link", name="Compare with run1").click()
    expect(page.locator(".pairrow", has_text="Success")).to_be_visible()
    page.goto(f"{tabs.address}/reruns")
    expect(page.locator("tbody tr").first).to_contain_text("run1 step 7")


def test_a_tool_that_was_not_allowed_is_not_called(tabs: Tabs) -> None:
    """The new run ends there, with the reason; the old one is as it was."""
    page = tabs.open("/runs/run1/steps/7/rerun")
    edit(page, '"percent": 40', '"percent": 40, "used": true')
    expect(page.locator(".phase.edit")).to_contain_text("order.coupon.used")
    page.get_by_role("textbox", name="Payload as JSON").press("Control+Enter")
    expect(page.locator(".standing")).to_have_text(re.compile(r"run\d+ failed"))
    expect(page.locator(".standing")).to_contain_text("issue_refund")
    page.goto(f"{tabs.address}/runs/run1")
    expect(page.locator("#head")).to_contain_text("failed at step 10")


def test_an_answer_of_the_model_is_given_instead(tabs: Tabs) -> None:
    """It takes the place of the call: the step goes on with it, and the model is not asked in that step."""
    page = tabs.open("/runs/run1/steps/9/rerun")
    page.get_by_role("radio", name="give this answer").first.check()
    answer = page.get_by_role("textbox", name="Answer of model ask as JSON")
    decision = {"step": "Failed", "errorMessage": "a person looked at it", "reasoning": "The total is wrong."}
    given = {"role": "assistant", "content": json.dumps(decision), "usage": {"input_tokens": 1, "output_tokens": 1}}
    answer.fill(json.dumps(given))
    plan = page.get_by_role("complementary", name="What will happen")
    expect(plan.locator(".planned .fate.edited")).to_have_count(1)
    plan.get_by_role("button", name="Run from step 9").click()
    expect(page.locator(".standing")).to_have_text(re.compile(r"run\d+ failed"))
    expect(page.locator(".standing")).to_contain_text("a person looked at it")


def test_a_rerun_of_the_waiting_agent_is_watched_live(tabs: Tabs, waiting_address: str, tmp_path: Path) -> None:
    """Its steps come in one by one, its output beside them; in the end both runs stand there without a load."""
    tabs.address = waiting_address
    page = tabs.open("/runs/run1/steps/2/rerun")
    edit(page, '"folder": ".*"', f'"folder": "{tmp_path}"')
    expect(page.locator(".phase.edit")).to_contain_text("folder")
    page.get_by_role("button", name="Run from step 2").click()
    standing = page.locator(".standing")
    expect(standing).to_have_text(re.compile(r"run\d+ running"))
    expect(page.get_by_role("region", name="Output")).to_contain_text("round 2")
    steps = page.get_by_role("region", name="Steps").locator("a.step")
    expect(steps).to_have_count(1)
    expect_fit(page)
    assert objections(page, 1440, "light") == []
    (tmp_path / "2").touch()
    expect(steps).to_have_count(2)
    (tmp_path / "3").touch()
    expect(standing).to_have_text(re.compile(r"run\d+ completed"))
    expect(page.get_by_role("heading", name="The first difference")).to_be_visible()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)


def test_a_rerun_of_the_waiting_agent_is_stopped(tabs: Tabs, waiting_address: str, tmp_path: Path) -> None:
    """While it waits for what never comes; the new run is cancelled, what it did stays, and it can be run again."""
    tabs.address = waiting_address
    page = tabs.open("/runs/run1/steps/3/rerun")
    edit(page, '"folder": ".*"', f'"folder": "{tmp_path}/never"')
    expect(page.locator(".phase.edit")).to_contain_text("folder")
    page.get_by_role("button", name="Run from step 3").click()
    standing = page.locator(".standing")
    expect(standing).to_have_text(re.compile(r"run\d+ running"))
    page.get_by_role("button", name="Stop").click()
    expect(standing).to_have_text(re.compile(r"run\d+ cancelled"))
    page.get_by_role("link", name="Edit and run again").click()
    expect(page.locator(".phase.edit")).to_contain_text("never")
    page.goto(f"{tabs.address}/runs?status=cancelled")
    expect(page.locator("tbody tr")).to_have_count(1)


def test_a_server_without_code_says_how_to_run_again(tabs: Tabs, store: Path, tmp_path: Path) -> None:
    """Nothing can be run from the page, and the command for a terminal is there to be copied."""
    with tabs.on(store, tmp_path / "without"):
        page = tabs.open("/runs/run1/steps/7/rerun")
        plan = page.get_by_role("complementary", name="What will happen")
        expect(plan.get_by_role("button", name="Run from step 7")).to_be_disabled()
        edit(page, '"percent": 40', '"percent": 40, "used": true')
        expect(plan).to_contain_text("agentreplay rerun run1 --step 7 --app FILE.py:NAME --set /order/coupon/used=true")


def test_a_server_that_only_reads_offers_no_rerun(tabs: Tabs, store: Path, tmp_path: Path) -> None:
    """No button, no key, and no form at the address that others know."""
    with tabs.on(store, tmp_path / "reading", "--read-only"):
        page = tabs.open("/runs/run1/steps/7")
        expect(page.get_by_role("link", name="Diff")).to_be_visible()
        expect(page.get_by_role("link", name="Re-run from here")).to_have_count(0)
        page.keyboard.press("r")
        tabs.expect_status(403)
        page.goto(f"{tabs.address}/runs/run1/steps/7/rerun")
        expect(page.locator("main")).to_contain_text("started with --read-only")


def test_a_plan_that_cannot_be_checked_says_so_and_nothing_is_run(tabs: Tabs, store: Path, tmp_path: Path) -> None:
    """The server is gone: the edit stays, the plan is no longer about it, and there is nothing to press but "again"."""
    with tabs.on(store, tmp_path / "leaving", "--app", "agentreplay.examples.refunds:step"):
        page = tabs.open("/runs/run1/steps/7/rerun")
        plan = page.get_by_role("complementary", name="What will happen")
        expect(plan.get_by_role("button", name="Run from step 7")).to_be_enabled()
        tabs.expect_no_server()
    edit(page, '"percent": 40', '"percent": 40, "used": true')
    expect(plan.get_by_role("alert")).to_contain_text("The server does not answer")
    expect(plan.get_by_role("alert")).to_contain_text("What is told below is not about the form as it is now.")
    expect(plan.get_by_role("button", name="Run from step 7")).to_be_disabled()
    plan.get_by_role("button", name="Check again").click()
    expect(plan.get_by_role("alert")).to_have_count(1)
    assert '"used": true' in page.get_by_role("textbox", name="Payload as JSON").input_value()


def test_a_run_that_cannot_be_asked_for_leaves_the_edit_where_it_is(tabs: Tabs, store: Path, tmp_path: Path) -> None:
    """The page stays, with the error beside the form."""
    with tabs.on(store, tmp_path / "leaving", "--app", "agentreplay.examples.refunds:step"):
        page = tabs.open("/runs/run1/steps/7/rerun")
        edit(page, '"percent": 40', '"percent": 40, "used": true')
        expect(page.locator(".phase.edit")).to_contain_text("order.coupon.used")
        tabs.expect_no_server()
    page.get_by_role("button", name="Run from step 7").click()
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer")
    expect(page.get_by_role("button", name="Run from step 7")).to_be_disabled()
    assert '"used": true' in page.get_by_role("textbox", name="Payload as JSON").input_value()


def test_whoever_comes_back_to_the_form_finds_the_edit(tabs: Tabs) -> None:
    """Text, boxes and the plan that belongs to them; a new visit begins with what was recorded."""
    page = tabs.open("/runs/run1/steps/7/rerun")
    edit(page, '"percent": 40', '"percent": 40, "used": true')
    page.get_by_role("textbox", name="Message").fill("have another look")
    expect(page.locator(".phase.edit")).to_contain_text("have another look")
    page.get_by_role("button", name="Run from step 7").click()
    expect(page.locator(".standing")).to_have_text(re.compile(r"run\d+ failed"))
    expect(page.locator(".standing")).to_contain_text("tick the tool under “Called only if you allow it”")
    page.go_back()
    expect(page.get_by_role("textbox", name="Message")).to_have_value("have another look")
    expect(page.locator(".phase.edit")).to_contain_text("order.coupon.used true")
    page.goto(f"{tabs.address}/runs/run1")
    page.goto(f"{tabs.address}/runs/run1/steps/7/rerun")
    expect(page.locator(".phase.edit")).to_contain_text("Nothing is edited yet")
