"""The operations of the JSON API about several runs: comparing two, and the tree of forks."""

from __future__ import annotations

from typing import Final

from flask import Response

from .answers import json_answer
from .api import RUN
from .compare_pages import comparison_of, tree_named
from .openapi import ANY, COUNT, DAMAGE, TEXT, TEXT_OR_NULL, Operation, Schema, Table, list_of, record, text
from .run_pages import run_named

TABLE: Final = Table()

OTHER: Final = text("other", "The run to compare with, named likewise.", where="path", example="@last")
STEP_OR_NULL: Final[Schema] = {"type": ["integer", "null"]}
DIFFERENCE: Final[Schema] = {
    "type": "object",
    "required": ["step", "seq", "kind", "path", "expected", "actual", "other", "changes", "why"],
    "description": "In what two steps differ: `expected` is of the first run, `actual` of the second.",
}
PAIR: Final = record(
    {
        "steps": {"type": "array", "items": STEP_OR_NULL, "minItems": 2, "maxItems": 2},
        "status": {"enum": ["same", "payload", "differs", "missing", "extra"]},
        "differs": list_of(TEXT),
        "decisions": list_of(TEXT_OR_NULL),
        "calls": list_of({"anyOf": [list_of(TEXT), {"type": "null"}]}),
    }
)


@TABLE.add(
    Operation(
        "compare",
        "GET",
        "/compare/{run}/{other}",
        "Two runs side by side, aligned step by step, and where they part first.",
        (RUN, OTHER),
        record(
            {
                "runs": list_of(record({"run": TEXT, "uid": TEXT, "agent": TEXT, "status": TEXT, "steps": COUNT})),
                "relation": {"enum": ["same", "parent", "fork", "forks", "none"]},
                "shared": STEP_OR_NULL,
                "same": {"type": "boolean"},
                "counts": {"type": "object", "additionalProperties": COUNT},
                "first": {"anyOf": [DIFFERENCE, {"type": "null"}]},
                "also": list_of(DIFFERENCE),
                "steps": list_of(PAIR),
            },
            problem=DAMAGE,
        ),
    )
)
def compare(run: str, other: str) -> Response:
    """Two runs compared."""
    found, problems = comparison_of(run_named(run), run_named(other))
    answer = found.to_json()
    if problems:  # that no sound step differs does not make the runs the same
        answer |= {"problem": " ".join(problems), "same": False}
    return json_answer(answer)


@TABLE.add(
    Operation(
        "tree",
        "GET",
        "/runs/{run}/tree",
        "The forks and child runs of a run, and what it comes from: each run before those below it.",
        (RUN,),
        record(
            {
                "run": TEXT,
                "runs": list_of(
                    record(
                        {
                            "run": TEXT,
                            "uid": TEXT,
                            "kind": {"enum": ["root", "fork", "child"]},
                            "depth": COUNT,
                            "above": TEXT_OR_NULL,
                            "step": STEP_OR_NULL,
                            "edits": list_of({"type": "object"}),
                            "agent": TEXT,
                            "status": TEXT,
                            "steps": COUNT,
                            "duration": {"type": ["number", "null"]},
                            "value": ANY,
                            "error": {"type": ["object", "null"]},
                            "said": TEXT_OR_NULL,
                            "note": TEXT_OR_NULL,
                        }
                    )
                ),
            }
        ),
    )
)
def tree(run: str) -> Response:
    """The tree of a run."""
    return json_answer(tree_named(run).to_json())
