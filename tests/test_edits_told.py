"""What was edited is told in words: the first operations of a patch, and how many more there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.locate import open_store
from agentreplay.replay.edits_told import edit_in_words
from cli_runs import output
from web import client_of, page

PATCH: list[dict[str, Any]] = [
    {"op": "replace", "path": "/a/b", "value": 5},
    {"op": "add", "path": "/new", "value": "x"},
    {"op": "remove", "path": "/old"},
    {"op": "move", "from": "/a", "path": "/z"},
    {"op": "test", "path": "/z/b", "value": 5},
]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"edit": "patch", "patch": PATCH}, 'patch /a/b → 5; /new → "x"; /old removed; 2 more'),
        ({"edit": "patch", "patch": PATCH[3:]}, "patch /z moved from /a; /z/b test 5"),
        ({"edit": "patch", "patch": [{"op": "replace", "path": "", "value": {}}]}, 'patch "" → {}'),
        ({"edit": "patch", "patch": "?"}, 'patch "?"'),
        ({"edit": "set", "path": "/order/total", "value": 129.5}, "set /order/total 129.5"),
        ({"edit": "tool result", "call": "7.2", "value": None}, "tool result 7.2 null"),
        ({"edit": "param", "name": "t", "value": 0.5}, "param t 0.5"),
        ("of another version", "of another version"),
    ],
)
def test_an_edit_is_told_in_a_line(edit: Any, words: str) -> None:
    """A patch by its first operations; whatever is unknown as it is."""
    assert edit_in_words(edit, 60) == words


def test_the_tree_tells_the_operations_of_a_patch(tmp_path: Path) -> None:
    """On the terminal, on the page of the tree, and at the step from which the run was run again."""
    store = open_store(f"sqlite:///{tmp_path}/s.db")

    @ar.agent("patched", max_rounds=3)
    def step(number: int, context: ar.Context) -> ar.Complete:
        return ar.Complete("done")

    step.run({"a": {"b": 1}, "old": 1}, store=store)
    ar.rerun("run1", step, 1, patch=PATCH, store=store)
    told = 'patch /a/b → 5; /new → "x"; /old removed; 2 more'
    assert told in output("tree", "run1", "--store", store.url)
    client = client_of(store)
    html = told.replace('"', "&#34;")
    assert f"<bdi>{html}</bdi>" in page(client, "/runs/run2/tree")
    assert html in page(client, "/runs/run2/steps/0")
