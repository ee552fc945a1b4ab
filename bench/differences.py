"""G7: what the difference of two payloads of 1 MB with four changes costs."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import agentreplay as ar
from deepdiff import DeepDiff

from .measuring import Row, duration, medians


def payload() -> dict[str, Any]:
    """About 1 MB in 6,150 records."""
    return {"rows": [{"id": n, "name": f"name {n}", "text": "x" * 100, "score": n / 7} for n in range(6_150)]}


def changed(old: dict[str, Any]) -> dict[str, Any]:
    """The payload after four changes; what they do not touch is shared."""
    rows = list(old["rows"])
    for at in (10, 2_000, 4_000, 6_000):
        rows[at] = {**rows[at], "score": -1.0}
    return {**old, "rows": rows}


def identity_walk(a: Any, b: Any) -> int:
    """Visit what is not the same object: the floor where trees share."""
    if a is b:
        return 0
    if type(a) is dict and type(b) is dict:
        return sum(identity_walk(a.get(key), value) for key, value in b.items())
    if type(a) is list and type(b) is list:
        return sum(identity_walk(one, other) for one, other in zip(a, b, strict=False))
    return 1


def pruned_walk(a: Any, b: Any) -> int:
    """Visit what is not equal: the floor where they do not share."""
    if a == b:
        return 0
    if type(a) is dict and type(b) is dict:
        return sum(pruned_walk(a.get(key), value) for key, value in b.items())
    if type(a) is list and type(b) is list:
        return sum(pruned_walk(one, other) for one, other in zip(a, b, strict=False))
    return 1


def rows() -> Iterator[Row]:
    """Measure shared and unshared, and DeepDiff on the whole once."""
    old = payload()
    new = changed(old)
    apart = copy.deepcopy(new)
    if not len(ar.diff_values(old, new)) == len(ar.diff_values(old, apart)) == 4:
        raise AssertionError("there are four changes")
    arms = {
        "identity": lambda: identity_walk(old, new),
        "shared": lambda: ar.diff_values(old, new),
        "pruned": lambda: pruned_walk(old, apart),
        "unshared": lambda: ar.diff_values(old, apart),
    }
    times = medians(arms, repeat=5)
    whole = medians({"deepdiff": lambda: DeepDiff(old, apart)}, rounds=1, repeat=1)["deepdiff"]
    yield Row("G7", "diff of 1 MB, shared", duration(times["shared"]), times["shared"] / times["identity"], 3.0)
    yield Row("G7", "diff of 1 MB, unshared", duration(times["unshared"]), times["unshared"] / times["pruned"], 3.0)
    yield Row("G7", "against DeepDiff on the whole", duration(whole), times["unshared"] / whole, 0.01)
