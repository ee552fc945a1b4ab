"""Every way to read what is different each time, and what stands in the places from which it is read."""

from __future__ import annotations

import datetime as dates
import os
import random
import secrets
import time
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime
from time import time as seconds
from typing import Any
from zoneinfo import ZoneInfo

import ambient_agents
from agentreplay.recorder.ambient_sources import PATCHES

ABSENT = object()


def everything() -> dict[str, Any]:
    """What stands in each place that a run may use, and under names in two modules of the application."""
    places = {
        f"{getattr(patch.owner, '__name__', 'os.environ')} {patch.name}": vars(patch.owner).get(patch.name, ABSENT)
        for group in PATCHES.values()
        for patch in group
    }
    return {**places, "here": seconds, "there": ambient_agents.seconds}


def shuffled(items: Any) -> Any:
    random.shuffle(items)
    return items


CLOCK: list[tuple[str, Callable[[], Any]]] = [
    ("time.time", lambda: time.time()),
    ("time.time_ns", lambda: time.time_ns()),
    ("time.localtime", lambda: time.localtime()),
    ("time.localtime", lambda: time.localtime(None)),
    ("time.gmtime", lambda: time.gmtime()),
    ("time.ctime", lambda: time.ctime()),
    ("time.asctime", lambda: time.asctime()),
    ("time.strftime", lambda: time.strftime("%Y-%m-%d")),
    ("datetime.now", lambda: datetime.now()),
    ("datetime.now", lambda: dates.datetime.now(None)),
    ("datetime.now(tz)", lambda: datetime.now(UTC)),
    ("datetime.now(tz)", lambda: datetime.now(tz=ZoneInfo("Asia/Kathmandu"))),
    ("datetime.today", lambda: datetime.today()),
    ("date.today", lambda: date.today()),
]
CHANCE: list[tuple[str, Callable[[], Any]]] = [
    ("random.random", lambda: random.random()),
    ("random.uniform", lambda: random.uniform(2, 3)),
    ("random.randrange", lambda: random.randrange(0, 1000, 7)),
    ("random.getrandbits", lambda: random.getrandbits(90)),
    ("random.randbytes", lambda: random.randbytes(5)),
    ("random.gauss", lambda: random.gauss(0, 1)),
    ("random.choice", lambda: random.choice("abcdefgh")),
    ("random.choices", lambda: random.choices("abcdefgh", range(8), k=5)),
    ("random.sample", lambda: random.sample(range(100), 5)),
    ("random.sample", lambda: random.sample("abc", 3, counts=[4, 4, 4])),
    ("random.Random", lambda: random.Random().random()),
    ("Random.random", lambda: ambient_agents.EARLY.uniform(0, 9)),
    ("Random.getrandbits", lambda: ambient_agents.EARLY.choice("abcdefgh")),
    ("random.SystemRandom.random", lambda: random.SystemRandom().random()),
    ("random.SystemRandom.randbytes", lambda: random.SystemRandom().randbytes(4)),
    ("secrets.token_hex", lambda: secrets.token_hex(7)),
    ("secrets.token_urlsafe", lambda: secrets.token_urlsafe(7)),
    ("secrets.randbelow", lambda: secrets.randbelow(256)),
    ("os.urandom", lambda: os.urandom(6)),
]
UNIQUE: list[tuple[str, Callable[[], Any]]] = [
    ("uuid.uuid1", lambda: uuid.uuid1()),
    ("uuid.uuid4", lambda: uuid.uuid4()),
    ("uuid.uuid4", lambda: ambient_agents.Ticket().id),
    ("uuid.uuid4", lambda: ambient_agents.Parcel().id),
]
ENVIRONMENT: list[tuple[str, Callable[[], Any]]] = [
    ("HOME", lambda: os.environ["HOME"]),
    ("HOME", lambda: os.environ.get("HOME")),
    ("HOME", lambda: os.getenv("HOME", "?")),
    ("HOME", lambda: "HOME" in os.environ),
    ("NO_SUCH", lambda: os.environ.get("NO_SUCH", 7)),
    ("NO_SUCH", lambda: "NO_SUCH" in os.environ),
    ("os.environ", lambda: list(os.environ)),
]
