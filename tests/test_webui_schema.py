"""What the OpenAPI document says is what the server does, for whatever Schemathesis thinks of by reading it.

It makes requests that the document allows and requests that it forbids, about runs that there are and runs that there
are not, and compares each answer with what is described. Its choices are the same each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final

import pytest
import schemathesis
from agentreplay.examples import refunds
from agentreplay.recorder.locate import open_store
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.replay.rerun_request import RerunRequest
from agentreplay.webui.app import create_app
from flask import Flask
from schemathesis.specs.openapi.checks import positive_data_acceptance
from test_webui_hostile import record_hostile

DOCUMENT: Final = "/api/v1/openapi.json"
ENDLESS: Final = "/api/v1/live"
"""Follows the list of runs, until its reader goes."""

PLAN: Final = "/api/v1/runs/{run}/rerun/plan"
"""Changes nothing, and is answered by a server that only reads as by others."""

DEEPER: Final = ("/api/v1/runs", "/api/v1/runs/{run}/rerun", "/api/v1/runs/{run}/watch", PLAN)
"""What these are asked for must fit together, and the order of the list or the run, or be an expression that means
something there, which no schema says."""

EXAMPLES: Final = 25
OFTEN: Final = 0.8


def often(values: str) -> dict[str, Any]:
    return {"dictionary": values, "probability": OFTEN}


CONFIG: Final[dict[str, Any]] = {
    "seed": 7,
    "generation": {"deterministic": True, "max-examples": EXAMPLES, "database": "none"},
    # What is meant to be found is asked for often: most texts name no run, and most answers would be "not found".
    "dictionaries": {
        "runs": {"values": ["run1", "run2", "run3", "1", "@last", "run99"]},
        "steps": {"values": [0, 1, 2, 7, 10, 11]},
        "places": {"values": ["run1:7", "run2:1", "run3:2", "run3:0", "run1:99", "run9:1", "run1"]},
        "pointers": {"values": ["", "/order/total", "/evil", "/evil/big", "/evil/nan", "/evil/surrogate", "/0", "/no"]},
    },
    "parameters": {
        "path.run": often("runs"),
        "path.other": often("runs"),
        "path.step": often("steps"),
        "path.seq": often("steps"),
        "path.rerun": often("steps"),
        "query.step": often("steps"),
        "query.from": often("places"),
        "query.to": often("places"),
        "query.path": often("pointers"),
        "body.step": often("steps"),
    },
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventStore]:
    """The runs of the example agent, and one that means to do harm."""
    made = open_store(tmp_path_factory.mktemp("runs") / "store.db")
    refunds.step.run(refunds.START, store=made)
    record_hostile(made)
    yield made
    made.close()


@pytest.fixture(scope="module")
def app(store: EventStore) -> Flask:
    """A server that was not told what to execute."""
    return create_app(store)


@pytest.fixture(scope="module")
def reading(store: EventStore) -> Flask:
    """A server that was told, and told to change nothing."""
    return create_app(store, app="agentreplay.examples.refunds:step", read_only=True)


described = schemathesis.openapi.from_wsgi(
    DOCUMENT, create_app(MemoryStore()), config=schemathesis.Config.from_dict(CONFIG)
)


def as_described(case: schemathesis.Case, app: Flask) -> None:
    """Send a request, with what lets pages change things, and compare the answer with what is described."""
    excluded = [positive_data_acceptance] if case.path in DEEPER else []
    headers = {"X-CSRF-Token": app.extensions["agentreplay"].guard.csrf}
    case.call_and_validate(app=app, headers=headers, excluded_checks=excluded)
    assert app.extensions["agentreplay.reruns"].all() == []


@described.exclude(path=ENDLESS).parametrize()
def test_every_answer_is_as_described(case: schemathesis.Case, app: Flask) -> None:
    """Status, media type and content, for what is allowed and what is not; and no error of ours."""
    as_described(case, app)


@described.include(method="POST").exclude(path=PLAN).parametrize()
def test_a_server_that_only_reads_refuses_as_described(case: schemathesis.Case, reading: Flask) -> None:
    """Its refusals are described too, and nothing is executed though there is what could be."""
    as_described(case, reading)


def test_what_a_rerun_takes_is_described() -> None:
    """Each field of a request, and no other: what is not described is not asked for."""
    named = described.raw_schema["components"]["schemas"]["RerunRequest"]["properties"]
    assert {*named} == {one.name for one in fields(RerunRequest)} - {"secrets"}
