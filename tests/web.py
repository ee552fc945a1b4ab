"""What the tests of the web debugger share: an application over a store, and the runs of the example agent."""

from __future__ import annotations

from functools import cache
from typing import Any

from agentreplay.examples import refunds
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.webui.app import create_app
from flask.testing import FlaskClient


@cache
def recorded() -> MemoryStore:
    """A store with the runs of the example agent: run1 fails after ten rounds, run2 is its child."""
    store = MemoryStore()
    refunds.step.run(refunds.START, store=store)
    return store


def client_of(store: EventStore | None = None, **options: Any) -> FlaskClient:
    """A browser without a window, on an application over that store."""
    return create_app(store if store is not None else recorded(), **options).test_client()


def page(client: FlaskClient, url: str, status: int = 200) -> str:
    """The text of a page, which must come with that status."""
    answer = client.get(url)
    assert answer.status_code == status, answer.get_data(as_text=True)[:2_000]
    return answer.get_data(as_text=True)
