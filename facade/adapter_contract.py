"""What every adapter to a framework must do: tests for yours to inherit.

    from agentreplay.adapter_contract import AdapterContract, Script

    class TestMyFramework(AdapterContract):
        def app(self, script: Script, store):
            agent = MyAgent(model=…, tools=…)      # of the script; recorded into `store` unless that is None
            return lambda: agent.run(script.prompt)

A `Script` says what the model answers and what the tools do, and counts who is really asked. `app` puts the framework's
own agent around it. The laws then run it with the recorder and without, rebuild its states, replay it without a real
call, change it, and run it again from every model call. They need pytest for `tmp_path` only.

`docs/adapters.md` leads through an adapter.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, TypeAlias

from .recorder.errors import Divergence
from .recorder.events import Event
from .recorder.locate import open_store
from .recorder.store import EventStore
from .recorder.values import decode
from .replay.changes import Change
from .replay.difference import Asked, changes_asked_for
from .replay.reading import state_at
from .replay.replayer import replay
from .replay.rerunning import rerun

Write: TypeAlias = Callable[[str, Any], None]
"""Sets a key of the agent's state."""

SECRET: Final = "sk-proj-" + "Zk4" * 14
"""What no store may hold."""


@dataclass(frozen=True)
class Use:
    """That the model wants a tool called."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """What the model says: a text that ends the run, or tools to call before it is asked again."""

    text: str = ""
    uses: tuple[Use, ...] = ()


class Refused(ValueError):
    """What a tool of a script, or its model, raises."""


class Script:
    """What a model answers and what tools do.

    Args:
        answers: of the model, one after another; an exception is raised in the place of one.
        tools: name → what it does: `fn(write, **arguments)`, where `write(key, value)` sets a key of the agent's state.
        prompt: what the agent is asked.
        live: whether model and tools may be reached at all.

    Attributes:
        asked: what the model was really asked, as text, in order.
        called: the tools that were really called, in order.
    """

    def __init__(
        self,
        answers: Sequence[Answer | Exception],
        tools: Mapping[str, Callable[..., Any]],
        prompt: str = "Where is my parcel?",
        *,
        live: bool = True,
    ) -> None:
        self.answers = list(answers)
        self.tools = dict(tools)
        self.prompt = prompt
        self.live = live
        self.asked: list[str] = []
        self.called: list[str] = []

    def again(self, *, live: bool = True, prompt: str | None = None) -> Script:
        """The same script, of which nothing was asked yet."""
        return Script(self.answers, self.tools, self.prompt if prompt is None else prompt, live=live)

    def answer(self, before: int, request: object) -> Answer:
        """The model's answer; an adapter calls this in the place of the provider.

        Args:
            before: how many answers of the model the request holds already.
            request: what the provider would get.

        Raises:
            Exception: what the script says.
        """
        self._reached("the model")
        self.asked.append(str(request))
        found = self.answers[before]
        if isinstance(found, Exception):
            raise found
        return found

    def call(self, name: str, arguments: Mapping[str, Any], write: Write) -> Any:
        """What a tool gives; an adapter calls this as the body of the framework's tool."""
        self._reached(f"the tool {name}")
        self.called.append(name)
        return self.tools[name](write, **arguments)

    def _reached(self, what: str) -> None:
        assert self.live, f"{what} was reached, where everything is to be answered from the log"


def parcel() -> Script:
    """A run of four model calls: a lookup that writes to the state, two equal calls beside each other, a reply."""
    count = iter(range(1, 1_000))

    def find(write: Write, number: str) -> str:
        write("parcel", number)
        write("place", "depot")
        return f"{number} is in the depot"

    def draw(write: Write) -> str:
        return f"ticket {next(count)}"

    def note(write: Write, text: str) -> str:
        write("note", text)
        return "noted"

    return Script(
        [
            Answer(uses=(Use("find", {"number": "P-9"}),)),
            Answer(uses=(Use("draw"), Use("draw"))),
            Answer(uses=(Use("note", {"text": "called back"}),)),
            Answer("It left the depot."),
        ],
        {"find": find, "draw": draw, "note": note},
    )


STATES: Final[Sequence[Mapping[str, Any]]] = (
    {},
    {"parcel": "P-9", "place": "depot"},
    {"parcel": "P-9", "place": "depot"},
    {"parcel": "P-9", "place": "depot", "note": "called back"},
    {"parcel": "P-9", "place": "depot", "note": "called back"},
)
"""The agent's state after each round of `parcel`, the start first."""

ALLOWED: Final = ("find", "draw", "note")


class AdapterContract(ABC):
    """The laws of an adapter. Inherit from it in a class whose name begins with Test.

    Attributes:
        has_state: the framework keeps a state that tools write to, and the adapter records it as the payload.
        runs_tools_side_by_side: the framework calls several tools of one answer at the same time.
    """

    has_state: ClassVar[bool] = True
    runs_tools_side_by_side: ClassVar[bool] = True

    @abstractmethod
    def app(self, script: Script, store: EventStore | None) -> Callable[[], Any]:
        """The framework's agent around a script, as a function without arguments that runs it and gives its text.

        Args:
            script: its model is `script.answer`, its tools are `script.call`, it is asked `script.prompt`.
            store: where the adapter records; None for an agent without it.
        """

    # -- what is recorded ------------------------------------------------------------------------------

    def test_the_recorder_changes_nothing(self, tmp_path: Path) -> None:
        """The same text, the same requests to the model and the same tool calls, with the adapter and without."""
        bare, recorded = parcel(), parcel()
        text = self.app(bare, None)()
        assert self.app(recorded, _store(tmp_path))() == text
        assert [_any_ticket(one) for one in recorded.asked] == [_any_ticket(one) for one in bare.asked]
        assert sorted(recorded.called) == sorted(bare.called)

    def test_one_run_holds_each_call_once(self, tmp_path: Path) -> None:
        """A round begins with each model call; tools stand in it under their names, with what they were given."""
        store = _store(tmp_path)
        self.app(parcel(), store)()
        (info,) = store.runs()
        assert (info.status, info.steps) == ("completed", 4)
        called = [event for event in _events(store) if event.kind in ("model.called", "tool.called")]
        assert [(event.round, event.kind) for event in called] == [
            (1, "model.called"),
            (1, "tool.called"),
            (2, "model.called"),
            (2, "tool.called"),
            (2, "tool.called"),
            (3, "model.called"),
            (3, "tool.called"),
            (4, "model.called"),
        ]
        tools = [(one.data.name, dict(one.data.arguments)) for one in called if one.kind == "tool.called"]
        assert tools == [("find", {"number": "P-9"}), ("draw", {}), ("draw", {}), ("note", {"text": "called back"})]
        ended = [event for event in _events(store) if event.kind in ("model.returned", "tool.returned")]
        assert {event.data.call for event in ended} == {event.data.call for event in called}
        assert list(store.verify()) == []

    def test_requests_and_results_are_recorded_whole(self, tmp_path: Path) -> None:
        """What the model was asked holds the prompt and, later, what the tools gave."""
        store = _store(tmp_path)
        self.app(parcel(), store)()
        requests = [str(event.data.request) for event in _events(store) if event.kind == "model.called"]
        assert all("Where is my parcel?" in request for request in requests)
        assert ["P-9 is in the depot" in request for request in requests] == [False, True, True, True]
        assert ["ticket 2" in request for request in requests] == [False, False, True, True]
        results = [str(decode(event.data.result)) for event in _events(store) if event.kind == "tool.returned"]
        for text in ("P-9 is in the depot", "ticket 1", "ticket 2", "noted"):
            assert sum(text in result for result in results) == 1, f"{text!r} is not in one result of {results}"

    def test_states_are_rebuilt_and_each_change_names_its_call(self, tmp_path: Path) -> None:
        """The state after each round is what the agent had then; a change was made by the tool that made it."""
        if not self.has_state:
            return
        store = _store(tmp_path)
        self.app(parcel(), store)()
        assert [state_at("run1", step, store).payload for step in range(5)] == list(STATES)
        names = {event.data.call: event.data.name for event in _events(store) if event.kind == "tool.called"}
        blamed = {
            change.path: names.get(change.cause.call or "") if change.cause else None
            for step in (1, 3)
            for change in changes_of(step, store)
        }
        assert blamed == {"/parcel": "find", "/place": "find", "/note": "note"}

    def test_secrets_reach_no_store(self, tmp_path: Path) -> None:
        """One that a tool is given, and one that it gives, are replaced before anything is written."""

        def find(write: Write, api_key: str) -> str:
            return f"opened with {api_key}"

        store = _store(tmp_path)
        script = Script([Answer(uses=(Use("find", {"api_key": SECRET}),)), Answer("done")], {"find": find})
        self.app(script, store)()
        store.close()
        written = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
        assert SECRET.encode() not in written
        assert script.called == ["find"]

    def test_what_a_run_was_asked_is_its_input(self, tmp_path: Path) -> None:
        """The prompt is in `run.started`: by it a person finds the run, and a program begins it again."""
        store = _store(tmp_path)
        self.app(parcel(), store)()
        (started,) = [event for event in _events(store) if event.kind == "run.started"]
        assert "Where is my parcel?" in str(started.data.input), "the run has no input that holds the prompt"

    # -- replay ----------------------------------------------------------------------------------------

    def test_a_replay_reaches_nothing_and_is_identical(self, tmp_path: Path) -> None:
        """Model and tools are answered from the log, whatever they would answer now."""
        store = _store(tmp_path)
        self.app(parcel(), store)()
        script = parcel().again(live=False)
        found = replay("run1", self.app(script, store), store=store)
        assert found.verdict == "identical"
        assert (found.coverage.live, found.coverage.unused) == (0, 0)
        assert found.coverage.recorded >= 8, "the four model calls and the four tool calls, and what else was recorded"
        assert (script.asked, script.called) == ([], [])
        assert [info.id for info in store.runs()] == ["run1"]

    def test_another_prompt_is_a_divergence_in_the_first_step(self, tmp_path: Path) -> None:
        """A replay that says nothing about it would be worth nothing."""
        store = _store(tmp_path)
        self.app(parcel(), store)()
        other = self.app(parcel().again(prompt="Who are you?", live=False), store)
        parted = _divergence(lambda: replay("run1", other, store=store))
        assert parted is not None, "the replay did not notice that the agent is asked something else"
        assert parted.step in (0, 1)

    def test_tools_side_by_side_replay_in_their_order(self, tmp_path: Path) -> None:
        """Three that come back in another order than they were asked, and each writes: nothing is mixed up."""
        if not self.runs_tools_side_by_side:
            return
        order: list[str] = []
        lock = threading.Lock()

        def slow(write: Write, name: str, seconds: float) -> str:
            time.sleep(seconds)
            with lock:
                order.append(name)
            write(name, seconds)
            return f"{name} done"

        waits = {"a": 0.2, "b": 0.1, "c": 0.0}
        uses = tuple(Use("slow", {"name": name, "seconds": wait}) for name, wait in waits.items())
        script = Script([Answer(uses=uses), Answer("all done")], {"slow": slow})
        store = _store(tmp_path)
        self.app(script, store)()
        assert sorted(order) == ["a", "b", "c"]
        if self.has_state:
            assert state_at("run1", 1, store).payload == waits
            arguments = {e.data.call: e.data.arguments for e in _events(store) if e.kind == "tool.called"}
            for change in changes_of(1, store):
                assert change.cause is not None
                assert change.path == "/" + arguments[change.cause.call]["name"]
        assert replay("run1", self.app(script.again(live=False), store), store=store).verdict == "identical"

    # -- errors ----------------------------------------------------------------------------------------

    def test_a_tool_that_raises_is_recorded_and_replays(self, tmp_path: Path) -> None:
        """Whatever the framework makes of it, it makes the same with the adapter, and in a replay.

        What the model is asked next tells that of an error from a result with the error's text, where it is told apart.
        """

        def find(write: Write, number: str) -> str:
            raise Refused(f"there is no {number}")

        script = Script([Answer(uses=(Use("find", {"number": "P-0"}),)), Answer("not found")], {"find": find})
        store, recorded = _store(tmp_path), script.again()
        expected = _outcome(self.app(script, None))
        assert _outcome(self.app(recorded, store)) == expected
        assert (recorded.asked, recorded.called) == (script.asked, script.called)
        (failed,) = [event for event in _events(store) if event.kind == "tool.failed"]
        assert failed.data.error.type.endswith("Refused")
        assert failed.data.error.message == "there is no P-0"
        assert replay("run1", self.app(script.again(live=False), store), store=store).verdict == "identical"

    def test_a_model_that_raises_is_recorded_and_replays(self, tmp_path: Path) -> None:
        """In its first call and in a later one."""
        for at in range(2):
            answers: list[Answer | Exception] = [Answer(uses=(Use("draw"),)), Answer("done")]
            answers[at] = Refused("the provider is down")
            script = Script(answers, {"draw": lambda write: "ticket"})
            store, recorded = _store(tmp_path / str(at)), script.again()
            expected = _outcome(self.app(script, None))
            assert _outcome(self.app(recorded, store)) == expected
            assert (recorded.asked, recorded.called) == (script.asked, script.called)
            failed = [event for event in _events(store) if event.kind == "model.failed"]
            assert failed, "the error of the model is in no event"
            assert failed[0].data.error.message == "the provider is down"
            assert store.run("run1").status == "failed"
            assert replay("run1", self.app(script.again(live=False), store), store=store).verdict == "identical"

    # -- forks -----------------------------------------------------------------------------------------

    def test_a_run_is_run_again_from_every_model_call(self, tmp_path: Path) -> None:
        """What was before is answered from the log, what comes after is live; the recorded run is left as it is."""
        store = _store(tmp_path)
        text = self.app(parcel(), store)()
        head = store.run("run1").head_hash
        tools: tuple[list[str], ...] = (["find"], ["draw", "draw"], ["note"], [])
        for step in range(1, 5):
            script = parcel()
            result = rerun("run1", self.app(script, store), step, allow=ALLOWED, store=store)
            assert len(script.asked) == 5 - step
            assert script.called == [name for names in tools[step - 1 :] for name in names]
            child = store.run(result.run.id)
            assert (child.status, child.fork_of) == ("completed", store.run("run1").uid)
            if self.has_state:
                assert state_at(child, -1, store).payload == STATES[-1]
        assert store.run("run1").head_hash == head
        assert str(text)
        assert list(store.verify()) == []

    def test_an_edited_tool_result_reaches_the_model_and_not_the_tool(self, tmp_path: Path) -> None:
        """The tool is not called; the next request holds what was given in its place."""
        store = _store(tmp_path)
        self.app(parcel(), store)()
        (call,) = [e.data.call for e in _events(store) if e.kind == "tool.called" and e.data.name == "find"]
        script = parcel()
        rerun("run1", self.app(script, store), 1, tool_results={call: "P-9 was stolen"}, allow=ALLOWED, store=store)
        assert "find" not in script.called
        assert "P-9 was stolen" in script.asked[1]
        assert "is in the depot" not in script.asked[1]


def _store(folder: Path) -> EventStore:
    folder.mkdir(parents=True, exist_ok=True)
    return open_store(str(folder / "store.db"))


def changes_of(step: int, store: EventStore) -> Iterator[Change]:
    """The changes of the payload in a step, each with the event that made it as its cause."""
    return iter(changes_asked_for(store, Asked("run1", step=step)).changes)


def _events(store: EventStore) -> list[Event]:
    return list(store.events("run1"))


def _any_ticket(request: str) -> str:
    """A request without what says which of two equal calls was the first; beside each other either may be."""
    return request.replace("ticket 2", "ticket 1")


def _outcome(run: Callable[[], Any]) -> tuple[str, str]:
    """What a run gave, or what it raised, as far as it is the same each time."""
    try:
        return "gave", str(run())
    except Exception as error:
        return "raised", type(error).__name__


def _divergence(run: Callable[[], Any]) -> Divergence | None:
    try:
        run()
    except Divergence as parted:
        return parted
    return None


__all__ = ["AdapterContract", "Answer", "Refused", "Script", "Use", "Write", "parcel"]
