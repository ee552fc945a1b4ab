"""Decisions are read leniently and written faithfully."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from agentreplay.recorder.decisions import (
    STEPS,
    Complete,
    Continue,
    NextStep,
    PayloadChangeRequest,
    normalise_step,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

# The contract's fields, written out here once more: the model must not be its own witness.
FIELDS = [
    "actionableCommands",
    "actions",
    "artifactToolCalls",
    "automaticCommands",
    "clientTools",
    "confidence",
    "conversationToolCalls",
    "errorMessage",
    "expandReason",
    "forEach",
    "memoryWrites",
    "message",
    "messageIndex",
    "newPayload",
    "payloadChangeRequest",
    "pipeline",
    "planDetails",
    "previousPayload",
    "priorStepResult",
    "promoteMediaOutputs",
    "reasoning",
    "responseForm",
    "retryInstructions",
    "retryReason",
    "scratchpad",
    "skillActivations",
    "step",
    "subAgent",
    "subAgents",
    "terminate",
    "terminateAfterExecution",
    "while",
]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    # Text without lone surrogates, as in any JSON file.
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)


def snake(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


def test_every_field_of_the_contract_has_an_attribute() -> None:
    """Each field is read from its camelCase name and found under its snake_case attribute."""
    document = {name: {"value of": name} for name in FIELDS if name != "step"} | {"step": "Actions"}
    decision = NextStep.model_validate(document)
    for name in FIELDS:
        attribute = "while_" if name == "while" else snake(name)
        assert getattr(decision, attribute) == document[name]
    assert set(NextStep.model_fields) == {"while_" if name == "while" else snake(name) for name in FIELDS}


def test_attributes_are_written_in_camel_case() -> None:
    """What Python names in snake_case is camelCase in JSON, and `while_` is `while`."""
    decision = NextStep(
        step="Retry", retry_reason="late", for_each={"collectionPath": "items"}, while_={"condition": "payload.n < 3"}
    )
    assert decision.to_json() == {
        "step": "Retry",
        "retryReason": "late",
        "forEach": {"collectionPath": "items"},
        "while": {"condition": "payload.n < 3"},
    }
    assert decision.model_dump(by_alias=True, exclude_unset=True) == decision.to_json()


@given(
    st.dictionaries(
        st.sampled_from([name for name in FIELDS if name not in ("step", "payloadChangeRequest")])
        | st.sampled_from(["vendorHint", "x_trace", "unknown"]),
        json_values,
    ),
    st.sampled_from(STEPS),
    st.randoms(use_true_random=False),
)
def test_a_document_comes_back_as_it_was(fields: dict[str, Any], step: str, random: Any) -> None:
    """Any known and unknown fields, null included, are written as they were read, in the same order."""
    items = [*fields.items(), ("step", step)]
    random.shuffle(items)
    document = dict(items)
    written = NextStep.from_json(document).to_json()
    assert list(written.items()) == list(document.items())


def test_unknown_fields_stay_in_their_place() -> None:
    """A field of a newer contract keeps its name, its value and its place."""
    document = {"futureField": [1], "step": "Chat", "another_one": {"a": None}, "message": "Which order?"}
    decision = NextStep.model_validate(document)
    assert list(decision.to_json()) == ["futureField", "step", "another_one", "message"]
    assert decision.model_extra == {"futureField": [1], "another_one": {"a": None}}


def test_null_and_missing_differ() -> None:
    """A field given as null is written as null; one not given is not written."""
    assert NextStep(step="Chat", message=None).to_json() == {"step": "Chat", "message": None}
    assert NextStep(step="Chat").to_json() == {"step": "Chat"}
    assert NextStep(step="Chat", message=None) != NextStep(step="Chat")


@pytest.mark.parametrize(
    ("word", "step"),
    [
        ("success", "Success"),
        ("failed", "Failed"),
        ("retry", "Retry"),
        ("sub-agent", "Sub-Agent"),
        ("subagent", "Sub-Agent"),
        ("SubAgent", "Sub-Agent"),
        ("sub_agent", "Sub-Agent"),
        ("actions", "Actions"),
        ("chat", "Chat"),
        ("foreach", "ForEach"),
        ("for-each", "ForEach"),
        ("while", "While"),
        ("client-tools", "ClientTools"),
        ("clienttools", "ClientTools"),
        ("skill", "Skill"),
        ("plan", "Plan"),
        ("expand-message", "Retry"),
        ("Pipeline", "Retry"),
    ],
)
def test_spellings_found_in_documents_are_normalised(word: str, step: str) -> None:
    """Lower case, hyphens and underscores make no difference to the kind of step."""
    assert normalise_step(word) == step
    decision = NextStep(step=word)
    assert decision.step == step
    assert decision.is_known


@pytest.mark.parametrize("step", STEPS)
def test_the_contracts_own_words_stay(step: str) -> None:
    """The eleven words of the contract are spelled as it spells them."""
    assert normalise_step(step) == step


def test_an_unknown_step_is_kept_and_visible() -> None:
    """The set of steps is open: another word stays as it is and is marked as none of the contract's."""
    decision = NextStep(step="Hand-Over")
    assert decision.step == "Hand-Over"
    assert not decision.is_known


def test_a_decision_needs_a_step() -> None:
    """A decision without a step says so."""
    with pytest.raises(ValidationError) as caught:
        NextStep.model_validate({"message": "hello"})
    assert caught.value.errors()[0]["loc"] == ("step",)


def test_values_are_the_very_objects_that_were_put_in() -> None:
    """Nothing in a decision is copied or coerced."""
    payload = {"items": [1, 2.0, True]}
    request = {"newElements": {"a": 1}, "stray": 2}
    decision = NextStep(step="Actions", new_payload=payload, payload_change_request=request, confidence=1)
    assert decision.new_payload is payload
    assert decision.payload_change_request is request
    assert decision.change_request is request
    assert type(decision.confidence) is int
    assert decision.to_json()["newPayload"] is payload


def test_a_change_request_is_accepted_in_both_spellings() -> None:
    """A request has the contract's names in JSON, whichever names it was made with; stray keys are left alone."""
    expected = {"newElements": {"a": 1}, "removeElements": {"b": "__DELETE__"}, "reasoning": "why"}
    snake_case = {"new_elements": {"a": 1}, "remove_elements": {"b": "__DELETE__"}, "reasoning": "why"}
    assert PayloadChangeRequest.model_validate(snake_case).to_json() == expected
    assert PayloadChangeRequest.model_validate(expected).to_json() == expected
    assert PayloadChangeRequest.model_validate(expected).new_elements == {"a": 1}
    assert NextStep(step="Retry", payload_change_request=snake_case).change_request == expected
    stray = {"status": "open", "updateElements": {}, "update_elements": {"a": 1}}
    assert NextStep(step="Retry", payload_change_request=stray).change_request == stray


def test_a_model_inside_a_decision_is_written_as_json() -> None:
    """A PayloadChangeRequest object and its JSON are the same to who reads the decision."""
    request = PayloadChangeRequest(update_elements={"status": "open"})
    decision = NextStep(step="Actions", payload_change_request=request)
    assert decision.change_request == {"updateElements": {"status": "open"}}
    assert decision == NextStep(step="Actions", payload_change_request={"updateElements": {"status": "open"}})
    assert NextStep(step="Retry").change_request is None


def test_what_json_lacks_comes_back_exactly() -> None:
    """Bytes and decimals in a decision survive JSON."""
    decision = NextStep(
        step="Actions", actions=[{"name": "pay", "params": {"amount": Decimal("1.10"), "key": b"\x00"}}]
    )
    text = json.dumps(decision.to_json(), allow_nan=False)
    assert NextStep.from_json(json.loads(text)) == decision


def test_the_order_of_fields_says_nothing() -> None:
    """Decisions with the same fields are equal and have the same hash."""
    one = NextStep.model_validate({"step": "Chat", "message": "hi", "extra": [1]})
    other = NextStep.model_validate({"extra": [1], "message": "hi", "step": "chat"})
    assert one == other
    assert hash(one) == hash(other)
    assert one != PayloadChangeRequest()


def test_a_decision_cannot_be_changed_but_copied() -> None:
    """A decision is frozen; a copy with other fields is written with them."""
    decision = NextStep(step="Chat")
    with pytest.raises(ValidationError):
        decision.step = "Retry"
    assert decision.model_copy(update={"message": "hi"}).to_json() == {"step": "Chat", "message": "hi"}


def test_a_decision_shows_what_was_given() -> None:
    """The text of a decision names the given fields only."""
    assert repr(NextStep.model_validate({"step": "retry", "retryReason": "x", "new": 1})) == (
        "NextStep(step='Retry', retry_reason='x', new=1)"
    )


def test_continue_carries_nothing_and_complete_its_value() -> None:
    """An outcome says its kind in the contract's words, and Complete holds the very value."""
    value = ["refunded"]
    assert Complete(value).value is value
    assert (Continue().type, Complete(value).type) == ("continue", "complete")
    assert Continue() == Continue()
