"""What no browser sends, byte by byte, to the server as it is started: it is refused, and nothing comes of it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from agentreplay.examples import refunds
from agentreplay.recorder.locate import open_store
from agentreplay.recorder.store import RunInfo

TOKEN = "a-token-that-nobody-guesses"
OUTSIDE = "this is not part of any store"
AGENT = f"""
from pathlib import Path
Path(__file__).with_name("executed").touch()
{OUTSIDE!r}
from agentreplay.examples.refunds import step
"""
HOST = b"Host: localhost\r\nConnection: close\r\n"
JSON = HOST + b"Content-Type: application/json\r\n"
FORM = HOST + b"Content-Type: application/x-www-form-urlencoded\r\n"
RERUN = b'{"step": 7, "allow": ["issue_refund"]}'


@dataclass(frozen=True)
class Server:
    """A server in a process of its own, and what it must not touch."""

    folder: Path
    port: int
    runs: list[RunInfo]

    def send(self, data: bytes, *, then_leave: bool = False) -> bytes:
        """All that is answered to some bytes, until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(data)
            if then_leave:
                connection.shutdown(socket.SHUT_WR)
            answer = b""
            while received := connection.recv(65_536):
                answer += received
            return answer

    def is_as_before(self) -> bool:
        """Whether nothing was executed, and there are the runs that there were."""
        return runs_in(self.folder) == self.runs and not (self.folder / "executed").exists()


def runs_in(folder: Path) -> list[RunInfo]:
    store = open_store(folder / "store.db")
    found = store.runs()
    store.close()
    return found


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Server]:
    """Serve the runs of the example agent, which could be run again, until the block ends; it must say nothing bad."""
    store = open_store(folder / "store.db")
    refunds.step.run(refunds.START, store=store)
    store.close()
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    ui = ["ui", "--store", str(folder / "store.db"), "--port", "0", "--app", f"{folder / 'agent.py'}:step", *options]
    command = [sys.executable, "-m", "agentreplay", *ui]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ})
    try:
        assert process.stdout is not None
        port = re.search(r":(\d+)/", process.stdout.readline())
        assert port is not None
        yield Server(folder, int(port[1]), runs_in(folder))
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=30)
    assert "Traceback" not in errors
    assert process.returncode == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("open")) as found:
        yield found


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that other machines reach, and which asks for a token."""
    with serving(tmp_path_factory.mktemp("guarded"), "--host", "0.0.0.0", "--token", TOKEN) as found:
        yield found


def statuses(answer: bytes) -> list[int]:
    return [int(code) for code in re.findall(rb"HTTP/1\.[01] (\d{3}) [A-Z]", answer)]


def get(target: bytes, headers: bytes = HOST) -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\n" + headers + b"\r\n"


def post(target: bytes, body: bytes, headers: bytes = JSON) -> bytes:
    return b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (target, headers, len(body), body)


def chunked(chunks: bytes, headers: bytes = b"") -> bytes:
    rerun = b"POST /api/v1/runs/run1/rerun HTTP/1.1\r\n" + JSON
    return rerun + b"Transfer-Encoding: chunked\r\n" + headers + b"\r\n" + chunks


PATHS = {
    "parent folders": b"/static/../../../../../../etc/passwd",
    "escaped slashes": b"/static/..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
    "escaped dots": b"/static/%2e%2e/%2e%2e/app.py",
    "escaped twice": b"/static/..%252f..%252fapp.py",
    "backslashes": b"/static/..%5c..%5capp.py",
    "an overlong dot": b"/static/%c0%ae%c0%ae/app.py",
    "a file address": b"/static/file:///etc/passwd",
    "a zero": b"/static/app.css%00.py",
    "a zero in a run": b"/runs/run1%00",
    "a zero in a run of the api": b"/api/v1/runs/%00",
    "a run that is a path": b"/runs/..%2f..%2fetc%2fpasswd",
    "a run of the api that is a path": b"/api/v1/runs/..%2f..%2fstore.db",
    "bytes that are no text": b"/runs/%ff%fe%ed%a0%80",
    "half an escape": b"/runs/%f",
    "a script": b"/<script>alert(1)</script>",
    "a thousand folders": b"/a" * 1_000,
    "sql": b"/runs/run1'%20OR%20'1'='1",
}


@pytest.mark.parametrize("name", PATHS)
def test_a_trick_with_a_path_finds_nothing(server: Server, name: str) -> None:
    """Neither a file nor another run; it is not found, or not even looked for."""
    answer = server.send(get(PATHS[name]))
    assert statuses(answer) in ([404], [400])
    assert b"root:" not in answer
    assert b"SQLite format" not in answer
    assert server.is_as_before()


QUERIES = {
    "a store": (b"/runs?store=%s/outside", 200),
    "a store of the api": (b"/api/v1/runs?store=sqlite:////etc/passwd", 400),
    "a path in a payload": (b"/runs/run1/steps/7/value?path=/../../etc/passwd", 404),
    "a path in a payload of the api": (b"/api/v1/runs/run1/steps/7/state?path=/..%2f..%2fetc%2fpasswd", 404),
    "no path": (b"/api/v1/runs/run1/steps/7/state?path=/%ff%00", 404),
    "an app": (b"/runs/run1?app=os:system", 200),
    "bytes that are no text": (b"/runs?q=%ff%fe%00&agent=%c0%ae", 200),
    "a long search": (b"/runs/run1/search?q=" + b"a" * 100_000, 200),
    "ten thousand parameters": (b"/runs?" + b"&".join(b"p%d=1" % n for n in range(10_000)), 200),
    "a number beyond all": (b"/api/v1/runs/run1/events?after=" + b"9" * 5_000, 400),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_names_no_file_and_no_code(server: Server, name: str) -> None:
    """What a request asks for is in the store, or nowhere."""
    target, status = QUERIES[name]
    answer = server.send(get(target.replace(b"%s", str(server.folder).encode())))
    assert statuses(answer) == [status]
    assert OUTSIDE.encode() not in answer
    assert b"root:" not in answer
    assert server.is_as_before()


MOST_OF_HEADERS = 262_144

MALFORMED = {
    "no request": (b"\r\n\r\n\r\n", []),
    "garbage": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) + b"\r\n\r\n", [400]),
    "an old protocol": (b"GET /runs\r\n\r\n", [421]),
    "a new protocol": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", [421]),
    "no host": (b"GET /runs HTTP/1.1\r\nConnection: close\r\n\r\n", [421]),
    "two hosts": (get(b"/runs", b"Host: evil.example\r\n" + HOST), [421]),
    "no such host": (get(b"/runs", b"Host: evil.example\r\nConnection: close\r\n"), [421]),
    "a host behind ours": (get(b"/runs", b"Host: localhost.evil.example\r\nConnection: close\r\n"), [421]),
    "half an address": (get(b"/runs", b"Host: [::1\r\nConnection: close\r\n"), [421]),
    "a host of bytes": (get(b"/runs", b"Host: \xff\xfe\r\nConnection: close\r\n"), [421]),
    "a proxied host": (
        get(b"/runs", b"Host: evil.example\r\nX-Forwarded-Host: localhost\r\nConnection: close\r\n"),
        [421],
    ),
    "another's address": (get(b"http://evil.example/runs", b"Host: evil.example\r\nConnection: close\r\n"), [421]),
    "a tunnel": (b"CONNECT evil.example:443 HTTP/1.1\r\n" + HOST + b"\r\n", [403]),
    "a header that is none": (get(b"/runs", HOST + b"no colon here\r\n"), [400]),
    "a header with a zero": (get(b"/runs", HOST + b"X-A: \x00\r\n"), [400]),
    "endless headers": ((b"GET /runs HTTP/1.1\r\n" + HOST + b"X-A: ").ljust(MOST_OF_HEADERS, b"a"), [431]),
    "an endless address": (b"GET /runs/".ljust(MOST_OF_HEADERS, b"a"), [431]),
    "a length that is none": (b"POST /login HTTP/1.1\r\n" + FORM + b"Content-Length: -1\r\n\r\n", [400]),
    "two lengths": (post(b"/login", b"token=x", FORM + b"Content-Length: 1\r\n"), [400]),
    "a body of a terabyte": (b"POST /login HTTP/1.1\r\n" + FORM + b"Content-Length: 1000000000000\r\n\r\n", [413]),
    "a chunk of no length": (chunked(b"xyz\r\n{}\r\n0\r\n\r\n"), [400]),
    "a chunk of a negative length": (chunked(b"-1\r\n{}\r\n0\r\n\r\n"), [400]),
    "a chunk without its end": (chunked(b"2\r\n{}GET / HTTP/1.1\r\n\r\n"), [400]),
    "a chunk of an exabyte": (chunked(b"fffffffffffffff\r\n{}"), []),
    "chunks and a length": (chunked(b"0\r\n\r\n", b"Content-Length: 5\r\n"), [403]),
    "a body that is cut off": (b"POST /login HTTP/1.1\r\n" + FORM + b"Content-Length: 50\r\n\r\ntoken=", []),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_malformed_is_refused(server: Server, name: str) -> None:
    """With what the standard says, or by closing the connection where no request came to its end."""
    data, expected = MALFORMED[name]
    answer = server.send(data, then_leave=not expected)
    assert statuses(answer) == expected
    assert b"refunds" not in answer
    assert server.is_as_before()


CHANGES = {
    "without the page's token": (JSON, [403]),
    "with another token": (JSON + b"X-CSRF-Token: guessed\r\n", [403]),
    "with a token of bytes": (JSON + b"X-CSRF-Token: \xff\xfe\r\n", [403]),
    "with a bearer where none is asked for": (JSON + b"Authorization: Bearer anything\r\n", [403]),
    "of another site": (JSON + b"X-CSRF-Token: %s\r\nOrigin: https://evil.example\r\n", [403]),
    "of another port": (JSON + b"X-CSRF-Token: %s\r\nOrigin: http://localhost:1\r\n", [403]),
    "of no site": (JSON + b"X-CSRF-Token: %s\r\nOrigin: null\r\n", [403]),
    "of two sites": (JSON + b"X-CSRF-Token: %s\r\nOrigin: http://localhost\r\nOrigin: https://evil.example\r\n", [403]),
    "of a site of bytes": (JSON + b"X-CSRF-Token: %s\r\nOrigin: \xff\xfe\r\n", [403]),
    "that a site brought about": (JSON + b"X-CSRF-Token: %s\r\nSec-Fetch-Site: cross-site\r\n", [403]),
    "as a form": (FORM + b"X-CSRF-Token: %s\r\n", [415]),
    "as a form without a boundary": (HOST + b"Content-Type: multipart/form-data\r\n", [403]),
    "as a text": (HOST + b"X-CSRF-Token: %s\r\nContent-Type: text/plain\r\n", [415]),
    "as another method": (JSON + b"X-HTTP-Method-Override: POST\r\n", [403]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_forged_change_changes_nothing(server: Server, name: str) -> None:
    """Even where what only our pages hold was found out, a page of another site can do nothing with it."""
    headers, expected = CHANGES[name]
    csrf = json.loads(server.send(get(b"/api/v1")).partition(b"\r\n\r\n")[2])["csrf"]
    answer = server.send(post(b"/api/v1/runs/run1/rerun", RERUN, headers.replace(b"%s", csrf.encode())))
    assert statuses(answer) == expected
    assert server.is_as_before()


BODIES = {
    "nothing": (b"", 400),
    "no json": (b"{", 400),
    "bytes": (b"\xff\xfe\x00", 400),
    "a zero": (b"\x00", 400),
    "nested too deeply": (b'{"step": 7, "set": {"/a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}}", 400),
    "objects nested too deeply": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 400),
    "a number of a million digits": (b'{"step": ' + b"9" * 1_000_000 + b"}", 400),
    "an endless number": (b'{"step": 7, "set": {"/a": 1e999999999}}', 400),
    "a name twice": (b'{"step": 7, "step": 7}', 400),
    "another app": (b'{"step": 7, "app": "os:system"}', 400),
    "a store": (b'{"step": 7, "store": "/etc/passwd"}', 400),
    "a list": (b"[7]", 400),
    "8 MB of a name": (b'{"step": 7, "allow": ["' + b"a" * 8_000_000 + b'"]}', 400),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_cannot_be_meant_starts_nothing(server: Server, name: str) -> None:
    """However large, deep or wrong it is, it is refused in words."""
    body, status = BODIES[name]
    csrf = json.loads(server.send(get(b"/api/v1")).partition(b"\r\n\r\n")[2])["csrf"]
    answer = server.send(post(b"/api/v1/runs/run1/rerun", body, JSON + b"X-CSRF-Token: " + csrf.encode() + b"\r\n"))
    assert statuses(answer) == [status]
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]
    assert len(answer) < 3_000
    assert server.is_as_before()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "GETT", "post", "\xff"])
@pytest.mark.parametrize("target", ["/runs", "/runs/run1", "/api/v1/runs/run1/rerun", "/static/app.css", "*"])
def test_other_methods_are_refused(server: Server, method: str, target: str) -> None:
    """Nothing is shown, changed or sent back."""
    answer = server.send(f"{method} {target} HTTP/1.1\r\nX-Mine: secret\r\n".encode("latin-1") + HOST + b"\r\n")
    assert statuses(answer)[0] in (400, 403, 404, 405)
    assert b"refunds" not in answer
    assert b"secret" not in answer


def test_requests_in_one_go_are_answered_one_by_one(server: Server) -> None:
    """In order; and what stands in the body of one is no other."""
    inner = get(b"/runs/run1/steps/7")
    going_on = b"GET /api/v1/runs/run%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
    smuggling = post(b"/login", inner, b"Host: localhost\r\nContent-Type: text/plain\r\n")
    answer = server.send(going_on % 1 + going_on % 99 + smuggling + going_on % 2 + get(b"/api/v1/runs/run1"))
    assert statuses(answer) == [200, 404, 401, 200, 200]
    assert server.is_as_before()


def test_a_request_behind_another_is_checked_for_itself(server: Server) -> None:
    """Where a length and chunks say differently how long a body is, the chunks count, as the standard has it."""
    behind = b"POST /api/v1/runs/run1/rerun HTTP/1.1\r\n" + HOST + b"\r\n"
    both = b"Host: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n"
    answer = server.send(b"POST /login HTTP/1.1\r\n" + both + b"0\r\n\r\n" + behind)
    assert statuses(answer) == [401, 403]
    assert server.is_as_before()


WITHOUT = {
    "no token": b"",
    "another token": b"Authorization: Bearer another-token-of-that-length\r\n",
    "a token of bytes": b"Authorization: Bearer \xff\xfe\xed\xa0\x80\r\n",
    "an empty token": b"Authorization: Bearer \r\n",
    "another kind": b"Authorization: Basic YTpi\r\n",
    "an empty cookie": b"Cookie: agentreplay=\r\n",
    "a cookie of bytes": b"Cookie: agentreplay=\xff\xfe\xed\xa0\x80; agentreplay-1=\x80\r\n",
    "a cookie with escapes": b'Cookie: agentreplay="\\377\\355\\240\\200\\000"\r\n',
    "a cookie that is none": b"Cookie: =;;;===; ; agentreplay; $Version=1\r\n",
    "many cookies": b"Cookie: " + b"; ".join(b"agentreplay=%d" % n for n in range(2_000)) + b"\r\n",
    "the token as a cookie": b"Cookie: agentreplay=" + TOKEN.encode() + b"\r\n",
}


@pytest.mark.parametrize(
    "target", ["/runs", "/api/v1/runs/run1", "/runs?token=%ff%ed%a0%80", "/runs?token=", "/nowhere"]
)
@pytest.mark.parametrize("name", WITHOUT)
def test_beyond_loopback_nothing_is_told_without_the_token(guarded: Server, name: str, target: str) -> None:
    """Whatever comes instead of it."""
    answer = guarded.send(get(target.encode(), HOST + WITHOUT[name]))
    assert statuses(answer) == [401]
    assert b"refunds" not in answer


def test_beyond_loopback_nothing_is_done_without_the_token(guarded: Server) -> None:
    """And with it only where no other site is behind it, and no name that was made to point here."""
    token = b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"
    named = JSON.replace(b"localhost", b"evil.example")
    target = b"/api/v1/runs/run1/rerun"
    assert statuses(guarded.send(post(target, RERUN))) == [401]
    assert statuses(guarded.send(post(target, RERUN, named))) == [421]
    assert statuses(guarded.send(post(target, RERUN, named + token))) == [421]
    assert statuses(guarded.send(post(target, RERUN, JSON + token + b"Origin: https://evil.example\r\n"))) == [403]
    assert guarded.is_as_before()
    assert statuses(guarded.send(get(b"/api/v1/runs/run1", HOST + token))) == [200]


def test_followers_beyond_the_bound_are_refused_at_once_and_pages_come(server: Server) -> None:
    """Of 120 that want to follow the runs 64 do, the others are told so, and who asks for a page gets it."""
    following = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(120)]
    for connection in following:
        connection.sendall(b"GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answers = [statuses(connection.recv(64))[0] for connection in following]
    assert (answers.count(200), answers.count(503)) == (64, 56)
    assert statuses(server.send(get(b"/runs"))) == [200]
    assert statuses(server.send(get(b"/runs/run1"))) == [200]
    for connection in following:
        connection.close()


def test_connections_that_say_nothing_keep_nobody_out(server: Server) -> None:
    """Dozens that wait with half a request leave threads for those that ask."""
    waiting = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(60)]
    for connection in waiting:
        connection.sendall(b"GET /runs HTTP/1.1\r\nHost: local")
    assert statuses(server.send(get(b"/api/v1/runs/run1"))) == [200]
    for connection in waiting:
        connection.close()
