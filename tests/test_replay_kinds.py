"""Of every kind of event and every field of it, whether a replay compares it: each is changed in a recording.

The code is the one that was recorded, and one field of one event of its log is another: what is compared makes the
replay part, and what is not is left to the fold, to people, or follows from what is compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import agentreplay as ar
import pytest
from agentreplay.recorder.events import EVENT_OF_KIND, Event
from agentreplay.recorder.memory_store import MemoryStore

# -- code that comes to every kind -----------------------------------------------------------------------


class Failed(Exception):
    """What a tool raises."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text, code)
        self.code = code


@ar.tool(safety="pure")
def fetch(page: str) -> str:
    """A tool that returns."""
    return page


@ar.tool(safety="pure", raises=(Failed,))
def fail(page: str) -> str:
    """A tool that fails."""
    raise Failed(page, 3)


@ar.model(model="m-1")
def ask(messages: list[dict[str, Any]], effort: str = "low") -> str:
    """A model that answers."""
    return messages[-1]["content"]


@ar.model(model="m-1", raises=(Failed,))
def refuse(question: str) -> str:
    """A model that fails."""
    raise Failed(question, 4)


@ar.tool(safety="pure")
def pages(count: int) -> Iterator[int]:
    """A stream."""
    yield from range(count)


@ar.tool(safety="pure")
async def slow(page: str) -> str:
    """A tool that is cancelled."""
    await asyncio.sleep(5)
    return page


@ar.agent("child")
def child(i: int, context: ar.Context) -> ar.Complete[str]:
    """A sub-agent."""
    context.change(new={"found": fetch("c")})
    return ar.Complete("done")


DECISION: Final[dict[str, Any]] = {
    "reasoning": "why not",
    "scratchpad": {"notes": "n"},
    "memoryWrites": [{"note": "m"}],
    "skillActivations": [{"name": "s"}],
    "planDetails": {"title": "p"},
    "promoteMediaOutputs": [{"ref": "x"}],
}


@ar.agent("all")
async def everything(i: int, context: ar.Context) -> Any:
    """One round with all of it, and one that fails."""
    if i == 2:
        raise Failed("the end", fetch("z") == "z")
    context.messages.append({"role": "user", "content": ask([{"role": "user", "content": "hm"}])})
    context.messages.replace([{"role": "user", "content": "short"}], 0, 1, why="trim")
    context.change(new={"page": fetch("a")}, reason="wanted")
    for failing in (lambda: fail("b"), lambda: refuse("b")):
        try:
            failing()
        except Failed as error:
            context.report(error.code)
    context.report("half way")
    context.event("x.seen", at=1)
    context.now()
    context.random.getrandbits(8)
    list(pages(2))
    try:
        async with asyncio.timeout(0.01):
            await slow("d")
    except TimeoutError:
        context.event("x.late", by=1)
    await context.run_agent(child, {}, upstream=["found"])
    context.decide(step="Actions", raw="{}", **DECISION)
    return ar.Continue()


@ar.agent("asks")
def asking(i: int, context: ar.Context) -> ar.Complete[Any]:
    """One that asks a person."""
    return ar.Complete([fetch("a"), context.interrupt("may it go?", {"to": "a"})])


# -- what becomes of each field --------------------------------------------------------------------------

TOLD: Final = "compared"
GIVEN: Final = "given to the code"
NOTED: Final = "noted"
ORDER: Final = "the order in which things reach the code"
DERIVED: Final = "follows from what is compared"
PEOPLE: Final = "for people: when, where, how long, how much"
SETTINGS: Final = "about the process or the settings, not about what the code does"
ANOTHER_WAY: Final = "another way to the same payload is no difference"
IMPORTED: Final = "filled by importers, whose runs have no code"
WORKFLOW: Final = "compared where a workflow visits its nodes; see the tests of these"
ELSEWHERE: Final = "of another process, or of a re-run; see the tests of these"

_ENDED: Final = {"call": DERIVED, "stream": GIVEN, "duration": PEOPLE, "inline": ORDER, "turns": ORDER, "turn": ORDER}

FIELDS: Final[dict[str, dict[str, str]]] = {
    "run.started": {
        "agent": SETTINGS,
        "input": GIVEN,
        "payload": GIVEN,
        "params": GIVEN,
        "payload_hash": DERIVED,
        **dict.fromkeys(
            ("entry_point", "origin", "source", "code", "python", "process", "redaction", "tags"), SETTINGS
        ),
        "applier": SETTINGS,
        "permissions": SETTINGS,
        "captured": GIVEN,
        "parent": DERIVED,
        "max_rounds": GIVEN,
        "logger": GIVEN,
        "agent_cache": GIVEN,
        "agent_cache_without": NOTED,
    },
    "run.forked": dict.fromkeys(EVENT_OF_KIND["run.forked"].model_fields["data"].annotation.model_fields, ELSEWHERE),
    "run.suspended": {"reason": DERIVED, "interrupts": DERIVED},
    "run.resumed": {"process": ELSEWHERE, "code": ELSEWHERE, "answers": GIVEN, "max_rounds": GIVEN},
    "run.finished": {
        "status": TOLD,
        "stop_reason": TOLD,
        "value": TOLD,
        "error": TOLD,
        "payload_hash": DERIVED,
        "result": DERIVED,
        "metrics": PEOPLE,
    },
    "writer.joined": dict.fromkeys(("writer", "entry_point", "process"), ELSEWHERE),
    "writer.left": dict.fromkeys(("writer", "error"), ELSEWHERE),
    "round.started": {},
    "round.finished": {"outcome": TOLD, "payload_hash": DERIVED, "duration": PEOPLE},
    "model.called": {
        "name": TOLD,
        "model": TOLD,
        "request": TOLD,
        "call": DERIVED,
        "attempt": PEOPLE,
        "parameters": IMPORTED,
    },
    "model.returned": {**_ENDED, "response": GIVEN, "usage": PEOPLE, "stop_reason": PEOPLE},
    "model.failed": {**_ENDED, "error": GIVEN},
    "tool.called": {
        "name": TOLD,
        "arguments": TOLD,
        "call": DERIVED,
        "attempt": PEOPLE,
        "safety": SETTINGS,
        "raw": IMPORTED,
        "tool_call": IMPORTED,
    },
    "tool.returned": {**_ENDED, "result": GIVEN},
    "tool.failed": {**_ENDED, "error": GIVEN},
    "call.cancelled": {"call": DERIVED, "turn": ORDER},
    "timer.fired": {"timer": ORDER, "delay": NOTED, "turn": ORDER},
    "value.read": {"source": TOLD, "what": TOLD, "arguments": TOLD, "value": GIVEN, "site": PEOPLE},
    "step.decided": {"decision": TOLD, "raw": TOLD},
    "payload.changed": {
        "reason": TOLD,
        "warnings": TOLD,
        "blocked": TOLD,
        "hash_before": DERIVED,
        "hash_after": DERIVED,
        **dict.fromkeys(("applier", "request", "applied_request", "source", "options", "correction"), ANOTHER_WAY),
        "counts": ANOTHER_WAY,
        "requires_feedback": DERIVED,
        "after_turn": ORDER,
    },
    "message.added": {"message": TOLD},
    "messages.replaced": {"start": TOLD, "stop": TOLD, "messages": TOLD, "why": TOLD},
    "scratchpad.changed": {"change": TOLD, "scratchpad": DERIVED},
    "memory.written": {"write": DERIVED},
    "skill.activated": {"skill": DERIVED},
    "plan.proposed": {"plan": DERIVED},
    "media.promoted": {"media": DERIVED},
    "interrupt.raised": {"name": TOLD, "reason": TOLD, "interrupt": DERIVED},
    "interrupt.answered": {"interrupt": GIVEN, "response": GIVEN},
    "subrun.started": {"name": TOLD, "run": DERIVED, "call": DERIVED, "turn": ORDER, "cancelled": TOLD},
    "subrun.finished": {
        "merge": TOLD,
        "run": DERIVED,
        "status": DERIVED,
        "result": DERIVED,
        "error": DERIVED,
        "turn": ORDER,
    },
    "report": {
        "source": TOLD,
        "level": TOLD,
        "message": TOLD,
        "content": TOLD,
        **dict.fromkeys(("node", "visit"), WORKFLOW),
    },
}


def fields_of(kind: str) -> list[str]:
    """The fields of a kind's data."""
    annotation: Any = EVENT_OF_KIND[kind].model_fields["data"].annotation
    return list(annotation.model_fields)


def test_of_every_field_it_is_known_whether_it_is_compared() -> None:
    """A new field has to be given its place here, and a comparison if it needs one."""
    assert {kind: sorted(fields) for kind, fields in FIELDS.items()} == {
        kind: sorted(fields_of(kind)) for kind in EVENT_OF_KIND
    }


# -- a recording in which one field is another ---------------------------------------------------------------


class Changed(MemoryStore):
    """Gives, of the first event of one kind, one field otherwise than it was recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.change: tuple[str, str] | None = None
        self.changed = 0

    def events(self, run: Any, *args: Any, **options: Any) -> Iterator[Event]:
        """The events, one of them changed."""
        for event in super().events(run, *args, **options):
            if self.change is not None and event.kind == self.change[0] and self.run(run).id == "run1":
                yield self._changed(event)
            else:
                yield event

    def _changed(self, event: Event) -> Event:
        assert self.change is not None
        value = getattr(event.data, self.change[1])
        if self.change[1] == "source" and event.kind == "report" and value != "report":
            return event
        self.changed += 1
        annotation = type(event.data).model_fields[self.change[1]].annotation
        changed = {self.change[1]: another({} if value is None and "dict" in str(annotation) else value)}
        return event.model_copy(update={"data": event.data.model_copy(update=changed)})


def another(value: Any) -> Any:
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}!"
        case dict():
            return {**value, "another": 1}
        case list():
            return [*value, {"another": 1}]
        case None:
            return "another"
    return value.model_copy(update={"message": f"{value.message}!"})  # an error


def run_of(agent: Any) -> Changed:
    """A store with a run of the agent."""
    store = Changed()
    if agent is asking:
        (question,) = agent.run({}, store=store).interrupts
        ar.resume("run1", agent, answers={question.id: "yes"}, store=store)
    else:
        with pytest.raises(Failed):
            asyncio.run(agent.arun({"n": 1}, store=store))
    return store


@pytest.fixture(scope="module")
def stores() -> dict[str, tuple[Any, Changed]]:
    """The agents, and stores with the runs, by the beginning of the kinds that they are for."""
    return {"interrupt": (asking, run_of(asking)), "": (everything, run_of(everything))}


COMPARED: Final = [(kind, field) for kind, fields in FIELDS.items() for field, what in fields.items() if what == TOLD]
NOT_COMPARED: Final = [
    (kind, field)
    for kind, fields in FIELDS.items()
    for field, what in fields.items()
    if what in (PEOPLE, SETTINGS, ANOTHER_WAY, IMPORTED, NOTED)
]


def replayed(stores: dict[str, tuple[Any, Changed]], kind: str, field: str) -> ar.ReplayResult:
    """Replay the run that has a kind, with a field of it changed."""
    agent, store = next(found for begins, found in stores.items() if kind.startswith(begins))
    store.change, store.changed = (kind, field), 0
    try:
        return ar.replay("run1", agent, store=store)
    finally:
        store.change = None
        assert store.changed


@pytest.mark.parametrize(("kind", "field"), COMPARED)
def test_what_is_compared_makes_a_replay_part(stores: dict[str, tuple[Any, Changed]], kind: str, field: str) -> None:
    """Another value in the recording is a divergence, though the code is the same."""
    with pytest.raises(ar.Divergence):
        replayed(stores, kind, field)


@pytest.mark.parametrize(("kind", "field"), NOT_COMPARED)
def test_what_is_not_compared_changes_nothing(stores: dict[str, tuple[Any, Changed]], kind: str, field: str) -> None:
    """A replay of the same code is identical whatever the recording says there."""
    assert replayed(stores, kind, field).verdict == "identical"


def test_the_code_comes_to_every_kind(stores: dict[str, tuple[Any, Changed]]) -> None:
    """But for those of other processes and of re-runs, which have tests of their own."""
    kinds = {event.kind for _, store in stores.values() for event in store.events("run1")}
    assert FIELDS.keys() - kinds == {"run.forked", "writer.joined", "writer.left", "interrupt.answered"}
