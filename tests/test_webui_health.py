"""The health of a store: its sizes, whether it is sound, what it hides."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from agentreplay.examples import refunds
from agentreplay.recorder.locate import open_store
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.redaction import RedactionRules, SecretPattern
from agentreplay.webui.app import create_app
from flask import Flask
from flask.testing import FlaskClient
from web import page


def recorded() -> MemoryStore:
    store = MemoryStore()
    refunds.step.run(refunds.START, store=store)
    return store


def verify(app: Flask) -> str:
    """Verify, wait until that is done, and give what the page says then."""
    site = app.extensions["agentreplay"]
    client = app.test_client()
    assert client.post("/health/verify", data={"csrf": site.guard.csrf}).headers["Location"] == "/health"
    deadline = time.monotonic() + 20
    while site.verifier.check.running and time.monotonic() < deadline:
        time.sleep(0.005)
    return page(client, "/health?part=check")


def test_a_sound_store_is_sound() -> None:
    """Each run and event is counted; before it is asked for, nothing is verified."""
    app = create_app(recorded())
    assert "Not verified since" in page(app.test_client(), "/health")
    assert "2 runs, 103 events: nothing was changed, lost or cut off" in verify(app)


def test_what_is_damaged_is_named() -> None:
    """The run and the event, with a link to the run."""
    store = recorded()
    store._logs[1][64].body = b"{}"
    text = verify(create_app(store))
    assert 'href="/runs/run1">run1</a>, event 64' in text


def test_verifying_is_protected_but_allowed_to_readers() -> None:
    """It costs time, so no other site may begin it; it changes nothing, so --read-only allows it."""
    app = create_app(recorded(), read_only=True)
    assert app.test_client().post("/health/verify").status_code == 403
    assert "nothing was changed" in verify(app)


def test_verifying_goes_on_once_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second request while one goes on begins nothing; one after it does."""
    store = recorded()
    app = create_app(store)
    verifier = app.extensions["agentreplay"].verifier
    go_on = threading.Event()
    asked: list[int] = []

    def slow(run: Any) -> list[Any]:
        asked.append(run.number)
        assert go_on.wait(10)
        return []

    monkeypatch.setattr(store, "verify", slow)
    verifier.start()
    verifier.start()
    go_on.set()
    assert "2 runs" in verify(app)
    assert asked in ([1, 2], [1, 2, 1, 2])


def test_the_rules_in_force_are_shown() -> None:
    """The built-in ones, and those of one's own; and that there are none."""
    rules = RedactionRules(keys=("iban",), patterns=(SecretPattern("badge", "BDG-[0-9]{6}"),), allowed_keys=("token",))
    text = page(client_with(MemoryStore(rules)), "/health")
    for word in ("password", "openai-key", "iban", "badge", "names that are none"):
        assert word in text
    assert "Nothing is hidden" in page(client_with(MemoryStore(RedactionRules.off())), "/health")


def client_with(store: MemoryStore) -> FlaskClient:
    return create_app(store).test_client()


def test_the_sizes_of_a_file_are_shown(tmp_path: Path) -> None:
    """Of the store and its write-ahead log."""
    store = open_store(tmp_path / "store.db")
    refunds.step.run(refunds.START, store=store)
    text = page(create_app(store).test_client(), "/health")
    assert "store.db" in text
    assert "KB" in text
    store.close()


def test_the_page_says_what_re_runs_execute() -> None:
    """Nothing without --app, nothing with --read-only."""
    assert "without --app" in page(create_app(MemoryStore()).test_client(), "/health")
    assert "--read-only" in page(create_app(MemoryStore(), app="a.py:step", read_only=True).test_client(), "/health")
    assert "a.py:step" in page(create_app(MemoryStore(), app="a.py:step").test_client(), "/health")
