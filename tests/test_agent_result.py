"""The AgentResult contract: its fields, its public form, its text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from agentreplay.recorder.agent_result import AgentResult, Interrupt, RunHandle
from agentreplay.recorder.errors import UsageError
from pydantic import BaseModel

MESSAGE = {"role": "assistant", "content": [{"text": "done"}]}


def full_result() -> AgentResult:
    return AgentResult(
        stop_reason="endTurn",
        last_message=MESSAGE,
        traces=[{"id": "t"}],
        structured_output={"amount": 3},
        metrics={"latestContextSize": 812, "projectedContextSize": 900},
        invocation_context={"usage": {}},
        invocation_state={"user": "u1"},
        interrupts=[Interrupt(id="i1", name="approve", reason={"amount": 3})],
        checkpoint={"position": "afterModel", "cycleIndex": 2, "schemaVersion": "1.0"},
    )


def test_the_public_form_leaves_out_four_fields_and_nothing_else() -> None:
    """Traces, metrics, invocation context and state are left out; interrupts stay."""
    assert full_result().to_json() == {
        "type": "agentResult",
        "stopReason": "endTurn",
        "lastMessage": MESSAGE,
        "structuredOutput": {"amount": 3},
        "interrupts": [{"id": "i1", "name": "approve", "reason": {"amount": 3}}],
        "checkpoint": {"position": "afterModel", "cycleIndex": 2, "schemaVersion": "1.0"},
        "contextSize": 812,
        "projectedContextSize": 900,
    }


def test_fields_not_given_are_not_written_and_unknown_ones_are() -> None:
    """The public form has what was given, null included, and fields of a newer contract."""
    assert AgentResult(stop_reason="refusal").to_json() == {"type": "agentResult", "stopReason": "refusal"}
    read = AgentResult.model_validate({"stopReason": "endTurn", "structuredOutput": None, "traceLink": "x"})
    assert read.to_json() == {
        "type": "agentResult",
        "stopReason": "endTurn",
        "structuredOutput": None,
        "traceLink": "x",
    }


def test_every_field_is_in_the_document() -> None:
    """The document, which the log keeps, has every field, the invocation state even when none was given."""
    assert set(full_result().document()) == {
        "type",
        "stopReason",
        "lastMessage",
        "traces",
        "structuredOutput",
        "metrics",
        "invocationContext",
        "invocationState",
        "interrupts",
        "checkpoint",
    }
    assert AgentResult.from_json(full_result().document()) == full_result()
    assert AgentResult(stop_reason="endTurn").document()["invocationState"] == {}
    assert AgentResult(stop_reason="endTurn", invocation_state=None).invocation_state == {}


def test_the_stop_reason_is_an_open_set() -> None:
    """A reason that no contract names yet is kept."""
    assert AgentResult(stop_reason="solarFlare").stop_reason == "solarFlare"


def test_context_sizes_come_from_the_metrics() -> None:
    """With metrics, as JSON or as an object, both sizes are there; without, they are absent."""

    @dataclass
    class Metrics:
        latest_context_size: int
        projected_context_size: int | None = None

    result = full_result()
    assert (result.context_size, result.projected_context_size) == (812, 900)
    other = AgentResult(stop_reason="endTurn", metrics=Metrics(latest_context_size=5))
    assert (other.context_size, other.projected_context_size) == (5, None)
    bare = AgentResult(stop_reason="endTurn")
    assert (bare.context_size, bare.projected_context_size) == (None, None)
    assert result.to_json()["contextSize"] == 812
    assert result.to_json()["projectedContextSize"] == 900
    assert "projectedContextSize" not in other.to_json()
    assert "contextSize" not in bare.to_json()


def test_the_public_form_is_json_whatever_the_result_holds() -> None:
    """Bytes and decimals are written in tagged form and come back as they were."""
    result = AgentResult(
        stop_reason="endTurn", last_message={"content": [{"image": b"\xff\x00"}]}, structured_output=Decimal("1.10")
    )
    text = json.dumps(result.to_json(), allow_nan=False)
    assert AgentResult.from_json(json.loads(text)) == result


def test_interrupts_come_first_in_the_text() -> None:
    """The text of an interrupted run is its interrupts, as JSON."""
    assert json.loads(str(full_result())) == [{"id": "i1", "name": "approve", "reason": {"amount": 3}}]


class Refund(BaseModel):
    order: str
    amount: Decimal


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"amount": 3}, {"amount": 3}),
        ([], []),
        (0, 0),
        (Refund(order="A-17", amount=Decimal("1.10")), {"order": "A-17", "amount": "1.10"}),
    ],
)
def test_structured_output_comes_before_the_message(output: Any, expected: Any) -> None:
    """Without interrupts the text is the structured output as JSON, empty values and models included."""
    result = AgentResult(stop_reason="endTurn", structured_output=output, last_message=MESSAGE, interrupts=[])
    assert json.loads(str(result)) == expected


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (None, ""),
        ("plain words", "plain words"),
        ({"role": "assistant", "content": "plain words"}, "plain words"),
        ({"role": "assistant", "content": []}, ""),
        ({"role": "assistant"}, ""),
        ({"content": [{"text": "a"}, {"toolUse": {"name": "t", "input": {"text": "no"}}}, {"text": "b"}]}, "a\nb"),
        ({"content": [{"reasoning": {"text": "so"}}, {"text": "a"}]}, "so\na"),
        ({"content": [{"reasoningContent": {"reasoningText": {"text": "so", "signature": "s"}}}]}, "so"),
        ({"content": [{"reasoningContent": {"redactedContent": "…"}}]}, ""),
        ({"content": [{"citationsContent": {"content": [{"text": "a"}, {"text": "b"}], "citations": []}}]}, "a\nb"),
        ({"content": [{"citations": {"content": [{"text": "a"}]}}]}, "a"),
        (
            {
                "content": [
                    {"type": "textBlock", "text": "a"},
                    {"type": "reasoningBlock", "text": "so"},
                    {"type": "citationsBlock", "content": [{"text": "c"}], "citations": []},
                    {"type": "toolResultBlock", "content": [{"text": "no"}]},
                ]
            },
            "a\nso\nc",
        ),
        (
            {"content": [{"type": "thinking", "thinking": "so"}, {"type": "text", "text": "a", "citations": []}]},
            "so\na",
        ),
        ({"content": [{"image": b""}, 7, None, "word"]}, "word"),
        (17, ""),
    ],
)
def test_the_text_is_that_of_the_blocks_of_the_last_message(message: Any, text: str) -> None:
    """Text, reasoning and citations blocks are joined by newlines, in any form frameworks write them."""
    assert str(AgentResult(stop_reason="endTurn", last_message=message)) == text


def test_the_recorded_run_is_beside_the_document() -> None:
    """Run, payload, value and error are at hand, take no part in equality and are never written."""
    error = ValueError("late")
    result = full_result()
    attached = full_result().attach(run=RunHandle("run1", "u-1"), payload={"n": 1}, value="v", error=error)
    assert (attached.run.id, attached.run.uid) == ("run1", "u-1")
    assert (attached.payload, attached.value, attached.error) == ({"n": 1}, "v", error)
    assert attached == result
    assert attached.document() == result.document()


def test_a_result_that_was_read_has_no_run() -> None:
    """Asking a result from JSON for its run says why there is none."""
    with pytest.raises(UsageError, match="not recorded here"):
        _ = AgentResult(stop_reason="endTurn").run
