"""The JSON API: what it answers is what its document describes, and nothing that is sent to it is an error of ours."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.webui.openapi import Operation, Parameter, Table, document, number, one_of, text
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st
from test_webui_hostile import hostile
from web import client_of, recorded

DOCUMENT = client_of().get("/api/v1/openapi.json").get_json()

NAMES = ["path", "step", "after", "limit", "from", "to", "part", "cursor", "sort", "q", "tag", "each", "x"]

CALLS = [
    "",
    "/runs",
    "/runs?status=failed&sort=duration&limit=1",
    "/runs?tag=nightly",
    "/search?q=coupon",
    "/search?q=coupon&status=failed&each=1",
    "/runs/run1",
    "/runs/run1/steps",
    "/runs/run1/steps?start=8&limit=2",
    "/runs/run1/steps/7",
    "/runs/run1/steps/0",
    "/runs/run1/steps/7/state",
    "/runs/run1/steps/7/state?part=messages&path=/0",
    "/diff?to=run1:7",
    "/diff?from=run1:3&to=run2:1&part=payload",
    "/runs/run1/blame?path=/order/total",
    "/runs/run1/blame?path=/order/total&step=3",
    "/runs/run1/events",
    "/runs/run1/events?after=88&limit=2",
    "/runs/run1/events/64",
    "/runs/run1/events/4?path=/request/messages/0",
]


def get(client: FlaskClient, url: str, status: int = 200) -> Any:
    answer = client.get(f"/api/v1{url}")
    assert answer.status_code == status, answer.get_data(as_text=True)[:1_000]
    assert answer.mimetype == "application/json"
    return answer.get_json()


def problems(value: Any, schema: dict[str, Any], at: str = "") -> list[str]:
    """Where a value is not what a schema describes; for the part of JSON Schema that the document uses."""
    if "$ref" in schema:
        return problems(value, DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]], at)
    if "anyOf" in schema:
        found = [problems(value, each, at) for each in schema["anyOf"]]
        return [] if [] in found else found[0]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{at}: {value!r} is none of {schema['enum']}"]
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_of(value, each) for each in types):
        return [f"{at}: {value!r} is no {types}"]
    if "minimum" in schema and isinstance(value, int) and value < schema["minimum"]:
        return [f"{at}: {value} is too small"]
    if "properties" in schema and isinstance(value, dict):
        missing = [f"{at}/{name} is missing" for name in schema["required"] if name not in value]
        unknown = [f"{at}/{name} is not described" for name in value if name not in schema["properties"]]
        inside = [
            problem
            for name, each in value.items()
            for problem in problems(each, schema["properties"].get(name, {}), f"{at}/{name}")
        ]
        return missing + unknown + inside
    if "items" in schema and isinstance(value, list):
        return [problem for n, each in enumerate(value) for problem in problems(each, schema["items"], f"{at}/{n}")]
    return []


def is_of(value: Any, kind: str) -> bool:
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    if kind in ("integer", "number"):
        return type(value) is int or (kind == "number" and type(value) is float)
    return isinstance(value, types[kind])


def described(url: str) -> dict[str, Any]:
    """The operation of the document that an address is of."""
    path = "/api/v1" + url.partition("?")[0]
    for pattern, operations in DOCUMENT["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", pattern), path):
            found: dict[str, Any] = operations["get"]
            return found
    raise AssertionError(f"{path} is not described")


@pytest.mark.parametrize("url", CALLS)
def test_answers_are_as_described(url: str) -> None:
    """Every field that is there is described, and every one that is described as required is there."""
    schema = described(url)["responses"]["200"]["content"]["application/json"]["schema"]
    assert problems(get(client_of(), url), schema) == []


@pytest.mark.parametrize("url", [url for url in CALLS if "run2" not in url and "/order" not in url and "/7" not in url])
def test_answers_of_hostile_runs_are_as_described(url: str) -> None:
    """Whatever was recorded, what is asked for is answered, or refused in words."""
    answer = client_of(hostile()).get(f"/api/v1{url}")
    assert answer.status_code in (200, 400, 404)
    if answer.status_code == 200:
        schema = described(url)["responses"]["200"]["content"]["application/json"]["schema"]
        assert problems(answer.get_json(), schema) == []


def test_every_operation_is_described() -> None:
    """With its parameters, its answer, and how it refuses; what stands in the path is required."""
    for path, operations in DOCUMENT["paths"].items():
        for operation in operations.values():
            assert operation["summary"].endswith((".", "ends."))
            assert {"200", "400", "404"} <= operation["responses"].keys()
            in_path = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
            assert in_path == set(re.findall(r"\{(\w+)\}", path))
            assert all(each["required"] for each in operation["parameters"] if each["in"] == "path")
    names = [operation["operationId"] for operations in DOCUMENT["paths"].values() for operation in operations.values()]
    assert len(names) == len(set(names))
    assert {"runs", "run", "steps", "step", "state", "diff", "blame", "events", "live", "run_live"} <= set(names)


def test_steps_and_events_are_paged() -> None:
    """Following `next` gives each once, in order."""
    client = client_of()
    start: int | None = 0
    steps: list[int] = []
    while start is not None:
        found = get(client, f"/runs/run1/steps?start={start}&limit=4")
        steps += [step["step"] for step in found["steps"]]
        start = found["next"]
    assert steps == list(range(11))
    after: int | None = -1
    events: list[int] = []
    while after is not None:
        found = get(client, f"/runs/run1/events?after={after}&limit=50")
        events += [event["seq"] for event in found["events"]]
        after = found["next"]
    assert events == list(range(92))


def test_a_step_says_what_it_did() -> None:
    """As the page does, in data."""
    step = get(client_of(), "/runs/run1/steps/9")["step"]
    assert (step["decision"], step["outcome"], step["changes"]) == ("Actions", "continue", 1)
    assert [(call["name"], call["status"]) for call in step["calls"]] == [
        ("ask", "returned"),
        ("issue_refund", "failed"),
    ]
    assert step["calls"][1]["error"].startswith("RefundRejected: ")


def test_runs_are_found_by_tag_and_say_what_they_cost() -> None:
    """A tag by its own parameter or as it is typed; a cost as the usage of the model says it."""
    store = MemoryStore()
    for tags in (["nightly", "eu"], []):
        with ar.record("priced", store=store, tags=tags) as run, run.round() as r:
            r.model("m", {"q": "dear"}, lambda q: {"usage": {"cost": 0.5}})
    client = client_of(store)
    for url in ("/runs?tag=eu", "/runs?q=tag:nightly+tag:eu"):
        (found,) = get(client, url)["runs"]
        assert (found["run"], found["tags"], found["cost"]) == ("run1", ["nightly", "eu"], 0.5)
    assert get(client, "/runs/run2")["run"]["tags"] == []
    assert [hit["run"] for hit in get(client, "/search?q=dear")["hits"]] == ["run2", "run1"]
    assert [hit["run"] for hit in get(client, "/search?q=dear&tag=eu")["hits"]] == ["run1"]
    assert get(client_of(), "/runs/run1")["run"]["cost"] is None


def test_a_search_says_where_each_hit_is_and_how_far_it_came() -> None:
    """Run, step and event, with what stands around it."""
    found = get(client_of(), "/search?q=INSPECT&status=failed&each=1")
    (hit,) = found["hits"]
    assert (hit["run"], hit["found"].casefold()) == ("run1", "inspect")
    assert hit["step"] <= 10
    assert (found["searched"], found["total"], found["next"]) == (1, 1, None)


def test_a_difference_names_its_causes() -> None:
    """As `agentreplay diff --json` prints it."""
    found = get(client_of(), "/diff?from=run1:6&to=run1:7")
    assert found["changes"][0] == {
        "path": "/order/total",
        "display": "order.total",
        "kind": "replace",
        "old": 129.5,
        "new": 77.7,
        "cause": {"seq": 64, "step": 7, "kind": "payload.changed", "call": "7.1"},
    }
    assert get(client_of(), "/diff?from=run1:3&to=run2:1")["changes"][0]["cause"]["run"] in ("run1", "run2")


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("/runs/run99", 404),
        ("/runs/run1/steps/11", 404),
        ("/runs/run1/steps/-1", 404),
        ("/runs/run1/steps/x", 404),
        ("/runs/run1/steps/99999999999999999999", 404),
        ("/runs/run1/events/92", 404),
        ("/runs/run1/steps/1/state?path=/nothing", 404),
        ("/runs/run1/steps/1/state?path=nothing", 400),
        ("/runs/run1/steps/1/state?part=colour", 400),
        ("/runs/run1/blame?path=/nothing", 404),
        ("/runs/run1/blame?path=/a&step=77", 404),
        ("/runs?limit=0", 400),
        ("/runs?limit=501", 400),
        ("/runs?limit=1e3", 400),
        ("/runs?limit=1&limit=2", 400),
        ("/runs?cursor=x", 400),
        ("/runs?colour=red", 400),
        ("/runs?run=run1", 400),
        ("/runs?q=value:coupon", 400),
        ("/search", 400),
        ("/search?q=", 400),
        ("/search?q=a&cursor=x", 400),
        ("/search?q=a&each=0", 400),
        ("/runs?q=" + "x" * 3_000, 400),
        ("/diff", 400),
        ("/diff?to=", 400),
        ("/diff?to=run1:7&part=colour", 400),
        ("/runs/run1/nothing", 404),
        ("/nothing", 404),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(url: str, status: int) -> None:
    """With a kind and a message, as JSON."""
    error = get(client_of(), url, status)["error"]
    assert error.keys() == {"kind", "message"}
    assert error["message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE"])
def test_other_methods_are_refused(method: str) -> None:
    """Nothing is changed by asking in another way."""
    answer = client_of().open("/api/v1/runs", method=method)
    assert answer.status_code in (403, 405)


@given(
    st.sampled_from(sorted(DOCUMENT["paths"])).filter(lambda path: not path.endswith("/live")),
    st.text(max_size=12),
    st.dictionaries(
        st.sampled_from(NAMES),
        st.text(max_size=12) | st.integers().map(str),
        max_size=3,
    ),
)
def test_whatever_is_asked_is_no_error_of_ours(path: str, name: str, query: dict[str, str]) -> None:
    """Any text as a run or step, any parameters: an answer, or a refusal."""
    url = re.sub(r"\{\w+\}", lambda found: quote(name, safe="") or "x", path)
    answer = client_of(recorded()).get(url, query_string=query)
    assert answer.status_code < 500


def test_a_table_checks_what_it_describes() -> None:
    """Types, bounds, words, lengths; unknown parameters, those that stand twice, and those that are missing."""
    assert number("n", "", 1, 5).read("3") == 3
    assert text("t", "", most=3).read("abc") == "abc"
    assert one_of("w", "", ["a", "b"]).read("b") == "b"
    for parameter, wrong in [
        (number("n", "", 1, 5), "6"),
        (number("n", "", 1, 5), "٣"),
        (number("n", "", 1, 5), ""),
        (text("t", "", most=3), "abcd"),
        (text("t", "", least=1), ""),
        (one_of("w", "", ["a", "b"]), "c"),
    ]:
        with pytest.raises(Exception, match=parameter.name):
            parameter.read(wrong)


def test_the_document_comes_from_the_table() -> None:
    """An operation that is added is described."""
    table = Table()

    @table.add(
        Operation(
            "dance", "POST", "/dance/{run}", "It dances.", (Parameter("run", "Who.", {"type": "string"}, "path"),)
        )
    )
    def dance(run: str) -> Any:
        return run

    made = document([operation for operation, _ in table.rows.values()], "1.0")
    operation = made["paths"]["/api/v1/dance/{run}"]["post"]
    assert operation["operationId"] == "dance"
    assert {"403", "413"} <= operation["responses"].keys()
    assert operation["parameters"][0]["required"] is True
