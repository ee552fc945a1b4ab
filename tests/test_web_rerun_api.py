"""Re-runs over the JSON API, and what is sent to it that must start nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from agentreplay.examples import refunds
from agentreplay.recorder.locate import open_store
from agentreplay.webui.app import create_app
from flask import Flask
from flask.testing import FlaskClient
from hypothesis import given, settings
from hypothesis import strategies as st
from test_webui_api import problems
from web import client_of, recorded
from werkzeug.test import TestResponse

APP = "agentreplay.examples.refunds:step"
URL = "/api/v1/runs/run1/rerun"
FIX = {"step": 7, "set": {"/order/coupon/used": True}, "allow": ["issue_refund"]}
RAN = {**FIX, "ignore": ["tool:that_is_run"]}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """A server over the runs of the example agent, which may be run again."""
    store = open_store(tmp_path_factory.mktemp("runs") / "store.db")
    refunds.step.run(refunds.START, store=store)
    made = create_app(store, app=APP)
    yield made
    made.extensions["agentreplay.reruns"].close()
    store.close()


def csrf(app: Flask) -> dict[str, str]:
    return {"X-CSRF-Token": app.extensions["agentreplay"].guard.csrf}


def post(app: Flask, url: str, body: Any = None, **headers: str) -> TestResponse:
    data = body if isinstance(body, (bytes, str)) else json.dumps(body)
    kind = headers.pop("Content_Type", "application/json")
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return app.test_client().post(url, data=data, content_type=kind, headers={**csrf(app), **named})


def nothing_started(app: Flask) -> bool:
    """Whether no re-run but the one that is meant to was started."""
    return all(one.request.to_json() == RAN for one in app.extensions["agentreplay.reruns"].all())


def schema_of(client: FlaskClient, method: str, path: str) -> dict[str, Any]:
    described = client.get("/api/v1/openapi.json").get_json()["paths"][f"/api/v1{path}"][method]
    found: dict[str, Any] = described["responses"]["200"]["content"]["application/json"]["schema"]
    return found


def test_a_program_runs_a_run_again(app: Flask) -> None:
    """It is told the number of the re-run, follows it to its end, and finds it in the list."""
    client = app.test_client()
    started = post(app, URL, RAN).get_json()
    assert problems(started, schema_of(client, "post", "/runs/{run}/rerun")) == []
    assert (started["rerun"], started["parent"], started["step"], started["over"]) == (1, "run1", 7, False)
    assert app.extensions["agentreplay.reruns"].named(1).process.wait(60)
    ended = client.get("/api/v1/reruns/1").get_json()
    assert problems(ended, schema_of(client, "get", "/reruns/{rerun}")) == []
    assert (ended["run"], ended["status"], ended["exit_code"]) == ("run3", "completed", 0)
    listed = client.get("/api/v1/reruns").get_json()
    assert problems(listed, schema_of(client, "get", "/reruns")) == []
    assert listed["reruns"] == [ended]
    stopped = post(app, "/api/v1/reruns/1/stop").get_json()
    assert stopped == ended


def test_a_plan_executes_nothing(app: Flask) -> None:
    """It says what `--dry-run` says, and whether it looked at all."""
    answer = post(app, f"{URL}/plan", FIX)
    found = answer.get_json()
    assert problems(found, schema_of(app.test_client(), "post", "/runs/{run}/rerun/plan")) == []
    assert found["answered"] == {"calls": 9, "values": 0, "runs": 1}
    assert [(call["call"], call["fate"]) for call in found["calls"]] == [
        ("7.1", "live"),
        ("8.1", "live"),
        ("9.1", "live"),
        ("9.2", "live"),
        ("10.1", "live"),
    ]
    assert found["edits"] == [{"edit": "set", "path": "/order/coupon/used", "value": True}]
    assert found["changes"][0]["path"] == "/order/coupon/used"
    assert (found["refused"], found["cut"]) == ([], False)
    assert nothing_started(app)


def test_a_plan_is_the_command_lines(app: Flask) -> None:
    """Field by field, but for what only the server says."""
    from agentreplay.replay.planning import plan
    from agentreplay.replay.rerun_request import RerunRequest

    store = app.extensions["agentreplay"].store
    asked = {"step": 9, "tool_results": {"9.2": {"receipt": "R"}}, "skip": ["9.1"], "reuse": True}
    told = post(app, f"{URL}/plan", asked).get_json()
    told.pop("cut")
    request = RerunRequest.from_json(asked)
    assert told == plan(store.events("run1"), 9, request.edits(), run="run1", reuse=True).to_json()


def test_values_that_json_cannot_say_are_exact(app: Flask) -> None:
    """As tags, or, numbers and halves of surrogate pairs, as they are."""
    asked = '{"step": 7, "set": {"/a": 9007199254740993, "/b": {"$type": "bytes", "base64": "/w=="}, "/c": "\\ud800"}}'
    edits = post(app, f"{URL}/plan", asked).get_json()["edits"]
    assert [edit["value"] for edit in edits] == [
        {"$type": "int", "value": "9007199254740993"},
        {"$type": "bytes", "base64": "/w=="},
        {"$type": "str", "escaped": "\\ud800"},
    ]


def test_null_is_not_missing(app: Flask) -> None:
    """An input of null is an edit; an input that is not there is none."""
    assert post(app, f"{URL}/plan", {"step": 7, "input": None}).get_json()["edits"] == [
        {"edit": "input", "value": None}
    ]
    assert post(app, f"{URL}/plan", {"step": 7}).get_json()["edits"] == []


# -- what starts nothing ----------------------------------------------------------------------------------------------

DEEP = "[" * 100_000
HOSTILE: list[tuple[str, int, str]] = [
    ("", 400, "nothing here"),
    ("{", 400, "line 1, column 2"),
    ("null", 400, "JSON object, not by null"),
    ("[]", 400, "JSON object, not by a list"),
    ('{"step": 7, "step": 8}', 400, "stands twice"),
    ('{"step": 7, "set": {"/a": NaN}}', 400, "NaN is no JSON"),
    ('{"step": 7, "set": {"/a": 1e999}}', 400, "beyond all numbers"),
    ('{"step": 7, "set": {"/a": ' + "9" * 5_000 + "}}", 400, "5,000 digits"),
    ('{"step": 7, "set": {"/a": ' + DEEP, 400, "nested too deeply"),
    ("{}", 400, "step is missing"),
    ('{"step": "7"}', 400, "step is a whole number, not a text"),
    ('{"step": true}', 400, "step is a whole number"),
    ('{"step": 7.5}', 400, "step is a whole number"),
    ('{"step": 0}', 400, "step 0 is its start"),
    ('{"step": 11}', 404, "has no step 11"),
    ('{"step": -1}', 404, "has no step -1"),
    ('{"step": 7, "app": "os:system"}', 400, "there is no 'app'"),
    ('{"step": 7, "store": "x"}', 400, "there is no 'store'"),
    ('{"step": 7, "secrets": {"/a": "env:HOME"}}', 400, "there is no 'secrets'"),
    ('{"step": 7, "set": []}', 400, "set is an object"),
    ('{"step": 7, "set": {"/a/b/c": 1}}', 400, "/a/b/c cannot be set"),
    ('{"step": 7, "set": {"' + "/a" * 10_000 + '": 1}}', 400, "at most 1,000 parts"),
    ('{"step": 7, "set": {"' + "a." * 10_000 + '": 1}}', 400, "at most 1,000 parts"),
    ('{"step": 7, "set": {"' + "a" * 30_000 + '": 1}}', 400, "20,000 characters"),
    ('{"step": 7, "set": {"/~2": 1}}', 400, "no JSON Pointer"),
    ('{"step": 7, "set": {"/a": {"$type": "decimal", "value": "x"}}}', 400, "damaged"),
    ('{"step": 7, "set": {"/a": {"$type": "python/object:os.system"}}}', 400, "does not know stored values of type"),
    ('{"step": 7, "patch": {}}', 400, "patch is a list"),
    ('{"step": 7, "patch": [{"op": "run", "path": ""}]}', 400, "op is one of"),
    ('{"step": 7, "patch": [{"op": "add", "path": "/a"}]}', 400, "add has op, path, value"),
    ('{"step": 7, "patch": [{"op": "remove", "path": "a"}]}', 400, "JSON Pointer"),
    ('{"step": 7, "patch": [{"op": "remove", "path": "/nothing"}]}', 422, "nothing"),
    ('{"step": 7, "patch": [{"op": "remove", "path": "' + "/a" * 10_000 + '"}]}', 400, "at most 1,000 parts"),
    ('{"step": 7, "patch": [' + ",".join(['{"op": "remove", "path": "/x"}'] * 10_001) + "]}", 400, "at most 10,000"),
    ('{"step": 7, "tool_results": {"9.2": 1}}', 400, "has no call 9.2; it has 7.1"),
    ('{"step": 7, "tool_results": {"7.1": 1}}', 400, "7.1 is a model call"),
    ('{"step": 7, "skip": ["../../etc/passwd"]}', 400, "has no call ../../etc/passwd"),
    ('{"step": 7, "skip": ["7.1", "7.1"]}', 400, "names something twice"),
    ('{"step": 7, "skip": ["7.1"], "model_responses": {"7.1": 1}}', 400, "stands in model_responses and in skip"),
    ('{"step": 7, "skip": "7.1"}', 400, "skip is a list of texts"),
    ('{"step": 7, "params": {"$type": "dict", "items": []}}', 400, "params is an object"),
    ('{"step": 7, "allow": [1]}', 400, "an entry of allow is a text"),
    ('{"step": 7, "prefix": "jump"}', 400, "prefix is one of execute, fold"),
    ('{"step": 7, "reuse": 1}', 400, "reuse is true or false"),
    ('{"step": 7, "ignore": ["$["]}', 400, "ignore"),
]


@pytest.mark.parametrize(("body", "status", "words"), HOSTILE, ids=[body[:40] or "empty" for body, _, _ in HOSTILE])
def test_what_cannot_be_meant_starts_nothing(app: Flask, body: str, status: int, words: str) -> None:
    """It is refused in words that are short, in the plan and in the re-run, and no process is started."""
    for url in (f"{URL}/plan", URL):
        answer = post(app, url, body)
        error = answer.get_json()["error"]
        assert answer.status_code == status, error
        assert words in error["message"]
        assert len(error["message"]) < 2_000
    assert nothing_started(app)


def test_a_body_that_is_no_json_is_refused(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its media type, also a form's, which other sites can send; and one that is not in UTF-8, or too large."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert post(app, URL, FIX, Content_Type=kind).status_code == 415
    assert post(app, URL, b'{"step": "\xff"}').status_code == 400
    monkeypatch.setitem(app.config, "MAX_CONTENT_LENGTH", 1_000)
    assert post(app, URL, '{"step": 7, "input": "' + "x" * 2_000 + '"}').status_code == 413
    assert app.test_client().post("/runs/run1/steps/7/rerun", data={"payload": "x" * 2_000}).status_code == 413
    assert nothing_started(app)


@pytest.mark.parametrize("url", [URL, "/api/v1/reruns/1/stop", "/runs/run1/steps/7/rerun", "/reruns/1/stop"])
def test_other_sites_start_and_stop_nothing(app: Flask, url: str) -> None:
    """Without the page's token, from another origin, or by a name that was made to point here."""
    client, body = app.test_client(), json.dumps(FIX)
    kind = "application/json" if url.startswith("/api") else "application/x-www-form-urlencoded"
    assert client.post(url, data=body, content_type=kind).status_code == 403
    for name, value in (
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ):
        assert post(app, url, body, Content_Type=kind, **{name: value}).status_code == 403
    assert post(app, url, body, Content_Type=kind, Origin="null", Sec_Fetch_Site="cross-site").status_code == 403
    assert post(app, url, body, Content_Type=kind, Host="evil.example").status_code == 421
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        if not (method == "GET" and url.startswith("/runs")):
            assert client.open(url, method=method, headers=csrf(app)).status_code == 405
    assert nothing_started(app)


def test_our_own_form_is_not_another_site(app: Flask) -> None:
    """Browsers hide the origin of a form where no referrer is sent; that it is ours they say in another header."""
    client = app.test_client()
    own = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
    form = {"csrf": csrf(app)["X-CSRF-Token"], "do": "check"}
    assert client.post("/runs/run1/steps/7/rerun", data=form, headers=own).status_code == 200
    assert client.post("/runs/run1/steps/7/rerun", data={"do": "check"}, headers=own).status_code == 403


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("/runs/run99/steps/1/rerun", 404),
        ("/runs/run1/steps/11/rerun", 404),
        ("/runs/run1/steps/0/rerun", 400),
        ("/runs/run1/steps/-1/rerun", 404),
        ("/runs/run1/steps/99999999999999999999/rerun", 404),
        ("/runs/run1/steps/7/rerun?again=77", 404),
        ("/runs/run1/steps/7/rerun?at=" + "/a" * 10_000, 400),
        ("/reruns/77", 404),
        ("/reruns/99999999999999999999", 404),
        ("/api/v1/reruns/0", 404),
        ("/api/v1/reruns/77", 404),
        ("/api/v1/reruns/77/live", 404),
        ("/api/v1/runs/run1/rerun", 405),
    ],
)
def test_what_there_is_not_is_not_found(app: Flask, url: str, status: int) -> None:
    """Runs, steps, re-runs and places of the payload."""
    assert app.test_client().get(url).status_code == status


@pytest.mark.parametrize(
    "fields",
    [
        {"do": "open:99.9"},
        {"way:99.9": "skip"},
        {"way:7.1": "perhaps"},
        {"prefix": "jump"},
        {"role": "pope", "message": "hello"},
        {"at": "/nothing", "payload": "1"},
        {"do": "part", "part": "/order/nothing"},
        {"do": "part", "part": "/a" * 10_000},
        {"payload": '{"order": {"$type": "decimal", "value": "x"}}', "do": "run"},
        {"payload": "[" * 100_000, "do": "run"},
        {"ignore": "$[", "do": "run"},
        {"do": "run", "params": '{"a": 1, "a": 2}'},
    ],
)
def test_a_form_that_cannot_be_meant_starts_nothing(app: Flask, fields: dict[str, str]) -> None:
    """It is refused, or comes back with what is wrong; never is it an error of ours."""
    answer = app.test_client().post("/runs/run1/steps/7/rerun", data={**fields, "csrf": csrf(app)["X-CSRF-Token"]})
    assert answer.status_code in (200, 400, 422)
    assert answer.status_code != 200 or b'class="inside error" role="alert"' in answer.data
    assert nothing_started(app)


def test_read_only_refuses_the_form_and_the_re_run() -> None:
    """Re-runs are neither shown, started nor stopped; a plan, which changes nothing, can be had."""
    made = create_app(recorded(), app=APP, read_only=True)
    client = made.test_client()
    for url in ("/runs/run1/steps/7/rerun", "/reruns", "/reruns/1"):
        assert client.get(url).status_code == 403
    for url in ("/runs/run1/steps/7/rerun", "/reruns/1/stop", URL, "/api/v1/reruns/1/stop"):
        assert post(made, url, FIX).status_code == 403
    assert post(made, f"{URL}/plan", FIX).status_code == 200
    assert "rerun" not in client.get("/api/v1").get_json()["features"]
    assert nothing_started(made)


def test_without_an_app_nothing_is_started() -> None:
    """It says how to start a server that can."""
    made = create_app(recorded())
    answer = post(made, URL, FIX)
    assert answer.status_code == 403
    assert "agentreplay ui --app FILE.py:NAME" in answer.get_json()["error"]["message"]
    assert nothing_started(made)


def test_a_token_stands_for_the_page() -> None:
    """A program that brings the token of the server in its header needs none of a page."""
    made = create_app(recorded(), token="a-token-that-nobody-guesses")
    client = made.test_client()
    bearer = {"Authorization": "Bearer a-token-that-nobody-guesses"}
    assert client.post(f"{URL}/plan", json=FIX).status_code == 401
    assert client.post(f"{URL}/plan", json=FIX, headers=bearer).status_code == 200


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.just("$type"), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = [
    "set",
    "patch",
    "tool_results",
    "model_responses",
    "skip",
    "messages",
    "params",
    "input",
    "allow",
    "ignore",
    "x",
]


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.sampled_from(NAMES), JSON, max_size=3), st.integers(-2, 12))
def test_whatever_is_asked_is_no_error_of_ours(asked: dict[str, Any], step: int) -> None:
    """Any JSON below the known names: a plan, or a refusal in words."""
    client = client_of()
    token = client.get("/api/v1").get_json()["csrf"]
    answer = client.post(f"{URL}/plan", json={**asked, "step": step}, headers={"X-CSRF-Token": token})
    assert answer.status_code < 500, answer.get_data(as_text=True)
