"""Stores for the browser tests: the example with its planted mistake, and runs that are hard to show."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import agentreplay as ar
from agentreplay.examples import refunds
from agentreplay.recorder.locate import open_store

HUGE = 2**53 + 1
LONG_NAME = "n" * 10_000


def recorded(folder: Path, *acts: Callable[[Path], None]) -> Path:
    """A store in that folder, with what those functions record in it, one after the other.

    They do so in a thread of their own: the tests share theirs with the event loop of Playwright, and an agent that is
    not a coroutine refuses to run on one.
    """
    store = folder / "store.db"
    open_store(str(store)).close()
    with ThreadPoolExecutor(1) as apart:
        for act in acts:
            apart.submit(act, store).result()
    return store


def record_refunds(store: Path) -> None:
    """run1 is the example, which fails at step 10; run2 its child; run3 the same from step 7 on, put right."""
    refunds.step.run(refunds.START, store=store)
    fix = {"/order/coupon/used": True}
    ar.rerun("run1", refunds.step, 7, set=fix, allow=["issue_refund"], store=str(store))


def record_many(store: Path, runs: int) -> None:
    """Short runs that are completed, with numbers in their payload and names in turn."""
    for number in range(runs):
        with ar.record(f"agent {number % 3}", payload={"n": number}, store=store) as run:
            with run.round() as r:
                r.tool("search", {"q": f"needle {number}"}, lambda q: {"found": q}, safety="pure")
                r.change(update={"n": number + 1}, reason="counted")
                r.decide(step="Success", reasoning=f"number {number}")
            run.complete("done")


def record_tagged(store: Path) -> None:
    """Three runs with tags, of one word, of two, and as long and as many as they may be; with what a model cost."""
    many = ["x" * 64, *[f"tag number {number}" for number in range(17)]]
    for number, tags in enumerate((["nightly"], ["nightly", "two words"], ["<b>bold</b>", *many])):
        with ar.record("tagged", store=store, tags=tags) as run, run.round() as r:
            r.model("m", {"q": f"thimble {number}"}, lambda q: {"usage": {"input_tokens": 9, "cost": 0.0125}})


def record_long(store: Path, steps: int) -> None:
    """One run of many steps, each of which counts one further."""
    with ar.record("counter", payload={"n": 0, "kept": {"same": True}}, store=store) as run:
        for number in range(1, steps + 1):
            with run.round() as r:
                r.change(update={"n": number}, reason="one further")
                r.decide(step="Retry", reasoning=f"step number {number}")
        run.complete(steps)


def record_exact(store: Path) -> None:
    """Values that a script would read as others, before and after."""
    before: dict[str, Any] = {
        "huge": HUGE,
        "beyond": 2**70,
        "not_a_number": float("nan"),
        "endless": float("-inf"),
        "minus_zero": -0.0,
        "float": 1.0,
        "bytes": b"\x00\xffabc",
        "surrogate": "a\ud800z",
        "nothing": None,
        "decimal": Decimal("0.10"),
        "both": {1: "number", "1": "text"},
        "gone": None,
    }
    with ar.record("exact", payload=before, store=store) as run:
        with run.round() as r:
            edits = [
                {"op": "replace", "path": "/huge", "value": HUGE + 1},
                {"op": "replace", "path": "/float", "value": 1},
                {"op": "replace", "path": "/surrogate", "value": "a\ud801z"},
                {"op": "remove", "path": "/gone"},
                {"op": "add", "path": "/here", "value": None},
            ]
            r.change(patch=edits, reason="one further")
            r.decide(step="Success", reasoning="exact")
        run.complete("exact")


MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(2)><b>bold</b>"
ACTING = "\x1b[31mred\x1b[0m \u202eright to left\u202c \u200b\x00\x7f {{7*7}} '\"`"
LINK = "javascript:alert(3)"


@dataclass
class Order:
    total: float
    lines: tuple[str, ...]


def record_inside(store: Path) -> None:
    """A run in which something changes inside of what JSON cannot say."""
    before = {"order": Order(12.5, ("lamp", "desk")), "seats": {1: "free", 2: "free"}, "same": (1, 2)}
    after = {"order": Order(3.0, ("lamp", "desk", "bulb")), "seats": {1: "taken"}, "same": (1, 2)}
    with ar.record("inside", payload=before, store=store) as run, run.round() as r:
        r.change(payload=after, reason="one further")
        r.decide(step="Success", reasoning="inside")


def record_varied(store: Path) -> None:
    """A run whose steps have more of everything: long texts, several change requests, notes, moved and empty things."""
    long = "many words " * 1_500
    before: dict[str, Any] = {
        "spaces": "a b",
        "lines": "a\nb",
        "wide": {f"k{at:02}": at for at in range(70)},
        "list": [*"abcd"],
        "text": long,
    }
    with ar.record("two  spaces", payload=before, store=store) as run:
        run.messages.append({"role": "user", "content": long})
        with run.round() as r:
            r.model("m", {"messages": [{"role": "user", "content": long}]}, lambda **given: {"content": long})
            r.tool("echo  it", {"q": "a  b", "text": long}, lambda **given: long, safety="pure")
            r.report("noted  twice")
            r.change(update={"spaces": "a  b", "lines": "a\r\nb"}, reason=long)
            r.change(update={"wide": {"k40": "new", "k60": "new"}}, reason="two further")
            more = {
                "list": [*"dabc"],
                "empty": [],
                "none": {},
                "text": long + "more",
                "spaces": "a  b",
                "lines": "a\r\nb",
            }
            r.change(payload=before | more | {"wide": before["wide"] | {"k40": "new", "k60": "new"}})
            r.decide(step="Actions", reasoning=long)
        with run.round() as r:
            r.change(payload=before | {"list": [*"da"], "empty": [1]})
            r.decide(step="Success")
        run.complete(long)


def record_damaged(store: Path) -> None:
    """A run of six steps, of which the fourth has an event that cannot be read."""
    record_long(store, 6)
    with sqlite3.connect(store) as database:
        newest = "SELECT max(key) FROM event WHERE kind = 'payload.changed' AND round = 4"
        database.execute(f"UPDATE event SET body = ? WHERE key = ({newest})", (b'{"request": 1',))  # ours
    database.close()


def record_hostile(store: Path) -> None:
    """A run whose names, values, messages and errors want to be markup, a script, a link or colours of a terminal."""
    evil = {"text": MARKUP + ACTING, "link": LINK, MARKUP: {MARKUP: ACTING}, LONG_NAME: LONG_NAME, "": "no name"}

    def tool(**_arguments: Any) -> dict[str, Any]:
        return {"page": MARKUP, "link": LINK, "shown": ACTING}

    def broken(**_arguments: Any) -> None:
        raise ValueError(MARKUP + ACTING)

    started = ar.record(f"{MARKUP}{LONG_NAME}", payload={"start": MARKUP}, input=MARKUP, store=store)
    with suppress(RuntimeError), started as run:
        run.messages.append({"role": "user", "content": MARKUP + ACTING})
        with run.round() as r:
            r.tool(f"fetch {MARKUP}", {"url": LINK, MARKUP: ACTING}, tool)
            r.tool(LONG_NAME, {"to": LONG_NAME}, tool)
            with suppress(ValueError):
                r.tool("break", {}, broken)
            r.report(ACTING + MARKUP)
            r.change(new={"evil": evil}, reason=MARKUP)
            r.decide(step="Retry", reasoning=MARKUP + "\n" + ACTING)
        raise RuntimeError(MARKUP + ACTING)
