"""What a re-run changes: the payload, an answer, a parameter, the input, the conversation, a secret.

Edits take effect in the round from which the run goes its own way. They replace; none of them is merged. An answer that
was edited and never asked for is an error: what was meant did not happen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..recorder.decoding import decode_noting
from ..recorder.errors import UsageError
from ..recorder.payload import apply_change
from ..recorder.values import decode, encode
from .contradictions import by_pointer, refuse_contradictions
from .placing import placed


@dataclass(frozen=True, slots=True)
class Edits:
    """What is changed where a run is re-run.

    Attributes:
        set: JSON Pointer into the payload, as differences have it → value; created or replaced.
        patch: a JSON Patch for the payload, after `set`.
        tool_results, model_responses: id of a call in the first round that is re-run → what it gives.
        skip: ids of calls in it that are not made and give None.
        messages: added to the conversation.
        params: name → value.
        input: in a tuple; None leaves it.
        secrets: JSON Pointer into the payload → the secret that a token stands for there.
    """

    set: Mapping[str, Any] = field(default_factory=dict)
    patch: Sequence[Mapping[str, Any]] = ()
    tool_results: Mapping[str, Any] = field(default_factory=dict)
    model_responses: Mapping[str, Any] = field(default_factory=dict)
    skip: Sequence[str] = ()
    messages: Sequence[Any] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    input: tuple[Any] | None = None
    secrets: Mapping[str, Any] = field(default_factory=dict)

    @property
    def answers(self) -> dict[str, tuple[str, Any]]:
        """Call id → the kind of call that it must be, "" for any, and what it gives."""
        return {
            **dict.fromkeys(self.skip, ("", None)),
            **{call: ("tool", value) for call, value in self.tool_results.items()},
            **{call: ("model", value) for call, value in self.model_responses.items()},
        }

    def described(self) -> list[dict[str, Any]]:
        """The edits as the log of the re-run tells them; secrets by their place alone."""
        told: list[dict[str, Any]] = [{"edit": "set", "path": path, "value": value} for path, value in self.set.items()]
        if self.patch:
            told.append({"edit": "patch", "patch": [dict(operation) for operation in self.patch]})
        told += [{"edit": "tool result", "call": call, "value": value} for call, value in self.tool_results.items()]
        told += [{"edit": "model response", "call": c, "value": value} for c, value in self.model_responses.items()]
        told += [{"edit": "skip", "call": call} for call in self.skip]
        told += [{"edit": "message", "message": message} for message in self.messages]
        told += [{"edit": "param", "name": name, "value": value} for name, value in self.params.items()]
        if self.input is not None:
            told.append({"edit": "input", "value": self.input[0]})
        return told + [{"edit": "secret", "path": path} for path in self.secrets]

    @classmethod
    def from_log(cls, told: Sequence[Mapping[str, Any]]) -> Edits:
        """The edits that a log tells of. A secret is left out: where it was, its token stands."""
        by_kind: dict[str, list[Mapping[str, Any]]] = {}
        for one in told:
            by_kind.setdefault(one["edit"], []).append(one)
        inputs = by_kind.get("input", ())
        return cls(
            set={one["path"]: decode(one["value"]) for one in by_kind.get("set", ())},
            patch=[
                {key: decode(part) if key == "value" else part for key, part in operation.items()}
                for one in by_kind.get("patch", ())
                for operation in one["patch"]
            ],
            tool_results={one["call"]: _answer(one["value"]) for one in by_kind.get("tool result", ())},
            model_responses={one["call"]: _answer(one["value"]) for one in by_kind.get("model response", ())},
            skip=[one["call"] for one in by_kind.get("skip", ())],
            messages=[decode(one["message"]) for one in by_kind.get("message", ())],
            params={one["name"]: decode(one["value"]) for one in by_kind.get("param", ())},
            input=(decode(inputs[0]["value"]),) if inputs else None,
        )

    def apply(self, payload: Any, *, stored: bool = False) -> Any:
        """The payload as it is edited: what is `set`, then the patch, then the secrets. What is given is not changed.

        Args:
            payload: as it is before.
            stored: it is in stored form, and so is the result.

        Raises:
            UsageError: a place has nothing around it.
            ChangeRefused: the patch does not fit.
        """
        given: Callable[[Any], Any] = _in_stored_form if stored else lambda value: value

        def patched(patch: list[dict[str, Any]]) -> Any:
            return apply_change(payload, patch, "json-patch", stored=stored).result

        for path, value in self.set.items():
            payload = patched([placed(payload, path, given(value), stored=stored)])
        if self.patch:
            payload = patched(
                [{key: given(part) if key == "value" else part for key, part in one.items()} for one in self.patch]
            )
        for path, value in self.secrets.items():
            payload = patched([placed(payload, path, given(value), stored=stored)])
        return payload

    @property
    def touch_the_payload(self) -> bool:
        """Whether the payload is edited at all."""
        return bool(self.set or self.patch or self.secrets)


def _answer(stored: Any) -> Any:
    """An answer of which the class may not be registered; the call that it is for says which it is (`fitting`)."""
    return decode_noting(stored)[0] if type(stored) in (dict, list) else stored


def edits_of(
    *,
    set: Mapping[str, Any] | None = None,
    patch: Sequence[Mapping[str, Any]] | None = None,
    tool_results: Mapping[str, Any] | None = None,
    model_responses: Mapping[str, Any] | None = None,
    skip: Sequence[str] = (),
    messages: Sequence[Any] = (),
    params: Mapping[str, Any] | None = None,
    input: Any = ...,
    secrets: Mapping[str, Any] | None = None,
) -> Edits:
    """Edits as a caller gives them: places also in the form `order.items[0]`, and no input as `...`.

    Raises:
        UsageError: a place cannot be read, the patch is no list of operations, or `skip` is a text; or of some edits
            only one can take effect.
    """
    operations = [] if patch is None else patch
    if not isinstance(operations, list | tuple) or not all(isinstance(one, Mapping) for one in operations):
        raise UsageError('patch is a JSON Patch: a list of operations such as {"op": "remove", "path": "/draft"}')
    if isinstance(skip, str):
        raise UsageError(f"skip is a list of call ids, not one text; write [{skip!r}]")
    edits = Edits(
        set=by_pointer(set, "a value"),
        patch=operations,
        tool_results=tool_results or {},
        model_responses=model_responses or {},
        skip=skip,
        messages=messages,
        params=params or {},
        input=None if input is ... else (input,),
        secrets=by_pointer(secrets, "a secret"),
    )
    refuse_contradictions(edits)
    return edits


def _in_stored_form(value: Any) -> Any:
    return encode(value).stored
