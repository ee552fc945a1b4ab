"""The world that the agents of the tests touch, and a way to cut it off.

Each effect says when it is really made. While the world is closed no effect may be: one that is stays noted, whatever
the agent makes of the error, and nothing reaches a network.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest import mock

made: list[str] = []
"""The effects that were made since the test began, in order."""

_closed = False


class Reached(BaseException):
    """Something that belongs to the real world was reached, and must not have been."""


def touch(what: str) -> None:
    """An effect is made."""
    made.append(what)
    if _closed:
        raise Reached(what)


def _reached(*args: Any, **kwargs: Any) -> Any:
    import world

    world.touch("the real thing")


@contextmanager
def closed(*modules: ModuleType) -> Iterator[list[str]]:
    """No network, and no effect, in this block; gives the list of those that were made, which stays empty.

    Args:
        modules: whose effects do not say themselves when they are made; they are made to fail.
    """
    global _closed
    made.clear()
    _closed = True
    code = {}
    for module in modules:
        for value in vars(module).values():
            if hasattr(value, "__agentreplay_effect__"):
                code[value.__wrapped__] = value.__wrapped__.__code__
                value.__wrapped__.__code__ = _reached.__code__
    names = ("connect", "connect_ex", "sendto", "bind")
    try:
        with (
            mock.patch.multiple(socket.socket, **dict.fromkeys(names, _reached)),
            mock.patch.object(socket, "getaddrinfo", _reached),
        ):
            yield made
    finally:
        _closed = False
        for fn, real in code.items():
            fn.__code__ = real
