"""Who may ask the web debugger for what."""

from __future__ import annotations

import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.webui.app import check_address, create_app
from agentreplay.webui.security import Guard, harmless, name_in
from flask import Flask, Response
from web import client_of, recorded

TOKEN = "a-token-that-nobody-guesses"


def app_with_a_change(**options: str | bool) -> Flask:
    """An application that has a view which changes something, and one which only is asked by POST."""
    app = create_app(recorded(), **options)  # type: ignore[arg-type]  # options of any kind

    @app.post("/change")
    def change() -> str:
        return "changed"

    @app.post("/look")
    @harmless
    def look() -> Response:
        return Response("looked")

    return app


def csrf_of(app: Flask) -> str:
    return str(app.extensions["agentreplay"].guard.csrf)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8710", "[::1]:8710", "LOCALHOST.", "127.3.2.1"])
def test_loopback_is_answered_by_its_names(host: str) -> None:
    """A server on loopback answers to localhost and to loopback addresses, with any port."""
    assert client_of().get("/runs", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "192.168.1.7", "localhost.evil.example:8710", "[::2]", "", "a]"]
)
def test_other_names_are_refused(host: str) -> None:
    """A name that was made to point here (DNS rebinding) is not answered, whatever page is asked for."""
    answer = client_of().get("/runs", headers={"Host": host})
    assert answer.status_code == 421
    assert b"refunds" not in answer.data


def test_a_server_is_known_by_the_names_it_was_given() -> None:
    """Beyond loopback a server answers to its name, and with a token to addresses, which no site can make its own."""
    client = client_of(token=TOKEN, names=["Debug.Internal"])
    client.get(f"/runs?token={TOKEN}", headers={"Host": "debug.internal"})
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/runs", headers={"Host": "debug.internal:8710", **bearer}).status_code == 200
    assert client.get("/runs", headers={"Host": "192.168.1.7", **bearer}).status_code == 200
    assert client.get("/runs", headers={"Host": "other.internal", **bearer}).status_code == 421


@pytest.mark.parametrize("url", ["/", "/runs", "/runs/run1", "/api/v1/runs", "/nowhere"])
def test_without_the_token_nothing_is_answered(url: str) -> None:
    """Where a token is asked for, pages and data come to nobody without it, and it is not told what there is."""
    answer = client_of(token=TOKEN).get(url)
    assert answer.status_code == 401
    assert b"refunds" not in answer.data


def test_a_token_in_an_address_becomes_a_cookie() -> None:
    """The browser is sent on to the address without the token, and has a cookie that does not tell it."""
    client = client_of(token=TOKEN)
    answer = client.get(f"/runs?token={TOKEN}&status=failed")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/runs?status=failed")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    assert client.get("/runs").status_code == 200


def test_a_token_leads_to_no_other_host() -> None:
    """A path that begins with two slashes would be another host where it is redirected to."""
    answer = client_of(token=TOKEN).get(f"//evil.example/?token={TOKEN}")
    assert not answer.headers.get("Location", "").startswith("//")


def test_a_token_is_taken_from_a_form_or_a_header() -> None:
    """A person types it, a program sends it."""
    client = client_of(token=TOKEN)
    assert client.post("/login", data={"token": "wrong"}).status_code == 401
    assert client.get("/runs", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/runs", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.post("/login", data={"token": TOKEN}).headers["Location"] == "/runs"
    assert client.get("/runs").status_code == 200


def test_a_change_needs_what_only_our_pages_hold() -> None:
    """Without the token of the page, or with a wrong one, nothing is changed; with it, from a form or header, it is."""
    app = app_with_a_change()
    client = app.test_client()
    assert client.post("/change").status_code == 403
    assert client.post("/change", data={"csrf": "wrong"}).status_code == 403
    assert client.post("/change", json={"csrf": csrf_of(app)}).status_code == 403
    assert client.post("/change", data={"csrf": csrf_of(app)}).data == b"changed"
    assert client.post("/change", headers={"X-CSRF-Token": csrf_of(app)}).data == b"changed"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Origin": "https://localhost"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_change_from_another_site_is_refused(headers: dict[str, str]) -> None:
    """Even with the page's token, what comes from a page of another origin changes nothing."""
    app = app_with_a_change()
    answer = app.test_client().post("/change", data={"csrf": csrf_of(app)}, headers=headers)
    assert answer.status_code == 403


def test_a_change_from_our_own_page_is_allowed() -> None:
    """The origin is compared with the host that was asked for."""
    app = app_with_a_change()
    own = {"Origin": "http://localhost:8710", "Host": "localhost:8710", "Sec-Fetch-Site": "same-origin"}
    assert app.test_client().post("/change", data={"csrf": csrf_of(app)}, headers=own).data == b"changed"


def test_read_only_changes_nothing() -> None:
    """With --read-only every change is refused, also with the right token; what only looks is allowed."""
    app = app_with_a_change(read_only=True)
    client = app.test_client()
    assert client.post("/change", data={"csrf": csrf_of(app)}).status_code == 403
    assert client.post("/look", data={"csrf": csrf_of(app)}).data == b"looked"


@pytest.mark.parametrize("url", ["/runs", "/runs/run99", "/nowhere", "/static/app.js", "/api/v1/runs"])
def test_every_answer_is_locked_down(url: str) -> None:
    """Pages, errors, data and files allow no inline script, no frame, no guess at their type, no other host."""
    headers = client_of().get(url, buffered=True).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"


def test_only_static_files_are_kept_by_browsers() -> None:
    """What was recorded is never cached."""
    client = client_of()
    for url in ("/runs", "/runs/run1", "/nowhere", "/api/v1/runs"):
        assert client.get(url).headers["Cache-Control"] == "no-store"
    assert "max-age" in client.get("/static/app.css", buffered=True).headers["Cache-Control"]


@pytest.mark.parametrize(
    "url",
    ["/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/..\\app.py"],
)
def test_no_file_outside_of_static_is_served(url: str) -> None:
    """Tricks with paths find nothing."""
    answer = client_of().get(url, follow_redirects=True)
    assert answer.status_code == 404
    assert b"root:" not in answer.data


def test_beyond_loopback_a_token_is_required() -> None:
    """A server that other machines reach is refused without one, and a short one is none."""
    assert check_address("127.0.0.1", None) == ()
    assert check_address("::1", None) == ()
    with pytest.raises(UsageError) as refused:
        check_address("0.0.0.0", None)
    assert "--token" in str(refused.value)
    assert "0.0.0.0" in check_address("0.0.0.0", TOKEN)
    with pytest.raises(UsageError):
        create_app(MemoryStore(), token="short")


def test_each_server_has_a_token_of_its_own_for_changes() -> None:
    """A page of another server, or of one that has ended, changes nothing here."""
    assert Guard().csrf != Guard().csrf
    assert len(Guard().csrf) >= 32


def test_names_in_host_headers_are_read() -> None:
    """Ports, brackets and the dot of a full name aside."""
    assert name_in("[::1]:80") == "::1"
    assert name_in("Example.ORG.:8710") == "example.org"
    assert name_in("127.0.0.1") == "127.0.0.1"
