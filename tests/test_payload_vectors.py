"""The memberjunction applier does what MemberJunction does: every vector computed from it holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from agentreplay.recorder.payload import (
    ChangeResult,
    Limits,
    analyze,
    apply_change,
    apply_scope,
    deep_merge,
    extract_downstream,
    merge_upstream,
    parse_path_spec,
    reverse_scope,
)

FOLDER = Path(__file__).parent.parent / "fixtures" / "memberjunction"

INHERITED_KEYS = {77}
"""Cases about keys that JavaScript objects inherit, which Python's do not have."""


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


APPLY = lines("apply_cases.jsonl")
PATHS = lines("path_cases.jsonl")
ODD = lines("odd_cases.jsonl")
UNITS = json.loads((FOLDER / "unit_vectors.json").read_text(encoding="utf-8"))
RUN = json.loads((FOLDER / "example_run.json").read_text(encoding="utf-8"))


def case_name(case: dict[str, Any]) -> str:
    return str(case["id"])


def exact(tree: Any) -> str:
    """A text that is equal for equal trees only: 1, 1.0 and true differ."""
    return json.dumps(tree, sort_keys=True)


def untimed(blocked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in operation.items() if key != "timestamp"} for operation in blocked]


def applied(payload: Any, request: Any, options: dict[str, Any]) -> ChangeResult:
    return apply_change(
        payload,
        request,
        allowed_paths=options.get("allowedPaths"),
        ignore_stray_keys=options.get("ignoreStrayKeys", False),
        analyze=options.get("analyzeChanges", True),
        agent_name=options.get("agentName"),
    )


def test_no_vector_is_missing() -> None:
    """The files hold as many vectors as were computed, and every one of them has a test."""
    assert len(APPLY) == len({case["id"] for case in APPLY}) == 205
    assert len(PATHS) == len({case["id"] for case in PATHS}) == 97
    assert len(ODD) == len({case["id"] for case in ODD}) == 343
    assert {name: len(UNITS[name]) for name in UNITS if name != "about"} == {
        "applyAgentChangeRequest": 31,
        "deepMerge": 9,
        "payloadOperations": 12,
        "changeAnalyzer": 16,
    }
    assert len(RUN["rounds"]) == 3
    assert {case["id"] for case in APPLY if case.get("json_lossy")} == INHERITED_KEYS
    assert {case["fn"] for case in APPLY} == {"applyAgentChangeRequest"}
    assert {case["fn"] for case in PATHS} <= set(PATH_FUNCTIONS)


@pytest.mark.parametrize("case", [case for case in APPLY if case["id"] not in INHERITED_KEYS], ids=case_name)
def test_a_change_request_does_what_it_does_there(case: dict[str, Any]) -> None:
    """Result, counts, warnings, blocked operations and the corrected request are the original's."""
    compare_change(case)


def compare_change(case: dict[str, Any]) -> None:
    outcome = applied(case["payload"], case["request"], case["options"])
    assert exact(outcome.result) == exact(case["result"])
    assert outcome.applied == case["applied"]
    assert outcome.warnings == case["warnings"]
    assert exact(outcome.blocked_operations) == exact(untimed(case["blockedOperations"]))
    assert outcome.requires_feedback == case["requiresFeedback"]
    assert exact(outcome.applied_request) == exact(case.get("request_after", case["request"]))


def test_a_key_that_javascript_objects_inherit_is_an_ordinary_key() -> None:
    """Where the original sees `constructor` in every object, it is a key like any other here."""
    case = next(case for case in APPLY if case["id"] == 77)
    outcome = applied(case["payload"], case["request"], case["options"])
    assert outcome.result == {"a": 1, "constructor": "x"}
    assert outcome.applied == {"additions": 1, "updates": 0, "deletions": 0}


@pytest.mark.parametrize("case", UNITS["applyAgentChangeRequest"], ids=lambda case: case["name"])
def test_a_change_request_of_its_unit_tests(case: dict[str, Any]) -> None:
    """What the original's unit tests assert holds, and so does everything they do not look at."""
    outcome = applied(case["payload"], case["request"], case.get("options", {}))
    assert exact(outcome.result) == exact(case["expected_full"])
    assert outcome.applied == case["applied_full"]
    assert outcome.warnings == case["warnings_full"]


@pytest.mark.parametrize("case", UNITS["deepMerge"], ids=lambda case: case["name"])
def test_a_merge_of_its_unit_tests(case: dict[str, Any]) -> None:
    """Objects are merged, the rest is taken from the source."""
    assert deep_merge(case["destination"], case["src"]) == case["expected"]


@pytest.mark.parametrize("case", UNITS["payloadOperations"], ids=lambda case: repr(case["spec"]))
def test_a_path_spec_of_its_unit_tests(case: dict[str, Any]) -> None:
    """A spec is read, and written again, as there."""
    spec = parse_path_spec(case["spec"])
    assert spec.path == case["parsed"]["path"]
    assert list(spec.operations) == case["parsed"]["operations"]
    assert spec.all_operations == case["parsed"]["allOperations"]
    assert str(spec) == case["formatted"]


LIMIT_NAMES = {
    "contentReductionThreshold": "content_reduction",
    "minContentLengthForAnalysis": "min_content",
    "maxAnalysisDepth": "depth",
}


@pytest.mark.parametrize("case", UNITS["changeAnalyzer"], ids=lambda case: case["name"])
def test_an_analysis_of_its_unit_tests(case: dict[str, Any]) -> None:
    """The same findings come in the same order, with the same texts."""
    limits = Limits(**{LIMIT_NAMES[name]: value for name, value in case["config"].items()})
    found = analyze(case["original"], case["result"], limits=limits)
    names = ("type", "severity", "path", "message")
    assert [{name: getattr(finding, name) for name in names} for finding in found] == [
        {name: warning[name] for name in names} for warning in case["warnings"]
    ]
    assert bool(found) == case["requiresFeedback"]


def merged(case: dict[str, Any], args: dict[str, Any]) -> Any:
    outcome = merge_upstream(args["parent"], args["sub"], args["paths"], "Sub")
    assert outcome.applied == case["applied"]
    assert outcome.warnings == case["warnings"]
    assert outcome.blocked_operations == untimed(case["blockedOperations"])
    return outcome.result


PATH_FUNCTIONS = {
    "extractDownstreamPayload": lambda case, args: extract_downstream(args["payload"], args["paths"]),
    "mergeUpstreamPayload": merged,
    "applyPayloadScope": lambda case, args: apply_scope(args["payload"], args["scope"]),
    "reversePayloadScope": lambda case, args: reverse_scope(args["payload"], args["scope"]),
    "deepMerge": lambda case, args: deep_merge(args["destination"], args["source"]),
}


@pytest.mark.parametrize("case", PATHS, ids=case_name)
def test_a_payload_goes_down_and_comes_up_as_there(case: dict[str, Any]) -> None:
    """What a sub-agent is given, and what of its payload is taken, is the original's."""
    assert exact(PATH_FUNCTIONS[case["fn"]](case, case["args"])) == exact(case["result"])


@pytest.mark.parametrize("case", ODD, ids=case_name)
def test_an_odd_call_does_what_it_does_there(case: dict[str, Any]) -> None:
    """Keys that look like paths, sections of the wrong kind and patterns that are none make no difference."""
    if case["fn"] == "applyAgentChangeRequest":
        compare_change(case)
    else:
        assert exact(PATH_FUNCTIONS[case["fn"]](case, case["args"])) == exact(case["result"])


@pytest.mark.parametrize("number", range(3))
def test_a_run_of_three_rounds_has_the_payloads_it_had(number: int) -> None:
    """Each round's request makes of the payload before it the payload after it, which is the next one's start."""
    round_ = RUN["rounds"][number]
    outcome = apply_change(round_["payload_before"], round_["loopAgentResponse"]["payloadChangeRequest"])
    assert outcome.result == round_["payload_after"]
    assert outcome.applied == round_["applied"]
    assert outcome.warnings == round_["warnings"]
    following = [other["payload_before"] for other in RUN["rounds"]][number + 1 : number + 2]
    assert following in ([], [outcome.result])
