"""Who may ask, from where, for what: checked before any page is made.

The server shows what agents saw, and may start one, so three strangers are kept out:

- *a page of another site* in the same browser. It can send requests, but not read answers nor set headers. Whatever
  changes something must name our own origin and carry a token that only our pages hold (or the `Authorization` header,
  which no other site can add).
- *a name that is made to point here* (DNS rebinding), by which such a page would count as ours. Only names that are
  known to be ours are answered; an IP address is no such name, but is accepted only where a token is asked for.
- *another machine*. Beyond loopback a token is required; a browser is given a cookie for it once.

And one that is let in, the recorded data: pages allow no inline script or style and load nothing from elsewhere, so
what would become markup after all could do nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, TypeVar

from flask import Flask, Response, abort, current_app, redirect, request
from werkzeug.wrappers import Response as AnyResponse

LOOPBACK: Final = frozenset(("localhost", "127.0.0.1", "::1"))
SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS"))
TOKEN_LENGTH: Final = 16
"""Characters that a token has at least."""

MAX_BODY: Final = 64 * 1024 * 1024
"""Bytes of a request at most; a payload that is edited may be large."""

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types agentreplay",
    )
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
COOKIE: Final = "agentreplay"
COOKIE_SECONDS: Final = 30 * 24 * 3600

View = TypeVar("View", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Guard:
    """What is asked of a request.

    Attributes:
        token: that a request must bring, or None for anybody who reaches the server.
        read_only: refuse whatever changes something.
        names: host names by which the server is reached, beside those of loopback.
        csrf: what a page must send along to change something; another one in each process.
    """

    token: str | None = None
    read_only: bool = False
    names: frozenset[str] = frozenset()
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def cookie_value(self) -> str:
        """What a browser is given for the token: it shows that the token was known, and does not tell it."""
        return hmac.new((self.token or "").encode(), b"agentreplay cookie", hashlib.sha256).hexdigest()

    def is_our_name(self, host: str) -> bool:
        """Whether a `Host` header names this server."""
        name = name_in(host)
        if name in LOOPBACK or name in self.names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self.token is not None

    def knows(self, given: str | None) -> bool:
        """Whether a token is the right one; takes as long for any wrong one."""
        return given is not None and hmac.compare_digest(given.encode(), (self.token or "").encode())


def name_in(host: str) -> str:
    """The name or address in a `Host` header, without port, brackets and a dot at its end."""
    name = host.rpartition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]
    return name.removesuffix(".").lower()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on `host`."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def harmless(view: View) -> View:
    """Mark a view that is asked by POST although it changes nothing recorded: `--read-only` allows it."""
    view.changes_nothing = True  # type: ignore[attr-defined]  # a mark on a function
    return view


def protect(app: Flask, guard: Guard) -> None:
    """Have every request to `app` checked, and every answer carry the headers."""
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    app.config["MAX_FORM_MEMORY_SIZE"] = MAX_BODY
    app.before_request(lambda: _check(guard))
    app.after_request(_secure)

    @app.post("/login")
    @harmless
    def login() -> AnyResponse:
        if guard.token is None or not guard.knows(request.form.get("token")):
            abort(401)
        return _welcome(guard, "/runs")


def _check(guard: Guard) -> AnyResponse | None:
    if not guard.is_our_name(request.headers.get("Host", "")):
        abort(421, "This server is not known by the name that was asked for. Open the address that it printed.")
    bearer = _bearer()
    if guard.token is not None and request.endpoint not in ("login", "static"):
        if request.method in SAFE and guard.knows(request.args.get("token")):
            return _welcome(guard, _without_token())
        if not guard.knows(bearer) and not _has_cookie(guard):
            abort(401)
    if request.method not in SAFE:
        _check_change(guard, by_header=guard.token is not None and guard.knows(bearer))
    return None


def _check_change(guard: Guard, *, by_header: bool) -> None:
    view = current_app.view_functions.get(request.endpoint or "")
    if guard.read_only and not getattr(view, "changes_nothing", False):
        abort(403, "This server was started with --read-only: it changes nothing.")
    origin = request.headers.get("Origin")
    site = request.headers.get("Sec-Fetch-Site")
    if origin == "null" and site == "same-origin":
        origin = None  # a form of ours: browsers hide its origin because of our Referrer-Policy, and tell it so
    if origin is not None and origin != request.host_url.rstrip("/"):
        abort(403, "The request comes from a page of another site.")
    if origin is None and site not in (None, "same-origin"):
        abort(403, "The request comes from a page of another site.")
    if by_header or request.endpoint == "login":
        return
    given = request.headers.get("X-CSRF-Token") or (request.form.get("csrf") if request.mimetype in _FORMS else None)
    if given is None or not hmac.compare_digest(given.encode(), guard.csrf.encode()):
        abort(403, "The page is from before the server was started anew. Load it again, and repeat what you did.")


_FORMS: Final = frozenset(("application/x-www-form-urlencoded", "multipart/form-data"))


def _bearer() -> str | None:
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    return given.strip() if kind.lower() == "bearer" else None


def _has_cookie(guard: Guard) -> bool:
    given = request.cookies.get(_cookie_name())
    return given is not None and hmac.compare_digest(given.encode(), guard.cookie_value.encode())


def _cookie_name() -> str:
    """Browsers share cookies between the ports of a host; servers on several ports have each their own."""
    port = request.host.rpartition(":")[2]
    return f"{COOKIE}-{port}" if port.isascii() and port.isdigit() else COOKIE


def _welcome(guard: Guard, url: str) -> AnyResponse:
    """Give the browser a cookie for the token, and send it on to where the token is in no address."""
    response = redirect(url, 303)
    response.set_cookie(
        _cookie_name(),
        guard.cookie_value,
        max_age=COOKIE_SECONDS,
        httponly=True,
        samesite="Strict",
        secure=request.is_secure,
    )
    return response


def _without_token() -> str:
    from urllib.parse import quote, urlencode

    kept = [(name, value) for name, value in request.args.items(multi=True) if name != "token"]
    # One slash at the start: two would make of the path another host.
    path = "/" + quote(request.path.lstrip("/\\"))
    return f"{path}?{urlencode(kept)}" if kept else path


def _secure(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers[name] = value
    if request.endpoint != "static":
        response.headers["Cache-Control"] = "no-store"
    return response


def names_of(host: str) -> Collection[str]:
    """The names by which a server is known that listens on `host`: that name, and those of this machine."""
    import socket

    machine = socket.gethostname().lower()
    return {name_in(f"[{host}]" if ":" in host else host), machine, f"{machine}.local", socket.getfqdn().lower()}
