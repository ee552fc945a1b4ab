"""Code that reads the clock, chance, UUIDs and the environment, and does not know that it is recorded.

Tests take the text of this module, change one place of it, and execute what comes out against a recording.
"""

from __future__ import annotations

import dataclasses
import os
import random
import secrets
import time
import uuid
from datetime import UTC, date, datetime
from pathlib import Path
from time import time as seconds
from types import ModuleType
from typing import Any

import agentreplay as ar
from pydantic import BaseModel, Field

ORIGINALLY = time.time  # what stands in for it later is compared with this
EARLY = random.Random()  # seeded by the system, before any run


class Ticket(BaseModel):
    """A model with a default that is another one each time."""

    id: uuid.UUID = Field(default_factory=uuid.uuid4)


@dataclasses.dataclass
class Parcel:
    """The same of a dataclass."""

    id: uuid.UUID = dataclasses.field(default_factory=uuid.uuid4)


@ar.tool(safety="pure")
def stamp(key: str, at: float) -> str:
    """A tool, which reads the clock itself."""
    return f"{key} {at} {time.time()}"


@ar.agent("clerk", max_rounds=9, capture="all")
def clerk(round_index: int, context: ar.Context) -> Any:
    """Three rounds: one that reads and calls, one that reads in between, and the end."""
    if round_index == 1:
        begun = time.time()
        key = str(uuid.uuid4())
        label = stamp(key, begun)
        context.change(new={"label": label, "day": str(date.today())})
        return ar.Continue()
    if round_index == 2:
        first = seconds()
        second = seconds()
        drawn = [random.random() for _ in range(3)]
        stamp("between", first)
        place = os.environ.get("CLERK_PLACE", "here")
        context.change(new={"took": second - first, "drawn": drawn, "place": place})
        return ar.NextStep(step="Actions", reasoning="drawn")
    token = secrets.token_hex(4)
    at = datetime.now(UTC)
    context.change(new={"token": token, "at": at, "lot": random.choice(["a", "b", "c"])})
    return ar.Complete(token)


def changed(*changes: tuple[str, str]) -> tuple[Any, list[str]]:
    """The agent of this module, with a text of it replaced by another each time; and the lines of that text."""
    source = Path(__file__).read_text()
    for old, new in changes:
        assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times"
        source = source.replace(old, new)
    module = ModuleType(__name__)
    exec(compile(source, __file__, "exec"), vars(module))
    return module.clerk, source.splitlines()
