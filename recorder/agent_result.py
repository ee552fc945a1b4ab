"""What a finished run returns: the AgentResult contract of the Strands agents.

`AgentResult` holds every field of the contract. `to_json()` is its public form: it leaves out what is large or alive
(traces, metrics, invocation context and state). `str()` is what a person wants to read of it.

Beside the contract a result knows the run that was recorded (`result.run.id`), the final payload, the value that
`Complete` carried, and the exception that ended it. These belong to the process, not to the document: they take no
part in equality and are never written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from pydantic import BaseModel, Field, PrivateAttr, field_validator

from .document import Document
from .errors import UsageError
from .values import encode

_NOT_PUBLIC: Final = ("traces", "metrics", "invocationContext", "invocationState")


class Interrupt(Document):
    """A question at which a run stopped, to be answered by a person.

    Attributes:
        id: names it within the run.
        name: what is asked, for programs.
        reason: what is asked, for people; any JSON.
        response: the answer, once there is one.
        source: where it was raised: `tool`, `hook`, ….
    """

    id: str
    name: str
    reason: Any = None
    response: Any = None
    source: Any = None


@dataclass(frozen=True, slots=True)
class RunHandle:
    """The names of a recorded run.

    Attributes:
        id: its number in this store, such as "run1"; a local alias.
        uid: its name everywhere.
    """

    id: str
    uid: str


class AgentResult(Document):
    """What a finished run returns.

    Attributes:
        type: always "agentResult".
        stop_reason: why the run stopped. An open set: `endTurn`, `toolUse`, `maxTokens`, `interrupt`, `cancelled`, ….
        last_message: the last message of the conversation: `{role, content: [block, …]}`.
        traces: what happened, as the framework timed it.
        structured_output: the value asked for by a schema.
        metrics: counts, usage and latencies.
        invocation_context, invocation_state: what the caller handed through; `{}` when no state was given.
        interrupts: the questions at which the run stopped: `Interrupt`s, or their JSON.
        checkpoint: where a paused run goes on.
    """

    type: str = "agentResult"
    stop_reason: str
    last_message: Any = None
    traces: Any = None
    structured_output: Any = None
    metrics: Any = None
    invocation_context: Any = None
    invocation_state: Any = Field(default_factory=dict)
    interrupts: Any = None
    checkpoint: Any = None

    _run: RunHandle | None = PrivateAttr(None)
    _payload: Any = PrivateAttr(None)
    _value: Any = PrivateAttr(None)
    _error: BaseException | None = PrivateAttr(None)

    @field_validator("invocation_state", mode="before")
    @classmethod
    def _state_is_never_null(cls, state: Any) -> Any:
        return {} if state is None else state

    @property
    def context_size(self) -> int | None:
        """Tokens in the context of the last model call; None without metrics."""
        return self._measured("latest_context_size", "latestContextSize")

    @property
    def projected_context_size(self) -> int | None:
        """Tokens the next model call would start with; None without metrics."""
        return self._measured("projected_context_size", "projectedContextSize")

    def _measured(self, attribute: str, key: str) -> int | None:
        if isinstance(self.metrics, Mapping):
            found = self.metrics.get(key, self.metrics.get(attribute))
        else:
            found = getattr(self.metrics, attribute, None)
        return found if isinstance(found, int) else None

    def document(self) -> dict[str, Any]:
        """Every field that was given, by its camelCase name, and `type` and `invocationState` in any case."""
        return {"type": self.type, **super().document(), "invocationState": self.invocation_state}

    def to_json(self) -> dict[str, Any]:
        """The public form: all but traces, metrics, invocation context and invocation state. `json.dumps` takes it.

        The context sizes, which are read from the metrics, are in it as far as there are any.
        """
        public = {key: value for key, value in self.document().items() if key not in _NOT_PUBLIC}
        sizes = {"contextSize": self.context_size, "projectedContextSize": self.projected_context_size}
        public |= {key: size for key, size in sizes.items() if size is not None}
        stored: dict[str, Any] = encode(public).stored
        return stored

    def __str__(self) -> str:
        """The interrupts as JSON if there are any; else the structured output as JSON; else the text of the message."""
        document = self.document()
        if self.interrupts:
            return _json_text(document["interrupts"])
        if self.structured_output is not None:
            return _json_text(document["structuredOutput"])
        return "\n".join(_texts_of_message(self.last_message))

    # -- what the process knows beside the document ----------------------------------------------------------------

    def attach(
        self,
        *,
        run: RunHandle | None = None,
        payload: Any = None,
        value: Any = None,
        error: BaseException | None = None,
    ) -> Self:
        """Tell the result what it came from. Returns the result itself; for the recorder."""
        self._run, self._payload, self._value, self._error = run, payload, value, error
        return self

    @property
    def run(self) -> RunHandle:
        """The recorded run.

        Raises:
            UsageError: the result was read from JSON or made by hand, so it came from no run of this store.
        """
        if self._run is None:
            raise UsageError("this result was not recorded here, so it has no run; open the store and name the run")
        return self._run

    @property
    def payload(self) -> Any:
        """The payload with which the run ended."""
        return self._payload

    @property
    def value(self) -> Any:
        """What `Complete` carried; None when the run did not complete."""
        return self._value

    @property
    def error(self) -> BaseException | None:
        """The exception that ended the run, or None."""
        return self._error


def _json_text(value: Any) -> str:
    """JSON for people: a model of the user's own as its plain data; what JSON lacks in tagged form."""
    if isinstance(value, BaseModel):
        return value.model_dump_json()
    return json.dumps(encode(value).stored, ensure_ascii=False, separators=(",", ":"))


def _texts_of_message(message: Any) -> Iterable[str]:
    content = message.get("content") if isinstance(message, Mapping) else message
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list | tuple) else ()
    return [text for block in blocks for text in _texts_of_block(block)]


_REASONING_KEYS: Final = ("reasoning", "reasoningContent", "reasoningText", "thinking")
_CITATIONS_KEYS: Final = ("citations", "citationsContent")


def _texts_of_block(block: Any) -> list[str]:
    """The texts of a text, reasoning or citations block, in any of the forms frameworks write; of others, none."""
    if isinstance(block, str):
        return [block]
    if not isinstance(block, Mapping):
        return []
    if isinstance(block.get("text"), str):
        return [block["text"]]
    for key in _REASONING_KEYS:
        if key in block:
            return _texts_of_block(block[key])
    if block.get("type") == "citationsBlock":
        return [text for part in block.get("content") or () for text in _texts_of_block(part)]
    for key in _CITATIONS_KEYS:
        if isinstance(cited := block.get(key), Mapping):
            return [text for part in cited.get("content") or () for text in _texts_of_block(part)]
    return []
