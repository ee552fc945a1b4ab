"""Re-running from a browser: the form, what would happen, the process, and both runs in the end."""

from __future__ import annotations

import datetime
import html
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.examples import refunds
from agentreplay.recorder.locate import open_store
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.replay.outline import entries_of
from agentreplay.webui.app import create_app
from agentreplay.webui.reruns import Reruns
from agentreplay.webui.step_views import step_view
from event_builder import EventBuilder
from flask import Flask
from flask.testing import FlaskClient
from web import client_of, page, recorded
from werkzeug.test import TestResponse

APP = "agentreplay.examples.refunds:step"
FORM = "/runs/run1/steps/7/rerun"
COUPON = '"percent": 40'


class Site:
    """A server over a store in a file, and a browser without a window."""

    def __init__(self, store: EventStore, app: str | None, **options: Any) -> None:
        self.store = store
        self.app: Flask = create_app(store, app=app, **options)
        self.client: FlaskClient = self.app.test_client()
        self.csrf: str = self.app.extensions["agentreplay"].guard.csrf
        self.reruns: Reruns = self.app.extensions["agentreplay.reruns"]

    def send(self, url: str = FORM, *, part: bool = False, **fields: Any) -> TestResponse:
        headers = {"X-Part": "1"} if part else {}
        return self.client.post(url, data={"csrf": self.csrf, **fields}, headers=headers)

    def told(self, url: str = FORM, **fields: Any) -> str:
        """What the form says that would happen, as text."""
        answer = self.send(url, part=True, **fields)
        assert answer.status_code == 200, answer.get_data(as_text=True)
        return text_in(answer.get_data(as_text=True))

    def run(self, url: str = FORM, **fields: Any) -> int:
        """Run the form; gives the re-run's number."""
        answer = self.send(url, do="run", **fields)
        assert answer.status_code == 303, text_in(answer.get_data(as_text=True))
        return int(answer.headers["Location"].rpartition("/")[2])

    def ended(self, number: int) -> dict[str, Any]:
        """A re-run, once it is over."""
        assert self.reruns.named(number).process.wait(60)
        found: dict[str, Any] = self.client.get(f"/api/v1/reruns/{number}").get_json()
        assert found["over"] is True
        return found


def text_in(page: str) -> str:
    """The words of a page."""
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", page)))


def field(page: str, name: str) -> str:
    """The text in a field of a form."""
    found = re.search(rf'<textarea[^>]* name="{re.escape(name)}"[^>]*>\n(.*?)</textarea>', page, re.S)
    assert found is not None, f"there is no field {name}"
    return html.unescape(found[1])


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """The runs of the example agent, which may be run again."""
    store = open_store(tmp_path / "store.db")
    refunds.step.run(refunds.START, store=store)
    made = Site(store, APP)
    yield made
    made.reruns.close()
    store.close()


# -- the form ---------------------------------------------------------------------------------------------------------


def test_a_step_leads_to_its_form() -> None:
    """The step's page links to it, by the key r, too; not step 0, and not where nothing may be changed."""
    client = client_of()
    assert f'href="{FORM}" data-rerun' in page(client, "/runs/run1/steps/7")
    assert "data-rerun" not in page(client, "/runs/run1/steps/0")
    assert "data-rerun" not in page(client_of(read_only=True), "/runs/run1/steps/7")


def test_the_form_has_the_payload_before_the_step(site: Site) -> None:
    """What step 7 changed is not in it yet: the total is still 129.50; and every call of the step is there."""
    text = page(site.client, FORM)
    assert '"total": 129.5\n' in field(text, "payload")
    assert 'name="way:7.1" value="skip"' in text
    assert '"role": "assistant"' in field(text, "answer:7.1")
    assert field(text, "params") == "{}"
    assert field(text, "input") == "null"


def test_nothing_is_edited_at_first(site: Site) -> None:
    """The form as it comes asks for nothing but the same again."""
    text = page(site.client, FORM)
    told = site.told(**{name: field(text, name) for name in ("payload", "params", "input", "message")}, role="user")
    assert "edit nothing" in told
    assert "agentreplay rerun run1 --step 7 --app agentreplay.examples.refunds:step The" not in told
    assert told.rstrip().endswith("agentreplay rerun run1 --step 7 --app agentreplay.examples.refunds:step")


def test_what_will_happen_is_told_before_it_does(site: Site) -> None:
    """What comes from the log, the edit as a difference, what is made again, what is refused; and the command."""
    edited = field(page(site.client, FORM), "payload").replace(COUPON, f'{COUPON}, "used": true')
    told = site.told(payload=edited)
    assert "steps 1–6 from the log" in told
    assert "9 calls, 1 child run" in told
    assert "+ added order.coupon.used true" in told
    assert "issue_refund irreversible, 1 recorded call refused" in told
    assert "4 made again 1 refused" in told
    allowed = site.told(payload=edited, allow="issue_refund")
    assert "5 made again" in allowed
    assert allowed.rstrip().endswith("--set /order/coupon/used=true --allow issue_refund")
    assert site.store.runs()[-1].id == "run2"


def test_what_is_wrong_is_told_beside_its_field(site: Site) -> None:
    """With line and column; then it cannot be run."""
    answer = site.send(part=True, payload='{\n  "a": 1,\n}', params="[]", **{"way:7.1": "answer", "answer:7.1": "{"})
    text = answer.get_data(as_text=True)
    assert re.search(r'data-for="error-payload">line 3, column 1: [^<]+', text)
    assert re.search(r'data-for="error-params">parameters are an object', text)
    assert re.search(r'data-for="error-answer-0">line 1, column 2', text)
    assert 'value="run" title="Ctrl-Enter" disabled' in text
    refused = site.send(do="run", payload="{")
    assert refused.status_code == 422
    assert site.reruns.all() == []


def test_every_edit_is_told(site: Site) -> None:
    """An answer, a skipped call, a parameter, the input, messages of either kind: each as what it changes."""
    told = site.told(
        "/runs/run1/steps/9/rerun",
        params='{"tone": "kind"}',
        input='"again"',
        role=["user", "json"],
        message=["Be quick.\r\nPlease.", '{"role": "tool", "n": 9007199254740993}'],
        **{"way:9.1": "skip", "way:9.2": "answer", "answer:9.2": '{"receipt": "R"}'},
    )
    assert 'parameters + added tone "kind"' in told
    assert 'input ~ changed (input) null → "again"' in told
    assert "model ask is not made, and gives null" in told
    assert 'answer of tool issue_refund {"receipt": "R"}' in told
    assert 'added message {"role": "user", "content": "Be quick.\\nPlease."}' in told
    assert 'added message {"role": "tool", "n": 9007199254740993}' in told
    assert "1 answered as edited" in told
    assert "1 not made" in told
    for option in ("--skip 9.1", '--tool-result \'9.2={"receipt": "R"}\'', "--param 'tone=\"kind\"'", "--input"):
        assert option in told


def test_a_script_runs_a_form_without_leaving_the_page(site: Site) -> None:
    """It is told where the re-run is; what is wrong comes as the parts of the page that say so."""
    wrong = site.send(part=True, do="run", payload="{")
    assert wrong.status_code == 422
    assert 'data-for="error-payload">line 1' in wrong.get_data(as_text=True)
    asked = site.send(part=True, do="run")
    assert (asked.status_code, asked.headers["Location"]) == (201, "/reruns/1")


@pytest.mark.parametrize(
    ("standing", "said"),
    [
        ("running", "no answer yet"),
        ("crashed", "in flight when it crashed"),
        ("failed", "no answer was recorded"),
    ],
)
def test_of_a_call_without_an_answer_is_said_what_is_known(standing: str, said: str) -> None:
    """It may come as long as the run goes on."""
    log = EventBuilder({})
    log.begin()
    log.call("1.1", "pay")
    entry = next(entry for entry in entries_of(log.events) if entry.step == 1)
    told = step_view(entry, log.events, lambda seq, field: lambda at, start: "", str, standing)
    assert [view.result for view in told.calls] == [said]


def test_the_form_works_without_a_script(site: Site) -> None:
    """One more message, an answer to edit, a part of the payload: the form comes back with it, and what was typed."""
    more = site.send(do="message", role="user", message="typed").get_data(as_text=True)
    assert more.count('name="message"') == 2
    assert "typed</textarea>" in more
    opened = site.send("/runs/run1/steps/9/rerun", do="open:9.2", input='"typed"').get_data(as_text=True)
    assert field(opened, "answer:9.2") == "null"
    assert re.search(r'name="way:9.2" value="answer" data-checked checked', opened)
    assert field(opened, "input") == '"typed"'
    assert site.send(do="open:1.1").status_code == 400


def test_a_part_of_the_payload_is_edited_where_it_stands(site: Site) -> None:
    """Of a payload that is too large a part is chosen; the edit is of that part."""
    text = page(site.client, f"{FORM}?at=/order/coupon")
    assert field(text, "payload") == '{\n  "code": "SPRING",\n  "percent": 40\n}'
    told = site.told(at="/order/coupon", payload='{"code": "SPRING", "percent": 0}')
    assert "~ changed order.coupon.percent 40 → 0" in told
    assert page(site.client, f"{FORM}?at=/nothing", 400)
    assert page(site.client, f"{FORM}?at=nothing", 400)


def test_a_large_payload_is_offered_in_parts(tmp_path: Path) -> None:
    """The page stays small; what it consists of is there to choose."""
    store = open_store(tmp_path / "store.db")
    with ar.record(
        "large", payload={"small": {"a": 1}, "text": "x" * 300_000, "many": [1] * 200_000}, store=store
    ) as run:
        with run.round() as r:
            r.decide(step="Success")
        run.complete(None)
    client = create_app(store).test_client()
    text = page(client, "/runs/run1/steps/1/rerun")
    assert len(text) < 30_000
    assert "too large to be edited as a whole" in text
    assert 'href="/runs/run1/steps/1/rerun?at=/small"' in text
    assert field(page(client, "/runs/run1/steps/1/rerun?at=/small"), "payload") == '{\n  "a": 1\n}'
    store.close()


def test_without_an_app_there_is_the_command() -> None:
    """The page says how to start a server that can, and offers the command; nothing can be run."""
    app = create_app(recorded())
    csrf = app.extensions["agentreplay"].guard.csrf
    client = app.test_client()
    text = text_in(page(client, FORM))
    assert "started without --app" in text
    assert "agentreplay ui --app FILE.py:NAME" in text
    assert "agentreplay rerun run1 --step 7 --app FILE.py:NAME" in text
    refused = client.post(FORM, data={"csrf": csrf, "do": "run"})
    assert (refused.status_code, b"--app" in refused.data) == (403, True)


def test_a_store_in_memory_is_not_run_again() -> None:
    """No other process could record into it."""
    site = Site(MemoryStore(), APP)
    refunds.step.run(refunds.START, store=site.store)
    assert "in this server&#39;s memory" in page(site.client, FORM)
    assert site.send(do="run").status_code == 409


# -- running ----------------------------------------------------------------------------------------------------------


def test_an_edit_makes_of_a_failed_run_one_that_completes(site: Site) -> None:
    """It is run in a process of its own, records a fork, and both are side by side at the first difference."""
    edited = field(page(site.client, FORM), "payload").replace(COUPON, f'{COUPON}, "used": true')
    number = site.run(payload=edited, allow="issue_refund")
    assert number == 1
    found = site.ended(number)
    assert (found["parent"], found["step"], found["run"], found["status"]) == ("run1", 7, "run3", "completed")
    assert (found["exit_code"], found["problem"], found["divergences"]) == (0, None, [])
    assert found["coverage"]["live"] == 5
    forked = next(event for event in site.store.events("run3") if event.kind == "run.forked")
    assert forked.data.edits == [
        {"edit": "patch", "patch": [{"op": "add", "path": "/order/coupon/used", "value": True}]}
    ]
    text = text_in(page(site.client, "/reruns/1"))
    assert "run3 completed" in text
    assert "add /order/coupon/used true" in text
    assert "allowed: issue_refund" in text
    assert "The first difference run1 step 7 · run3 step 7" in text
    assert "1 run1 step 7 run3 completed" in text_in(page(site.client, "/reruns"))


def test_a_tool_that_was_not_allowed_is_refused(site: Site) -> None:
    """The new run says so, and what to do; nothing irreversible was done."""
    found = site.ended(site.run("/runs/run1/steps/9/rerun"))
    assert (found["run"], found["status"], found["exit_code"]) == ("run3", "failed", 1)
    assert "issue_refund is irreversible" in text_in(page(site.client, "/reruns/1"))


def test_a_form_can_be_started_from_again(site: Site) -> None:
    """With what was typed."""
    number = site.run(payload="{}", ignore="tool:x", role="user", message="once more")
    site.ended(number)
    text = page(site.client, f"{FORM}?again={number}")
    assert field(text, "payload") == "{}"
    assert field(text, "ignore") == "tool:x"
    assert "once more</textarea>" in text
    assert '"role": "assistant"' in field(text, "answer:7.1")
    assert page(site.client, f"{FORM}?again=77", 404)


def test_code_that_parts_from_the_recording_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where, what was recorded and what it does now; and the way on, from the recorded state."""
    monkeypatch.chdir(tmp_path)
    code = Path("counting.py")
    code.write_text(COUNTING, encoding="utf-8")
    site = recorded_from(tmp_path, "counting.py:step")
    code.write_text(
        COUNTING.replace('add(n=context.payload["n"])', 'add(n=context.payload["n"] + 1)'), encoding="utf-8"
    )
    found = site.ended(site.run("/runs/run1/steps/3/rerun", prefix="execute"))
    assert (found["run"], found["status"]) == (None, "diverged")
    assert found["divergences"][0]["step"] == 1
    text = page(site.client, "/reruns/1")
    assert "parted from the recording" in text
    assert 'href="/runs/run1/steps/3/rerun?again=1&amp;prefix=fold"' in text
    folded = page(site.client, "/runs/run1/steps/3/rerun?again=1&prefix=fold")
    assert re.search(r'name="prefix" value="fold" data-checked checked', folded)
    ended = site.ended(site.run("/runs/run1/steps/3/rerun", prefix="fold"))
    assert (ended["run"], ended["status"]) == ("run2", "completed")
    site.reruns.close()


def test_code_that_cannot_be_loaded_is_told(site: Site) -> None:
    """What the process complained of, on the page and in the API; no run was recorded."""
    broken = Site(site.store, "nowhere_to_be_found:step")
    found = broken.ended(broken.run())
    assert (found["run"], found["status"], found["exit_code"]) == (None, "refused", 2)
    assert "there is no module 'nowhere_to_be_found'" in found["problem"]
    assert "there is no module 'nowhere_to_be_found'" in text_in(page(broken.client, "/reruns/1"))
    assert site.store.runs()[-1].id == "run2"


# -- exactness --------------------------------------------------------------------------------------------------------

COUNTING = """
import time
import agentreplay as ar

@ar.tool(safety="pure")
def add(n):
    return n + 1

@ar.agent("counting", max_rounds=1000)
def step(round_index, context):
    if context.payload.get("slow"):
        print("waiting", flush=True)
        time.sleep(context.payload["slow"])
    if context.payload.get("deaf"):
        try:
            time.sleep(600)
        except KeyboardInterrupt:
            time.sleep(600)
    context.change(update={"n": add(n=context.payload["n"])})
    if round_index >= 3:
        return ar.Complete({"payload": dict(context.payload), "params": context.params, "input": context.input})
    return ar.Continue()
"""

EXACT: dict[str, Any] = {
    "n": 0,
    "big": 2**53 + 1,
    "huge": 10**40,
    "nan": float("nan"),
    "zero": -0.0,
    "bytes": b"\xff\x00",
    "half": "a\ud800b",
    "hidden": "\u202e\u200b\x7f\x00",
    "none": None,
    "keys": {1: "a", "1": "b"},
    "when": datetime.datetime(2026, 1, 2, 3, 4, 5, 678),
    "tuple": (1, (2**60,)),
    "tagged": {"$type": "mine"},
    "slow": 0,
}


def recorded_from(folder: Path, reference: str, payload: dict[str, Any] | None = None) -> Site:
    """A server for code in a file, with its run."""
    store = open_store(folder / "store.db")
    from agentreplay.cli.loading import module_of, target_in

    agent = target_in(module_of(reference), reference)
    agent.run({"n": 0} if payload is None else payload, params={"big": 2**53 + 1}, store=store)
    return Site(store, reference)


ORDERING = """
from dataclasses import dataclass
import agentreplay as ar

@dataclass
class Order:
    total: float
    lines: tuple

@ar.agent("ordering")
def step(round_index, context):
    if round_index == 1:
        context.change(new={"order": Order(12.5, ("lamp", 1)), "seats": {1: "free"}})
        return ar.Continue()
    order = context.payload["order"]
    return ar.Complete([type(order).__name__, order.total, list(order.lines), dict(context.payload["seats"])[1]])
"""


def test_what_the_agent_made_is_edited_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields, items and keys that are no texts, in the text of the payload: the agent gets its own class again."""
    monkeypatch.chdir(tmp_path)
    Path("ordering.py").write_text(ORDERING, encoding="utf-8")
    site = recorded_from(tmp_path, "ordering.py:step", {})
    url = "/runs/run1/steps/2/rerun"
    before = field(page(site.client, url), "payload")
    typed = before.replace("12.5", "3.0").replace('"lamp"', '"bulb"').replace('"free"', '"taken"')
    told = site.told(url, payload=typed)
    assert "~ changed order.total 12.5 → 3.0" in told
    assert '~ changed order.lines[0] "lamp" → "bulb"' in told
    assert "--set /order/total=3.0 --set '/order/lines/0=\"bulb\"' --set '/seats/1=\"taken\"'" in told
    found = site.ended(site.run(url, payload=typed))
    assert found["status"] == "completed", found
    assert ar.state_at(found["run"], store=site.store).value == ["Order", 3.0, ["bulb", 1], "taken"]


def test_a_part_inside_of_what_the_agent_made_is_edited_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the path that differences have; also where the edit is more than some new values."""
    monkeypatch.chdir(tmp_path)
    Path("ordering.py").write_text(ORDERING, encoding="utf-8")
    site = recorded_from(tmp_path, "ordering.py:step", {})
    url = "/runs/run1/steps/2/rerun"
    at = "/order/lines"
    assert '"lamp"' in field(page(site.client, f"{url}?at={at}"), "payload")
    assert site.client.get(f"{url}?at=/order/total/x").status_code == 400
    typed = '{"$type": "tuple", "items": ["new", "lamp", 1]}'
    assert '+ added order.lines[0] "new"' in site.told(url, at=at, payload=typed)
    found = site.ended(site.run(url, at=at, payload=typed))
    assert ar.state_at(found["run"], store=site.store).value == ["Order", 12.5, ["new", "lamp", 1], "free"]


def test_what_is_not_touched_keeps_its_exact_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large integers, NaN, bytes, half of a surrogate pair, null, keys of either type: edited around, they stay."""
    monkeypatch.chdir(tmp_path)
    Path("exact.py").write_text(COUNTING, encoding="utf-8")
    site = recorded_from(tmp_path, "exact.py:step", EXACT)
    url = "/runs/run1/steps/2/rerun"
    text = page(site.client, url)
    before = field(text, "payload")
    assert "\u202e" not in text
    assert "\\u202e\\u200b\\u007f\\u0000" in before
    typed = before.replace('"none": null,', '"added": [9007199254740993, "\\udc00", null],').replace(
        '"n": 1', '"n": 4e0'
    )
    told = site.told(url, payload=typed)
    assert "− removed none null" in told
    assert '+ added added [9007199254740993, "\\udc00", null]' in told
    assert "~ changed n 1 → 4.0" in told
    params = field(text, "params").replace("9007199254740993", "9007199254740995")
    found = site.ended(site.run(url, payload=typed, params=params, input='{"$type": "bytes", "base64": "/w=="}'))
    assert found["status"] == "completed", found
    result = ar.state_at(found["run"], store=site.store).value
    assert result["input"] == b"\xff"
    assert result["params"] == {"big": 2**53 + 3}
    payload = result["payload"]
    assert "none" not in payload
    assert payload["added"] == [2**53 + 1, "\udc00", None]
    assert (payload["n"], type(payload["n"])) == (6.0, float)
    kept = {name: value for name, value in EXACT.items() if name not in ("none", "n", "nan")}
    assert {name: payload[name] for name in kept} == kept
    assert {name: type(payload[name]) for name in kept} == {name: type(value) for name, value in kept.items()}
    assert str(payload["nan"]) == "nan"
    assert str(payload["zero"]) == "-0.0"
    assert payload["tuple"] == (1, (2**60,))
    (edit,) = [event for event in site.store.events(found["run"]) if event.kind == "run.forked"]
    touched = {one["path"] for told in edit.data.edits if told["edit"] == "patch" for one in told["patch"]}
    assert touched == {"/none", "/added", "/n"}
    site.reruns.close()


# -- stopping ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server for an agent that can be made to wait."""
    monkeypatch.chdir(tmp_path)
    Path("waiting.py").write_text(COUNTING, encoding="utf-8")
    site = recorded_from(tmp_path, "waiting.py:step")
    yield site
    site.reruns.close()
    site.store.close()


WAITING = "/runs/run1/steps/2/rerun"


def until_running(site: Site, number: int) -> dict[str, Any]:
    """A re-run, once its process records a run."""
    found: dict[str, Any] = {}

    def records() -> bool:
        found.update(site.client.get(f"/api/v1/reruns/{number}").get_json())
        return found["run"] is not None or found["over"]

    until(records)
    return found


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_re_run_can_be_stopped(counting: Site) -> None:
    """While it goes on its steps are shown; once it was stopped, the new run is cancelled, and its process gone."""
    number = counting.run(WAITING, payload='{"n": 1, "slow": 600}')
    running = until_running(counting, number)
    assert (running["run"], running["status"], running["over"]) == ("run2", "running", False)
    text = page(counting.client, f"/reruns/{number}")
    assert f'action="/reruns/{number}/stop"' in text
    assert f'data-live="/api/v1/reruns/{number}/live"' in text
    assert 'data-step="2"' in text
    process = counting.reruns.named(number).process
    answer = counting.send(f"/reruns/{number}/stop")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/reruns/{number}")
    found = counting.ended(number)
    assert (found["run"], found["status"], found["problem"]) == ("run2", "cancelled", None)
    assert "stopped from here" in page(counting.client, f"/reruns/{number}")
    assert not is_there(process.pid)
    assert counting.send(f"/reruns/{number}/stop").status_code == 303


def test_an_agent_that_does_not_stop_is_killed(counting: Site) -> None:
    """Then the new run has crashed: nothing could write how it ended."""
    number = counting.run(WAITING, payload='{"n": 1, "deaf": true}')
    until_running(counting, number)
    counting.reruns.stop(number)
    found = counting.ended(number)
    assert (found["run"], found["status"]) == ("run2", "crashed")


def test_a_re_run_is_followed_as_it_goes(counting: Site) -> None:
    """By server-sent events: that it runs, each time it has grown, how it ended; then the stream ends."""
    number = counting.run(WAITING, payload='{"n": 1, "slow": 0.3}')
    answer = counting.client.get(f"/api/v1/reruns/{number}/live", buffered=False)
    assert answer.mimetype == "text/event-stream"
    text = b"".join(answer.response).decode()
    answer.close()
    states = re.findall(r'"status": "(\w+)", "run": (?:"(\w+)"|null)', text)
    assert ("starting", "") in states
    assert ("running", "run2") in states
    assert states[-1] == ("completed", "run2")
    assert text.endswith("event: end\ndata: {}\n\n")
    assert counting.app.extensions["agentreplay"].watch.followers == 0


def test_only_a_few_go_on_at_once(counting: Site) -> None:
    """One more is refused in words, and may come once another has ended."""
    numbers = [counting.run(WAITING, payload='{"n": 1, "slow": 600}') for _ in range(4)]
    refused = counting.send(WAITING, do="run", payload='{"n": 1}')
    assert (refused.status_code, b"4 re-runs go on already" in refused.data) == (409, True)
    counting.reruns.stop(numbers[0])
    counting.ended(numbers[0])
    assert counting.ended(counting.run(WAITING, payload='{"n": 1}'))["status"] == "completed"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_re_run_outlives_its_server(counting: Site, number: signal.Signals) -> None:
    """Whether the server is told to stop or killed: what it started stops, and says so in the log."""
    command = [sys.executable, "-m", "agentreplay", "ui", "--app", "waiting.py:step", "--port", "0"]
    environment = {**os.environ, "AGENTREPLAY_STORE": counting.store.url}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        token = json.loads(asked_of(f"{address}api/v1"))["csrf"]
        body = json.dumps({"step": 2, "set": {"/slow": 600}}).encode()
        asked_of(f"{address}api/v1/runs/run1/rerun", body, token)
        found: dict[str, Any] = {}

        def records() -> bool:
            found.update(json.loads(asked_of(f"{address}api/v1/reruns/1")))
            return found["run"] is not None or found["over"]

        until(records)
        assert found["run"] == "run2", found
        server.send_signal(number)
        server.wait(30)
    finally:
        server.kill()
        server.communicate()
    until(lambda: counting.store.run("run2").status != "running")
    assert counting.store.run("run2").status == "cancelled"


def asked_of(url: str, body: bytes | None = None, token: str = "") -> bytes:
    """What a server answers; a body is sent as JSON, with the page's token."""
    headers = {"Content-Type": "application/json", "X-CSRF-Token": token}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:
        return bytes(answer.read())


def until(condition: Callable[[], object]) -> None:
    """Wait for something that happens in another process."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_all_end_with_the_server(counting: Site) -> None:
    """Nothing is left running, and nothing more is started."""
    numbers = [counting.run(WAITING, payload='{"n": 1, "slow": 600}') for _ in range(2)]
    processes = [counting.reruns.named(number).process for number in numbers]
    counting.reruns.close()
    assert [is_there(process.pid) for process in processes] == [False, False]
    assert counting.send(WAITING, do="run", payload='{"n": 1}').status_code == 409
