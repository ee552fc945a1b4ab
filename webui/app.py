"""The web debugger as a WSGI application, and the server that serves it."""

from __future__ import annotations

import logging
import select
import signal
import socket
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException

from ..recorder.errors import AgentReplayError, CorruptLog, RunNotFound, StoreError, UsageError
from ..recorder.store import EventStore
from . import (
    api,
    compare_api,
    compare_pages,
    diff_pages,
    event_pages,
    health,
    live_api,
    openapi,
    pages,
    rerun_api,
    rerun_pages,
    run_pages,
    value_pages,
    watch_pages,
)
from .rendering import STATIC, compile_templates, render
from .security import MAX_BODY, TOKEN_LENGTH, Guard, is_loopback, names_of, protect
from .site import Site, site
from .version import VERSION

PORT: Final = 8710
THREADS: Final = 80
"""Requests that are answered at once. Pages that follow a run hold one each; see `live`."""

CONNECTIONS: Final = 400
"""Connections that are open at once. Browsers keep theirs open, so pages must not wait for those of followers."""

SWITCH_SECONDS: Final = 0.000_5
"""How long a thread may keep another waiting. A page asks the database dozens of times, and waits each time."""

STATIC_SECONDS: Final = 365 * 24 * 3600
"""How long a browser may keep static files; their addresses change when they do."""


def create_app(
    store: EventStore,
    *,
    app: str | None = None,
    read_only: bool = False,
    token: str | None = None,
    names: Collection[str] = (),
) -> Flask:
    """Make the application.

    Args:
        store: whose runs are shown.
        app: the code that re-runs execute, "FILE.py:NAME" or "MODULE:NAME"; nothing is executed without.
        read_only: refuse whatever changes something.
        token: that every request must bring: once as `?token=…`, after which the browser has a cookie, or in the header
            `Authorization: Bearer …`. None for whoever reaches the server, which then must be on loopback.
        names: host names by which it is reached, beside those of loopback.

    Raises:
        UsageError: the token is too short to keep anybody out.
    """
    if token is not None and len(token) < TOKEN_LENGTH:
        raise UsageError(f"a token has {TOKEN_LENGTH} characters or more, so that nobody guesses it")
    made = Flask("agentreplay.webui", static_folder=str(STATIC), static_url_path="/static", template_folder=None)
    made.config["SEND_FILE_MAX_AGE_DEFAULT"] = STATIC_SECONDS
    guard = Guard(token, read_only, frozenset(name.lower() for name in names))
    made.extensions["agentreplay"] = Site(store, guard, app)
    protect(made, guard)
    for blueprint in (
        module.blueprint for module in (pages, run_pages, value_pages, watch_pages, diff_pages, event_pages, health)
    ):
        made.register_blueprint(blueprint)
    compare_pages.register(made)
    rerun_pages.register(made)
    openapi.register(made, (api.TABLE, live_api.TABLE, compare_api.TABLE, rerun_api.TABLE, watch_pages.TABLE), VERSION)
    made.before_request(_request_begins)
    made.teardown_request(_request_ends)
    made.register_error_handler(AgentReplayError, _ours)
    made.register_error_handler(HTTPException, _refused)
    return made


def _request_begins() -> None:
    g.counted = True
    site().overviews.request_begins()


def _request_ends(_error: BaseException | None) -> None:
    if g.pop("counted", False):
        site().overviews.request_ends()


def serve(application: Flask, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until the process is told to stop.

    Args:
        application: of `create_app`.
        host: the address to listen on.
        port: 0 for any that is free.
        ready: told the address, once it can be opened.

    Raises:
        UsageError: nobody may listen there, or somebody does.
    """
    import waitress

    sys.setswitchinterval(SWITCH_SECONDS)
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)  # that a request waits a moment is no news
    listening = _listening(host, port)
    server: Any = waitress.create_server(
        application,
        sockets=[listening],
        threads=THREADS,
        connection_limit=_connections(),
        asyncore_use_poll=hasattr(select, "poll"),  # of more than a thousand files `select` knows nothing
        ident=None,
        max_request_body_size=MAX_BODY,
        channel_request_lookahead=1,  # so that it is noticed when a reader of a stream has gone
        clear_untrusted_proxy_headers=True,
    )
    compile_templates()  # now, rather than while the first page is waited for
    shown = f"[{host}]" if ":" in host else host
    ready(f"http://{shown}:{server.effective_port}/")
    watch = application.extensions["agentreplay"].watch
    try:
        with _until_told_to_stop(watch.close):
            server.run()
    finally:
        application.extensions["agentreplay.reruns"].close()
        server.close()


def _connections() -> int:
    """How many connections may be open: half of the files that the process may have, at most."""
    try:
        import resource
    except ImportError:  # on Windows no such number is known
        return CONNECTIONS
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return CONNECTIONS if files == resource.RLIM_INFINITY else min(CONNECTIONS, files // 2)


def _listening(host: str, port: int) -> socket.socket:
    """A socket at that address, which nobody else has.

    Raises:
        UsageError: somebody has, or nobody may.
    """
    made = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        return made
    except OSError as error:
        if made is not None:
            made.close()
        raise UsageError(
            f"cannot listen on {host}, port {port}: {error.strerror}. --port 0 takes any that is free"
        ) from None


@contextmanager
def _until_told_to_stop(act: Callable[[], None]) -> Iterator[None]:
    """Have `act` called before Ctrl-C, or what else ends a process, ends the server: streams end at once then."""

    def stop(_number: int, _frame: object) -> None:
        act()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_address(host: str, token: str | None) -> Collection[str]:
    """The names of a server that listens on `host`.

    Raises:
        UsageError: others than this machine would reach it, and no token keeps them out.
    """
    if is_loopback(host):
        return ()
    if token is None:
        raise UsageError(
            f"{host} can be reached from other machines, and what agents saw is not for everybody: add --token TEXT, "
            f"with {TOKEN_LENGTH} characters or more, or listen on 127.0.0.1"
        )
    return names_of(host)


_STATUS: Final[tuple[tuple[type[AgentReplayError], int], ...]] = (
    (RunNotFound, 404),
    (UsageError, 400),
    (CorruptLog, 422),
    (StoreError, 503),
    (AgentReplayError, 422),
)


def _ours(error: AgentReplayError) -> Response:
    status = next(status for cls, status in _STATUS if isinstance(error, cls))
    return _told(type(error).__name__, str(error), status)


def _refused(error: HTTPException) -> Response:
    answer = _told(error.name, str(error.description), error.code or 500)
    answer.headers.extend([(name, value) for name, value in error.get_headers() if name in ("Allow", "Retry-After")])
    return answer


def _told(kind: str, message: str, status: int) -> Response:
    if request.path.startswith("/api/"):
        from .answers import json_answer

        return json_answer({"error": {"kind": kind, "message": message}}, status)
    page = render("error.html", kind=kind, message=message, status=status, **pages.frame())
    return Response(page, status, mimetype="text/html")
