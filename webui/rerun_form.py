"""The form of a re-run: the texts that somebody edits, and what they ask for.

Every field holds JSON in stored form (`edited_json`), beginning with what was recorded. A field that was not touched
asks for nothing. What is wrong with one is said beside it, while it is typed, and nothing runs until all can be read.

The form is plain: it works without a script, by sending itself back with one more field opened (`do`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from werkzeug.datastructures import MultiDict

from ..recorder.errors import UsageError
from ..recorder.values import is_tag
from ..replay.changes import MISSING, Changes
from ..replay.places import place_of
from ..replay.readable import readable
from ..replay.rerun_request import PREFIXES, RerunRequest
from .edited_json import changes_to, edits_of, read_json, stored_of, text_of

EDITABLE: Final = 200_000
"""Characters of JSON that are edited in one piece; of a larger payload a part is chosen."""

OPEN: Final = 4_000
"""Characters of a recorded answer that comes along with the form; a larger one is loaded when it is edited."""

OPEN_IN_ALL: Final = 60_000

SHOWN: Final = 300
"""Characters of a value that is told as a whole."""

MESSAGES: Final = 20
"""Messages that can be added in the form."""

ROLES: Final = ("user", "system", "assistant", "json")
"""Whose a message is; or it is JSON as a whole."""

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class StepCall:
    """A call of the step, whose answer may be given.

    Attributes:
        call, kind, name, status: as recorded.
        arguments: in a line.
        given: what it gave, in stored form; `MISSING` if it gave nothing, or that is not at hand here.
        end_seq: the event that has its answer, or None.
        shown: the answer, or what it failed with, in a line.
    """

    call: str
    kind: str
    name: str
    status: str
    arguments: str
    shown: str
    given: Any = MISSING
    end_seq: int | None = None


@dataclass(frozen=True, slots=True)
class Base:
    """What is edited, in stored form: the state before the step, and the calls of the step."""

    payload: Any
    params: Mapping[str, Any]
    input: Any
    calls: tuple[StepCall, ...]


@dataclass(slots=True)
class Draft:
    """The form as it stands.

    Attributes:
        at: JSON Pointer of the part of the payload that is edited.
        payload, params, input: texts; None where the form does not have them.
        ways: call id → "live", "answer" or "skip". `answers` are the texts of answers.
        messages: whose, and the text.
        allow, reuse, prefix, compensate: as for a re-run.
        ignore: rules, one a line.
    """

    at: str = ""
    payload: str | None = None
    params: str | None = None
    input: str | None = None
    ways: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    messages: list[tuple[str, str]] = field(default_factory=list)
    allow: list[str] = field(default_factory=list)
    reuse: bool = False
    prefix: str = "execute"
    compensate: bool = False
    ignore: str = ""


def draft_of(form: MultiDict[str, str]) -> Draft:
    """The form that was sent."""
    texts = [text.replace("\r\n", "\n") for text in form.getlist("message")]
    roles = form.getlist("role")
    return Draft(
        at=form.get("at", ""),
        payload=form.get("payload"),
        params=form.get("params"),
        input=form.get("input"),
        ways={name.removeprefix("way:"): form[name] for name in form if name.startswith("way:")},
        answers={name.removeprefix("answer:"): form[name] for name in form if name.startswith("answer:")},
        messages=[(role, text) for role, text in zip(roles, texts, strict=False)][:MESSAGES],
        allow=form.getlist("allow"),
        reuse="reuse" in form,
        prefix=form.get("prefix", "execute"),
        compensate="compensate" in form,
        ignore=form.get("ignore", "").replace("\r\n", "\n"),
    )


def fresh_draft(base: Base, at: str = "") -> Draft:
    """The form before anything is edited, for a part of the payload.

    Raises:
        UsageError: the payload has no such part.
    """
    part = part_of(base, at)
    return Draft(
        at=at,
        payload=_if_small(part),
        params=_if_small(dict(base.params)),
        input=_if_small(base.input),
        answers=dict(_small_answers(base)),
        messages=[("user", "")],
    )


def part_of(base: Base, at: str) -> Any:
    """The part of the payload that is edited, in stored form.

    Raises:
        UsageError: there is none.
    """
    place = place_of(at, base.payload)
    if place is None:
        raise UsageError(f"the payload has nothing at {at[:200]} that can be edited before this step")
    return place.nodes[-1]


def _if_small(stored: Any) -> str | None:
    text = text_of(stored)
    return text if len(text) <= EDITABLE else None


def _small_answers(base: Base) -> Iterator[tuple[str, str]]:
    room = OPEN_IN_ALL
    for call in base.calls:
        text = text_of(call.given) if call.given is not MISSING else ""
        if text and len(text) <= OPEN and room >= len(text):
            room -= len(text)
            yield call.call, text


# -- reading ----------------------------------------------------------------------------------------------------------


def _json(text: str) -> Any:
    return stored_of(read_json(text))


@dataclass(frozen=True, slots=True)
class Edited:
    """An edit, besides those of the payload, for the eye: what it changes, or, if nothing stood before, what it is.

    Attributes:
        whole: what a change of all of it is said to be a change of.
    """

    title: str
    changes: Changes = field(default_factory=Changes)
    text: str = ""
    whole: str = ""


@dataclass(slots=True)
class Asked:
    """What the form asks for.

    Attributes:
        request: what could be read.
        errors: field → what is wrong with it: "payload", "params", "input", "answer:7.2", "message:0" or "ignore".
        edits: those besides the payload's, for the eye.
    """

    request: RerunRequest
    errors: dict[str, str]
    edits: list[Edited]


def read(draft: Draft, base: Base) -> Asked:
    """What a form asks for; what cannot be read is told by field.

    Raises:
        UsageError: the form itself is not one of ours.
    """
    return _Reader(draft, base).read()


class _Reader:
    def __init__(self, draft: Draft, base: Base) -> None:
        self.draft, self.base = draft, base
        self.errors: dict[str, str] = {}
        self.edits: list[Edited] = []

    def read(self) -> Asked:
        draft = self.draft
        if draft.prefix not in PREFIXES:
            raise UsageError(f"prefix is one of {', '.join(PREFIXES)}, not {draft.prefix[:40]!r}")
        found: dict[str, Any] = {
            **(self._try("payload", self._payload) or {}),
            "params": self._try("params", self._params) or None,
            "messages": list(self._messages()),
            "allow": list(dict.fromkeys(draft.allow)),
            "reuse": draft.reuse,
            "prefix": draft.prefix,
            "compensate": draft.compensate,
            "ignore": [line.strip() for line in draft.ignore.split("\n") if line.strip()],
        }
        changed = self._try("input", self._input)
        if changed is not None:
            found["input"] = changed[0]
        found |= self._calls()
        kept = {name: value for name, value in found.items() if value is not None}
        return Asked(RerunRequest.from_json(kept), self.errors, self.edits)

    def _try(self, name: str, act: Callable[[], Read]) -> Read | None:
        try:
            return act()
        except UsageError as error:
            self.errors[name] = str(error)
            return None

    def _payload(self) -> dict[str, Any]:
        if self.draft.payload is None:
            return {}
        part, at = part_of(self.base, self.draft.at), self.draft.at
        changes = changes_to(part, self.draft.payload)
        places, patch = edits_of(changes, self.draft.payload, at, self.base.payload)
        return {"set": places or None, "patch": patch or None}

    def _params(self) -> dict[str, Any]:
        if self.draft.params is None:
            return {}
        before = dict(self.base.params)
        changes = changes_to(before, self.draft.params)
        edited = read_json(self.draft.params)
        if type(edited) is not dict or is_tag(edited):
            raise UsageError('parameters are an object: {"name": value}')
        gone = [change for change in changes if change.kind == "remove" and len(change.keys) == 1]
        if gone:
            raise UsageError(
                f"{gone[0].display[:80]} is missing: a parameter stays unless it gets another value, or null"
            )
        self._row("parameters", changes)
        names = dict.fromkeys(change.keys[0] for change in changes if change.keys)
        return {str(name): stored_of(edited[name]) for name in names}

    def _input(self) -> tuple[Any] | None:
        if self.draft.input is None:
            return None
        changes = changes_to(self.base.input, self.draft.input)
        self._row("input", changes)
        return (_json(self.draft.input),) if changes else None

    def _calls(self) -> dict[str, Any]:
        answers: dict[str, dict[str, Any]] = {"tool_results": {}, "model_responses": {}}
        skipped = []
        known = {call.call: call for call in self.base.calls}
        for name, way in self.draft.ways.items():
            if way not in ("live", "answer", "skip"):
                raise UsageError(f"a call is made live, answered or skipped, not {way[:40]!r}")
            if way == "live":
                continue
            if name not in known:
                raise UsageError(f"this step has no call {name[:60]}")
            call = known[name]
            if way == "skip":
                skipped.append(name)
                self.edits.append(Edited(f"{call.kind} {call.name}", text="is not made, and gives null"))
                continue
            text = self.draft.answers.get(name, "")
            stored = self._try(f"answer:{name}", partial(self._answer, call, text))
            if f"answer:{name}" not in self.errors:
                answers["tool_results" if call.kind == "tool" else "model_responses"][name] = stored
        return {**answers, "skip": skipped}

    def _answer(self, call: StepCall, text: str) -> Any:
        stored = _json(text)
        title = f"answer of {call.kind} {call.name}"
        changes = changes_to(call.given, text) if call.given is not MISSING else Changes()
        shown = readable(stored, SHOWN) if call.given is MISSING else "as recorded; the call is not made"
        self.edits.append(Edited(title, changes, "" if changes else shown, "answer"))
        return stored

    def _messages(self) -> Iterator[Any]:
        for at, (role, text) in enumerate(self.draft.messages):
            if role not in ROLES:
                raise UsageError(f"a message is of {', '.join(ROLES)}, not of {role[:40]!r}")
            if not text.strip():
                continue
            name = f"message:{at}"
            if role == "json":
                stored = self._try(name, partial(_json, text))
            else:
                stored = stored_of({"role": role, "content": text})
            if name not in self.errors:
                self.edits.append(Edited("added message", text=readable(stored, SHOWN)))
                yield stored

    def _row(self, title: str, changes: Changes) -> None:
        if changes:
            self.edits.append(Edited(title, changes, whole=title))
