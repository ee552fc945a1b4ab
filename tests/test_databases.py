"""URLs of stores: which databases they name, and that they are shown without a password."""

from __future__ import annotations

import sys

import pytest
from agentreplay.recorder.databases import database_at, without_password
from agentreplay.recorder.errors import StoreError
from agentreplay.recorder.locate import open_store

PASSWORD = "p4ssw0rd-of-mine"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////home/me/a:b@c/store.db", "sqlite:////home/me/a:b@c/store.db"),
        ("postgresql://me@here/runs", "postgresql://me@here/runs"),
        ("postgresql://here:5432/runs", "postgresql://here:5432/runs"),
        ("postgresql://me:secret@here:5432/runs", "postgresql://me:***@here:5432/runs"),
        ("postgresql://me:se/cr:et@here/runs?sslmode=require", "postgresql://me:***@here/runs?sslmode=require"),
        ("postgresql://me:se@cr@et@here/runs", "postgresql://me:***@here/runs"),
        ("postgresql://:secret@/runs", "postgresql://:***@/runs"),
        (
            "postgresql:///runs?user=me&password=secret&sslpassword=other&port=1",
            "postgresql:///runs?user=me&password=***&sslpassword=***&port=1",
        ),
    ],
)
def test_url_is_shown_without_its_password(url: str, shown: str) -> None:
    """Wherever the password stands, and however badly it is quoted."""
    assert without_password(url) == shown


@pytest.mark.parametrize(
    ("url", "driver_url"),
    [
        ("sqlite:////tmp/store.db", "sqlite:////tmp/store.db"),
        ("postgresql://me@here/runs", "postgresql+psycopg://me@here/runs"),
        ("postgres://me@here/runs", "postgresql+psycopg://me@here/runs"),
        ("postgresql+psycopg://me@here/runs", "postgresql+psycopg://me@here/runs"),
    ],
)
def test_url_names_a_database_and_its_driver(url: str, driver_url: str) -> None:
    """PostgreSQL has several drivers and names; it is always the same one."""
    assert database_at(url)[1] == driver_url


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{PASSWORD}@127.0.0.1:port/runs",
        f"postgresql://me:x@{PASSWORD}@127.0.0.1:1/runs",
        f"postgres://me:{PASSWORD}@[::1/runs",
        f"mysql://me:{PASSWORD}@127.0.0.1/runs",
        f"postgresql+nosuchdriver://me:{PASSWORD}@127.0.0.1/runs",
    ],
)
def test_url_that_names_no_store_is_refused_without_its_password(url: str) -> None:
    """The error says what is wrong; neither it nor what caused it shows the password."""
    with pytest.raises(StoreError, match=r"\*\*\*") as caught:
        open_store(url)
    assert PASSWORD not in "".join(str(error) for error in _chain(caught.value))


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{PASSWORD}@127.0.0.1:1/runs",
        f"postgresql://127.0.0.1:1/runs?user=me&password={PASSWORD}",
    ],
)
def test_server_that_does_not_answer_is_named_without_the_password(url: str) -> None:
    """Nobody listens there: one error, which says so."""
    with pytest.raises(StoreError, match=r"\*\*\*.*Connection refused") as caught:
        open_store(url)
    assert PASSWORD not in "".join(str(error) for error in _chain(caught.value))


def _chain(error: BaseException | None) -> list[BaseException]:
    errors = []
    while error is not None:
        errors.append(error)
        error = error.__cause__ or error.__context__
    return errors


def test_missing_driver_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Psycopg is an extra; without it a PostgreSQL URL says what to install."""
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"agentreplay-debugger\[postgres\]"):
        open_store("postgresql://me@127.0.0.1:1/runs")
