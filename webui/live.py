"""Following what is recorded: pages are told that something is new by server-sent events, and ask for what they show.

A store tells nobody when something is appended. So one thread asks it, for all pages together: whether the runs that
are followed have grown, and, more rarely, whether there are other runs. A page that follows holds one of the server's
threads, so their number is bounded; one too many is told to come again later. A reader who has gone is noticed within
a second, and a stream ends with its run, so nothing is left behind.

What is sent says that something is new, and no more: {"head": …, "step": …, "status": …} of a run, of the list of runs
how many there are.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Final

from flask import Response, request
from werkzeug.exceptions import ServiceUnavailable

from ..recorder.errors import AgentReplayError
from ..recorder.store import FIRST, EventStore, RunInfo
from ..replay.listing import standing

FOLLOWERS: Final = 64
"""Pages that may follow something at the same time; the server has more threads than that."""

POLL_SECONDS: Final = 0.1
LIST_SECONDS: Final = 0.5
"""How often the store is asked for followed runs, and for the list of runs."""

LOOK_SECONDS: Final = 1.0
"""How often a stream looks whether its reader is still there."""

HEARTBEAT_SECONDS: Final = 5.0
"""After so long without news something is sent all the same: proxies, and we, see who has gone."""

LONGEST_SECONDS: Final = 600.0
"""After so long a stream ends; a browser that is still there comes again."""

LIST: Final = 0
"""Stands for the list of runs, where others are the numbers of runs, and negative ones what is not in the store."""


@dataclass(slots=True)
class Followed:
    """What is followed, and how it stands.

    Attributes:
        version: goes up with each change.
        told: what is sent of it.
        ended: whether nothing will come any more.
        followers: pages that follow it.
    """

    version: int = 0
    told: Any = None
    ended: bool = False
    followers: int = 0


class Watch:
    """Asks the store what is new, for all pages together.

    Args:
        store: what is followed.
        runs: gives the list of runs.

    Attributes:
        others: tells of what has a negative number, such as a re-run, how it stands, and whether it is over.
    """

    def __init__(self, store: EventStore, runs: Callable[[], list[RunInfo]]) -> None:
        self._store = store
        self._runs = runs
        self._news = threading.Condition()
        self._followed: dict[int, Followed] = {}
        self._thread: threading.Thread | None = None
        self._known: list[RunInfo] | None = None
        self._list_due = 0.0
        self.closed = False
        self.others: Callable[[int], tuple[Any, bool]] = lambda key: (None, True)

    @property
    def followers(self) -> int:
        """Pages that follow something now."""
        with self._news:
            return sum(followed.followers for followed in self._followed.values())

    def join(self, key: int, told: Any) -> int:
        """Begin to follow a run, by its number, or the list of runs.

        Args:
            key: what.
            told: what the follower knows of it.

        Returns:
            The version that it knows; -1 if others know of another one, which then is news. Of the list nobody can say
            what a page knows: it was made of one that may have been half a second old. So it is told in any case.

        Raises:
            ServiceUnavailable: as many as are allowed do so already.
        """
        with self._news:
            if self.closed or sum(followed.followers for followed in self._followed.values()) >= FOLLOWERS:
                raise ServiceUnavailable("as many pages as are allowed follow runs already", retry_after=5)
            followed = self._followed.setdefault(key, Followed(told=told))
            followed.followers += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="agentreplay-watch", daemon=True)
                self._thread.start()
            if key == LIST and self._known is not None:
                return -1
            return followed.version if followed.told == told else -1

    def leave(self, key: int) -> None:
        """Follow it no longer."""
        with self._news:
            followed = self._followed[key]
            followed.followers -= 1
            if not followed.followers:
                del self._followed[key]

    def wait(self, key: int, version: int, seconds: float) -> Followed:
        """How something stands, once that is news, or after so many seconds."""
        with self._news:
            self._news.wait_for(lambda: self.closed or self._followed[key].version != version, seconds)
            return self._followed[key]

    def close(self) -> None:
        """End every stream: the server stops."""
        with self._news:
            self.closed = True
            self._news.notify_all()

    def _work(self) -> None:
        while True:
            with self._news:
                keys = list(self._followed)
                if not keys or self.closed:
                    self._thread = None
                    self._known = None
                    return
            for key in keys:
                try:
                    self._look(key)
                except AgentReplayError:
                    continue  # the store is busy or damaged: pages say so, and this is asked again
            time.sleep(POLL_SECONDS)

    def _look(self, key: int) -> None:
        if key == LIST:
            self._look_at_list()
            return
        with self._news:
            followed = self._followed.get(key)
            told = followed.told if followed is not None else None
        if key < 0:
            news, over = self.others(key)
            if news != told or (over and followed is not None and not followed.ended):
                self._tell(key, news, ended=over)
            return
        info = self._store.run(key)
        status = standing(info)
        if told is None or (told["head"], told["status"]) != (info.head_seq, status):
            known = told or {"head": FIRST, "step": 0}
            step = known["step"]
            for row in self._store.rows(info, known["head"], info.head_seq):
                step = row.round if row.kind == "round.started" else step
            self._tell(key, {"head": info.head_seq, "step": step, "status": status}, ended=not info.is_live)
        elif not info.is_live and followed is not None and not followed.ended:
            self._tell(key, told, ended=True)

    def _look_at_list(self) -> None:
        if time.monotonic() < self._list_due:
            return
        began = time.monotonic()
        infos = self._runs()
        # A long list takes a while: it is looked at more rarely, so that looking never is what the server does most.
        self._list_due = time.monotonic() + max(LIST_SECONDS, 10 * (time.monotonic() - began))
        if infos != self._known:
            self._known = infos
            self._tell(LIST, {"runs": len(infos)})

    def _tell(self, key: int, told: Any, *, ended: bool = False) -> None:
        with self._news:
            followed = self._followed.get(key)
            if followed is not None:
                followed.told, followed.ended = told, ended
                followed.version += 1
                self._news.notify_all()


def stream(watch: Watch, key: int, known: Any) -> Response:
    """An answer that goes on: an event whenever something is new.

    Args:
        watch: asks the store.
        key: what is followed.
        known: what the reader knows of it: {head, step, status} of a run.
    """
    version = watch.join(key, known)
    is_gone: Callable[[], bool] = request.environ.get("waitress.client_disconnected", lambda: False)
    response = Response(_Stream(watch, key, version, is_gone), mimetype="text/event-stream")
    response.headers["X-Accel-Buffering"] = "no"
    return response


class _Stream:
    """The events of a stream. Whatever becomes of it, it is left once: at its end, or when the server lets go of it."""

    def __init__(self, watch: Watch, key: int, version: int, is_gone: Callable[[], bool]) -> None:
        self._watch, self._key, self._version, self._is_gone = watch, key, version, is_gone
        self._left = False
        self._events = self._make()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        return next(self._events)

    def close(self) -> None:
        """Leave what is followed."""
        self._events.close()
        self._leave()  # a stream that was never begun has no end of its own

    def _leave(self) -> None:
        if not self._left:
            self._left = True
            self._watch.leave(self._key)

    def _make(self) -> Generator[bytes, None, None]:
        try:
            yield b"retry: 2000\n\n"
            yield from self._news()
        finally:
            self._leave()

    def _news(self) -> Iterator[bytes]:
        began = spoken = time.monotonic()
        version = self._version
        while time.monotonic() - began < LONGEST_SECONDS and not self._watch.closed and not self._is_gone():
            followed = self._watch.wait(self._key, version, LOOK_SECONDS)
            if followed.version != version:
                version, spoken = followed.version, time.monotonic()
                yield b"event: new\ndata: " + json.dumps(followed.told).encode() + b"\n\n"
                if followed.ended:
                    yield b"event: end\ndata: {}\n\n"
                    return
            elif time.monotonic() - spoken > HEARTBEAT_SECONDS:
                spoken = time.monotonic()
                yield b": still here\n\n"
