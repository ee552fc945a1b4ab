"""What a round reaches: an outcome for the loop, and a decision with all that goes with it.

`Continue` and `Complete` are the outcome of one call of a step function (the CoreStep contract): go round once more,
or end with a value. `NextStep` is the decision (MemberJunction's BaseAgentNextStep): which kind of step comes next,
and above all how the payload is to change (`PayloadChangeRequest`).

A decision is read leniently and written faithfully; see `document`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from pydantic import field_validator

from .agent_result import AgentResult, Interrupt, RunHandle
from .document import Document

__all__ = [
    "STEPS",
    "AgentResult",
    "Complete",
    "Continue",
    "Interrupt",
    "NextStep",
    "PayloadChangeRequest",
    "RunHandle",
    "StepOutcome",
    "normalise_step",
]

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Continue:
    """The loop goes round once more. It carries no value: what the next round needs is in the payload."""

    @property
    def type(self) -> Literal["continue"]:
        """The contract's word for this outcome."""
        return "continue"


@dataclass(frozen=True, slots=True)
class Complete(Generic[Result]):
    """The run is done, and this is what it came to."""

    value: Result

    @property
    def type(self) -> Literal["complete"]:
        """The contract's word for this outcome."""
        return "complete"


StepOutcome: TypeAlias = Continue | Complete[Result]
"""What a step function of the CoreStep contract returns."""

STEPS: Final = (
    "Success",
    "Failed",
    "Retry",
    "Sub-Agent",
    "Actions",
    "Chat",
    "ForEach",
    "While",
    "ClientTools",
    "Skill",
    "Plan",
)
"""The kinds of step that the contract names, as it spells them."""


def _letters(word: str) -> str:
    return "".join(letter for letter in word.lower() if letter.isalnum())


# An "expand-message" is a Retry that has a messageIndex, and a "Pipeline" a Retry that has a pipeline: the original
# turns both words into Retry before it acts on them.
_STEP_OF_LETTERS: Final = {_letters(step): step for step in STEPS} | {"expandmessage": "Retry", "pipeline": "Retry"}


def normalise_step(word: str) -> str:
    """The contract's spelling of a step word: `sub-agent`, `subagent`, `SubAgent` → `Sub-Agent`.

    The set of words is open: one that is not known comes back as it is.
    """
    return _STEP_OF_LETTERS.get(_letters(word), word)


_SECTIONS: Final = {
    "new_elements": "newElements",
    "update_elements": "updateElements",
    "replace_elements": "replaceElements",
    "remove_elements": "removeElements",
}


class PayloadChangeRequest(Document):
    """How a round asks to change the payload (MemberJunction's AgentPayloadChangeRequest). All parts are optional.

    Attributes:
        new_elements: what to add, in the shape of the payload.
        update_elements: what to change, likewise; in an array, `{}` keeps the element at its place and
            `"__DELETE__"` removes it.
        replace_elements: what to replace whole.
        remove_elements: what to remove: `"__DELETE__"` in each place.
        reasoning: why.
    """

    new_elements: Any = None
    update_elements: Any = None
    replace_elements: Any = None
    remove_elements: Any = None
    reasoning: Any = None


class NextStep(Document):
    """The decision a round reached. Only `step` is required; every other field holds its contract's JSON.

    Attributes:
        step: the kind of step, one of `STEPS` or, the set being open, another word.
        terminate: whether the run ends after this step.
        reasoning, confidence: why, and how sure the model is (0 to 1).
        message: text for the user, or the question of a `Chat`.
        error_message, retry_reason, retry_instructions: of a `Failed` or a `Retry`.
        message_index, expand_reason: which compacted message to expand, and why (a `Retry`).
        payload_change_request: a `PayloadChangeRequest`, or its JSON.
        previous_payload, new_payload: the payload before and after, where a framework hands it on in its decisions.
        prior_step_result: what the step before gave.
        actions: tools to call: `[{name, params}]`.
        client_tools: tools to call at the client.
        artifact_tool_calls, conversation_tool_calls: reading tools that are called within the turn.
        pipeline: actions that feed each other: `{steps}`.
        sub_agent, sub_agents: agents to run: `{name, message, templateParameters?, terminateAfter}`.
        for_each, while_: loops, `while` in JSON.
        skill_activations: skills to load: `[{name, reason?}]`.
        plan_details: a plan to approve.
        scratchpad: what to note: `{notes?, taskList?: {upsert?, remove?}}`.
        memory_writes: what to remember: `[{type, note, …}]`.
        promote_media_outputs: media to show in the result.
        response_form: a form for the user's answer.
        actionable_commands, automatic_commands: commands for the user interface.
        terminate_after_execution: whether the run ends when the actions or sub-agents are done.
    """

    step: str
    terminate: Any = None
    terminate_after_execution: Any = None
    reasoning: Any = None
    confidence: Any = None
    message: Any = None
    error_message: Any = None
    retry_reason: Any = None
    retry_instructions: Any = None
    message_index: Any = None
    expand_reason: Any = None
    payload_change_request: Any = None
    previous_payload: Any = None
    new_payload: Any = None
    prior_step_result: Any = None
    actions: Any = None
    client_tools: Any = None
    artifact_tool_calls: Any = None
    conversation_tool_calls: Any = None
    pipeline: Any = None
    sub_agent: Any = None
    sub_agents: Any = None
    for_each: Any = None
    while_: Any = None
    skill_activations: Any = None
    plan_details: Any = None
    scratchpad: Any = None
    memory_writes: Any = None
    promote_media_outputs: Any = None
    response_form: Any = None
    actionable_commands: Any = None
    automatic_commands: Any = None

    @field_validator("step", mode="after")
    @classmethod
    def _spell_step(cls, word: str) -> str:
        return normalise_step(word)

    @field_validator("payload_change_request", mode="before")
    @classmethod
    def _spell_sections(cls, request: Any) -> Any:
        """A request written in Python may name its sections in snake_case; appliers know the contract's names."""
        if type(request) is not dict:
            return request
        spelled = {key: name for key, name in _SECTIONS.items() if key in request and name not in request}
        return {spelled.get(key, key): value for key, value in request.items()} if spelled else request

    @property
    def is_known(self) -> bool:
        """Whether `step` is a word of the contract; another one is kept, and is nothing to act upon."""
        return self.step in STEPS

    @property
    def change_request(self) -> Any:
        """The payload change request as JSON, the way an applier takes it, or None."""
        return self.document().get("payloadChangeRequest")
