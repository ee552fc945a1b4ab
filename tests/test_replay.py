"""A recorded run is executed again, offline, and comes to the same; and nothing is ever called that is not recorded."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import agentreplay as ar
import pytest
import replay_agents
import world
from agentreplay.recorder.errors import Divergence, UsageError
from agentreplay.recorder.loop import Agent
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.sql_store import SqlStore
from agentreplay.recorder.store import EventStore
from agentreplay.recorder.values import encode
from agentreplay.replay.recorded_run import RecordedRun
from agentreplay.replay.replayer import replay
from journal import Journal
from recorded import log_of

EXAMPLES = Path(__file__).parent.parent / "examples"

START: dict[str, Any] = {"desk": {"left": 0}}

LOOPS: list[str] = ["triage", "plain_loop"]

AGENTS = [
    "desk",
    "nested",
    "chief",
    "gate",
    "falls",
    "endless",
    "stopped",
    "fleet",
    "ticker",
    "counting",
    "clerk",
    "caching",
    *LOOPS,
]


def agent_of(name: str) -> Any:
    """An agent or a loop, as it is before it ran."""
    made = {"counting": replay_agents.counting, "caching": replay_agents.caching}
    if name == "clerk":
        return replay_agents.Clerk().step
    return made[name]() if name in made else getattr(replay_agents, name)


def recorded(agent: Any, payload: Any = None, store: EventStore | None = None) -> EventStore:
    """A store with a run of an agent or of a loop, whatever it ended with."""
    store = MemoryStore() if store is None else store
    with contextlib.suppress(ValueError):
        agent.run(payload, store=store) if isinstance(agent, Agent) else agent(store)
    return store


@pytest.fixture
def did(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, str, Any]]:
    """What replayed code does, as it is met in the recording: run, round, kind and data of each event."""
    seen: list[tuple[str, int, str, Any]] = []
    meets = RecordedRun.meets

    def watched(self: RecordedRun, kind: str, data: Any, round: int, scope: Any) -> bool:
        seen.append((self.info.id, round, kind, data))
        return meets(self, kind, data, round, scope)

    monkeypatch.setattr(RecordedRun, "meets", watched)
    return seen


def decisions_and_payloads(store: EventStore) -> list[Any]:
    """What all runs of a store decided, their payload after each round, and how they ended."""
    told = []
    for info in store.runs():
        for event in log_of(store, info.id):
            told += said(info.id, event.round, event.kind, event.data)
    return sorted(told, key=lambda one: one[0])


def said(run: str, round: int, kind: str, data: Any) -> list[Any]:
    if kind == "step.decided":
        return [(run, round, {**data.decision})]
    if kind == "round.finished":
        return [(run, round, data.outcome, data.payload_hash)]
    if kind == "run.finished":
        error = None if data.error is None else (data.error.type, data.error.message)
        return [(run, round, data.status, data.stop_reason, error, data.payload_hash, data.result, data.metrics)]
    return []


@pytest.mark.parametrize("name", AGENTS)
def test_a_recorded_run_is_executed_again_offline(name: str, did: list[Any]) -> None:
    """No effect is made and nothing written; decisions, payloads after each round, result and metrics are the same."""
    store = recorded(agent_of(name), START.get(name, {}))
    before = [(info.id, info.head_hash) for info in store.runs()]
    result = None
    with world.closed() as made:
        result = replay("run1", agent_of(name), store=store)
    assert made == []
    assert (result.run, result.verdict, result.divergences, result.complete) == ("run1", "identical", (), True)
    assert [(info.id, info.head_hash) for info in store.runs()] == before
    again = sorted([one for event in did for one in said(*event)], key=lambda one: one[0])
    assert again == decisions_and_payloads(store)
    finished = log_of(store, "run1")[-1]
    if result.result is not None and finished.kind == "run.finished":
        assert encode(result.result.document()).stored == finished.data.result
    assert (result.coverage.live, result.coverage.uncaptured, result.coverage.unused) == (0, 0, 0)
    assert result.coverage.recorded > 0


def test_the_agent_gets_objects_of_the_recorded_types() -> None:
    """A data class, a model's response, an exception, what a generator gives and returns, a time: of the same types."""
    got: list[Any] = []

    @ar.agent("witness")
    def step(round_index: int, context: ar.Context) -> Any:
        got.append(replay_agents.lookup("W-1"))
        got.append(replay_agents.ask([{"role": "user", "content": "?"}]))
        try:
            replay_agents.stock("bulb")
        except replay_agents.SoldOut as error:
            got.append((type(error), error.sku, error.args))
        pages = replay_agents.pages("x")
        while True:
            try:
                got.append(next(pages))
            except StopIteration as stop:
                got.append(stop.value)
                break
        got.extend([context.now(), context.uuid4(), context.random.random(), context.random.getrandbits(70)])
        got.append(context.read("money", lambda: Decimal("1.20")))
        got.append(context.input)
        got.append(dict(context.payload))
        return ar.Complete(got[0])

    store = MemoryStore()
    step.run({"at": Decimal("1.0"), 7: (1, 2)}, input={"a": {1, 2}}, store=store)
    first, got[:] = list(got), []
    with world.closed() as made:
        result = replay("run1", step, store=store)
    assert made == []
    assert got == first
    assert list(map(type, got)) == list(map(type, first))
    assert [type(got[0].total), type(got[0].lines), type(got[0].lines[0])] == [Decimal, tuple, str]
    assert result.result is not None
    assert result.result.value == replay_agents.Order("W-1", Decimal("12.50"), ("lamp", "bulb"))


@ar.tool(safety="pure")
def draft(context: ar.Context) -> str:
    """A tool that works on the run's state itself, and calls another one that does."""
    world.touch("draft")
    context.change(update={"drafts": [*context.payload["drafts"], "first"]})
    context.messages.append({"role": "user", "content": "drafting"})
    revise(context)
    context.change(update={"drafts": [*context.payload["drafts"], Decimal("3.0")]})
    context.messages.replace([{"role": "user", "content": "drafted"}], why="compaction")
    return "done"


@ar.tool(safety="pure")
def revise(context: ar.Context) -> None:
    context.change(merge={"revised": True})
    context.decide(step="Actions", scratchpad={"notes": "revised"})


def test_what_a_tool_changed_is_changed_again() -> None:
    """The tool is not called, but what it did to the payload, the conversation and the notes is there afterwards."""
    seen: list[Any] = []

    @ar.agent("author")
    def step(round_index: int, context: ar.Context) -> Any:
        seen.append(draft_in(context))
        seen.append([dict(context.payload), list(context.messages), dict(context.scratchpad)])
        return ar.Complete(1) if round_index == 2 else ar.Continue()

    def draft_in(context: ar.Context) -> str:
        tool = ar.wrap(lambda: draft(context), kind="tool", name="drafting", safety="pure")
        return str(tool())

    store = MemoryStore()
    step.run({"drafts": []}, store=store)
    first, seen[:] = list(seen), []
    assert first[-1][0]["drafts"] == ["first", Decimal("3.0")] * 2
    with world.closed() as made:
        result = replay("run1", step, store=store)
    assert (made, result.verdict, result.complete) == ([], "identical", True)
    assert seen == first


def test_an_error_that_ends_the_run_is_raised_again_and_compared() -> None:
    """A tool's own exception that nobody catches ends the replay as it ended the run, and goes no further."""

    @ar.agent("unlucky")
    def step(round_index: int, context: ar.Context) -> Any:
        seen.append("here")
        return ar.Complete(replay_agents.stock("bulb"))

    seen: list[str] = []
    store = MemoryStore()
    with pytest.raises(replay_agents.SoldOut):
        step.run(store=store)
    with world.closed() as made:
        result = replay("run1", step, store=store)
    assert (made, seen) == ([], ["here", "here"])
    assert (result.verdict, result.complete, result.result) == ("identical", True, None)


@pytest.fixture
def refunds(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module("refunds")
    del sys.modules["refunds"]


@pytest.mark.parametrize("coupon", [True, False], ids=["it fails", "it completes"])
def test_the_example_is_executed_again_offline(refunds: ModuleType, coupon: bool, did: list[Any]) -> None:
    """The run of `examples/refunds.py`, with its sub-agent, its error and without: none of its effects is made."""
    store = MemoryStore()
    if not coupon:
        refunds.ORDERS["A-17"]["coupon"] = None
    refunds.step.run(refunds.START, store=store)
    assert store.run("run1").status == ("failed" if coupon else "completed")
    with world.closed(refunds) as made:
        result = replay("run1", refunds.step, store=store)
    assert made == []
    assert (result.verdict, result.complete) == ("identical", True)
    again = sorted([one for event in did for one in said(*event)], key=lambda one: one[0])
    assert again == decisions_and_payloads(store)
    assert result.coverage.to_json() == {"recorded": 15, "live": 0, "uncaptured": 0, "unused": 0}
    assert len(store.runs()) == 2


def test_a_changed_example_is_told_from_the_recorded_one(refunds: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the mistake of step 7 is corrected, the script of the model is no effect, and the prefix diverges there."""
    store = MemoryStore()
    refunds.step.run(refunds.START, store=store)
    consult = refunds.consult

    def corrected(context: ar.Context, instruction: str) -> dict[str, Any]:
        decision = consult(context, instruction)
        if context.round == 7 and context.payload.get("totals_checked") is None and "refund" in context.payload:
            del decision["payloadChangeRequest"]["updateElements"]
        return dict(decision)

    monkeypatch.setattr(refunds, "consult", corrected)
    with world.closed(refunds) as made, pytest.raises(Divergence) as caught:
        replay("run1", refunds.step, store=store)
    assert made == []
    found = caught.value.difference
    assert (found.step, found.kind, found.path) == (7, "another decision", "/payloadChangeRequest/updateElements")


# -- nothing is called that is not recorded --------------------------------------------------------------


@ar.agent("one_call")
def one_call(round_index: int, context: ar.Context) -> Any:
    return ar.Complete(replay_agents.stock("lamp"))


def and_more(more: Callable[[], Any]) -> Callable[[], Any]:
    """The agent, run by code that does more beside it."""

    def code() -> Any:
        more()
        return one_call.run()

    return code


def in_a_thread(work: Callable[[], Any]) -> Callable[[], Any]:
    def code() -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    return code


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (lambda: replay_agents.stock("lamp"), "tool stock is called outside of the run"),
        (lambda: list(replay_agents.pages("lamp")), "tool pages is called outside of the run"),
        (lambda: one_call.run(), "the code begins a second run, 'one_call', after run1"),
        (lambda: replay_agents.desk.run(), "run1 is a run of 'one_call', but this code begins a run of 'desk'"),
        (lambda: replay_agents.triage(), "run1 is a run of 'one_call', but this code begins a run of 'triage'"),
    ],
)
def test_nothing_outside_of_the_run_is_called(more: Callable[[], Any], says: str) -> None:
    """What the code does before or beside the run was not recorded; it stops there, whatever it makes of that."""
    store = recorded(one_call)

    def swallowing() -> None:
        with contextlib.suppress(BaseException):
            more()

    for code in (and_more(more), and_more(swallowing)):
        with world.closed() as made, pytest.raises(UsageError) as caught:
            replay("run1", code, store=store)
        assert made == []
        assert says in str(caught.value)


def test_nothing_is_called_after_the_run() -> None:
    """A call after the end of the run is as much outside as one before."""
    store = recorded(one_call)

    def code() -> None:
        one_call.run()
        replay_agents.stock("lamp")

    with world.closed() as made, pytest.raises(UsageError) as caught:
        replay("run1", code, store=store)
    assert made == []
    assert "tool stock is called outside of the run" in str(caught.value)


def test_a_thread_that_outlives_its_run_calls_nothing() -> None:
    """What a thread of the run's calls after the run has ended is not in the recording, and not made either."""
    late = threading.Event()
    threads: list[threading.Thread] = []

    def work() -> None:
        late.wait()
        with contextlib.suppress(BaseException):  # or it would be printed
            replay_agents.stock("lamp")

    @ar.agent("forgetful")
    def step(round_index: int, context: ar.Context) -> Any:
        thread = threading.Thread(target=work)
        threads.append(thread)
        thread.start()
        return ar.Complete(1)

    def code() -> None:
        step.run()
        late.set()
        threads[-1].join()

    store = MemoryStore()
    step.run(store=store)
    late.set()
    threads[0].join()
    late.clear()
    with world.closed() as made, contextlib.suppress(UsageError, Divergence):
        replay("run1", code, store=store)
    assert made == []


def test_a_thread_beside_the_run_calls_nothing() -> None:
    """A thread that the code starts outside of the run is outside, too."""
    store = recorded(one_call)

    def calling() -> None:
        with contextlib.suppress(BaseException):
            replay_agents.stock("lamp")

    def in_a_pool() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(calling).result()

    for more in (in_a_thread(calling), in_a_pool, in_a_thread(in_a_pool)):
        with world.closed() as made, pytest.raises(UsageError) as caught:
            replay("run1", and_more(more), store=store)
        assert made == []
        assert "tool stock is called outside of the run" in str(caught.value)


def test_a_run_that_begins_in_a_thread_is_the_recorded_one() -> None:
    """Code that runs its agent in a thread of its own is attached to the recording there, and records nothing."""
    store = recorded(one_call)

    def in_a_pool() -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(one_call.run).result()

    for code in (in_a_thread(one_call.run), in_a_pool):
        with world.closed() as made:
            result = replay("run1", code, store=store)
        assert (made, result.verdict, result.complete, result.coverage.recorded) == ([], "identical", True, 1)
    assert len(store.runs()) == 1


SWALLOWERS = {
    "exceptions": (Exception,),
    "everything": (BaseException,),
}


@pytest.mark.parametrize("caught_by_the_agent", SWALLOWERS.values(), ids=SWALLOWERS)
@pytest.mark.parametrize("collect", [False, True])
def test_code_that_swallows_everything_is_stopped_all_the_same(
    caught_by_the_agent: tuple[type[BaseException], ...], collect: bool
) -> None:
    """It calls something, goes on, and calls something else: nothing is made, and the first difference is told."""
    asks = ["lamp"]

    @ar.agent("stubborn", max_rounds=50)
    def step(round_index: int, context: ar.Context) -> Any:
        for sku in asks:
            try:
                replay_agents.stock(sku)
            except caught_by_the_agent:
                context.change(new={"failed": sku})
        return ar.Continue() if round_index < 3 else ar.Complete(round_index)

    store = recorded(step, {})
    asks[:] = ["bulb", "nail", "lamp", "screw"]
    head = store.run("run1").head_hash
    with world.closed() as made:
        if collect:
            result = replay("run1", step, store=store, collect=True)
            differences = result.divergences
        else:
            with pytest.raises(Divergence) as caught:
                replay("run1", step, store=store)
            differences = caught.value.differences
    assert made == []
    assert (differences[0].step, differences[0].kind, differences[0].path) == (1, "other arguments", "/sku")
    assert store.run("run1").head_hash == head


def test_code_that_begins_no_run_is_no_success() -> None:
    """Nothing was captured, so nothing was compared; that is an error and not a result."""
    store = recorded(one_call)
    for code in (lambda: None, lambda: 1 + 1):
        with pytest.raises(UsageError) as caught:
            replay("run1", code, store=store)
        assert "nothing was compared" in str(caught.value)


def test_a_run_that_ended_with_a_tools_error_of_an_unknown_class_replays() -> None:
    """What stands for the error is told as the error that it stands for."""

    class Unknown(Exception):
        pass

    @ar.tool(safety="pure")
    def fail() -> None:
        raise Unknown("no luck")

    @ar.agent("fails")
    def fails(i: int, context: ar.Context) -> None:
        fail()

    store = MemoryStore()
    with pytest.raises(Unknown):
        fails.run({}, store=store)
    assert ar.replay("run1", fails, store=store).verdict == "identical"


def test_what_an_error_holds_is_compared() -> None:
    """Another attribute or argument of an error that ends the run is told, though its message is the same."""
    code = 1

    class Refused(Exception):
        def __init__(self) -> None:
            super().__init__("refused")
            self.code = code

    @ar.agent("refuses")
    def refuses(i: int, context: ar.Context) -> None:
        context.uuid4()
        raise Refused

    store = MemoryStore()
    with pytest.raises(Refused):
        refuses.run({}, store=store)
    assert ar.replay("run1", refuses, store=store).verdict == "identical"
    code = 2
    with pytest.raises(Divergence) as caught:
        ar.replay("run1", refuses, store=store)
    difference = caught.value.difference
    assert (difference.kind, difference.path) == ("another error", "/state/code")
    assert (difference.expected, difference.actual) == (1, 2)


def test_a_replay_that_answers_nothing_is_no_success() -> None:
    """Where nothing was captured, whatever the code asked of the world it asked itself."""
    store = MemoryStore()

    @ar.agent("alone")
    def alone(i: int, context: ar.Context) -> ar.Complete[int]:
        return ar.Complete(1)

    alone.run({}, store=store)
    with pytest.raises(ar.NothingCaptured, match="nothing of run1 was captured"):
        ar.replay("run1", alone, store=store)
    with pytest.raises(ar.NothingCaptured):
        asyncio.run(ar.areplay("run1", alone, store=store))


def test_an_answer_of_a_person_is_captured() -> None:
    """A run that asked nothing but a person replays from the answer."""
    store = MemoryStore()

    @ar.agent("asks")
    def asks(i: int, context: ar.Context) -> ar.Complete[str]:
        return ar.Complete(context.interrupt("may it go?"))

    (question,) = asks.run({}, store=store).interrupts
    ar.resume("run1", asks, answers={question.id: "yes"}, store=store)
    result = ar.replay("run1", asks, store=store)
    assert (result.verdict, result.coverage.recorded) == ("identical", 1)


def test_an_error_before_the_run_is_the_codes_own() -> None:
    """Code that fails before it begins a run fails as it would without a recording."""
    store = recorded(one_call)

    def code() -> None:
        raise FileNotFoundError("settings.toml")

    with pytest.raises(FileNotFoundError):
        replay("run1", code, store=store)


def test_a_replay_writes_nothing(tmp_path: Path) -> None:
    """The file of a store is byte by byte what it was, whether the code does the same or not."""
    file = tmp_path / "store.db"
    store = SqlStore(f"sqlite:///{file}")
    recorded(replay_agents.chief, {}, store)
    recorded(one_call, None, store)
    store.close()
    before = file.read_bytes()
    files = sorted(path.name for path in tmp_path.iterdir())
    store = SqlStore(f"sqlite:///{file}")
    with world.closed() as made:
        assert replay("run1", replay_agents.chief, store=store).verdict == "identical"
        with pytest.raises(Divergence):
            replay("run1", one_call, store=store)
        with pytest.raises(Divergence):
            replay("run3", ar.agent("one_call")(lambda round_index, context: ar.Complete(1)), store=store)
    store.close()
    assert made == []
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == files


def test_inspecting_a_run_consumes_nothing() -> None:
    """A run can be replayed again and again, and is answered in full each time."""
    store = recorded(replay_agents.nested, {})

    first = replay("run1", replay_agents.nested, store=store)
    again = [replay("run1", replay_agents.nested, store=store) for _ in range(3)]
    assert [one.coverage for one in again] == [first.coverage] * 3


# -- recordings that end in the middle -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["desk", "nested", "chief", "falls", "endless", "stopped", "triage", "plain_loop"])
def test_a_recording_that_ends_anywhere_replays_up_to_there(name: str) -> None:
    """Cut off after each event, as a crash does: no difference, nothing called, and the result says how far it went."""
    journal = Journal()
    recorded(agent_of(name), START.get(name, {}), journal)
    for count in range(2, len(journal.entries)):
        store = journal.until(count)
        with world.closed() as made:
            result = replay("run1", agent_of(name), store=store)
        assert made == []
        assert (result.verdict, result.complete) == ("identical", False), count
        assert result.coverage.notes[-1].startswith("the recording of run1 ends in round ")
        assert (result.coverage.live, result.coverage.unused) == (0, 0)
    with pytest.raises(ar.AgentReplayError, match="run1 has no recorded event"):
        replay("run1", agent_of(name), store=journal.until(1))


# -- secrets ---------------------------------------------------------------------------------------------

KEY = "sk-proj-" + "a1B2c3D4" * 6
PASSWORD = "kT9vQ2mZxR7wL4pB"


@ar.tool(safety="pure")
def sign_in(user: str, password: str) -> dict[str, str]:
    world.touch("sign_in")
    return {"user": user, "token": KEY, "greeting": f"your key is {KEY}"}


@ar.model
def advise(messages: list[dict[str, Any]], api_key: str) -> str:
    world.touch("advise")
    return f"use {messages[-1]['content']} well"


@ar.agent("secretive")
def secretive(round_index: int, context: ar.Context) -> Any:
    """Secrets in the payload, in arguments, answers, messages, reads and the decision."""
    if round_index == 1:
        session = sign_in("ann", context.payload["password"])
        context.change(new={"token": session["token"], "said": session["greeting"]})
        return ar.NextStep(step="Actions", reasoning=f"signed in with {session['token']}")
    context.messages.append({"role": "user", "content": context.payload["token"]})
    advice = advise(list(context.messages), api_key=context.payload["token"])
    context.change(new={"advice": advice, "setting": context.read("setting", lambda: PASSWORD)})
    return ar.Complete({"advice": advice, "password": PASSWORD})


def test_a_run_with_secrets_replays_from_what_is_left_of_it() -> None:
    """The code works with tokens now, in the place of secrets, and all that it asks and decides matches by them."""
    store = MemoryStore()
    secretive.run({"password": PASSWORD}, store=store)
    rows = b"".join(row.body or b"" for row in store.rows("run1"))
    assert KEY.encode() not in rows
    assert PASSWORD.encode() not in rows
    with world.closed() as made:
        result = replay("run1", secretive, store=store)
    assert made == []
    assert (result.verdict, result.complete) == ("identical", True)


def test_a_secret_that_is_another_one_is_a_difference() -> None:
    """Tokens tell secrets apart: other arguments are other arguments, though neither is shown."""
    store = MemoryStore()
    secretive.run({"password": PASSWORD}, store=store)

    @ar.agent("secretive")
    def step(round_index: int, context: ar.Context) -> Any:
        sign_in("ann", "another password that is long")
        return ar.Complete(1)

    with world.closed() as made, pytest.raises(Divergence) as caught:
        replay("run1", step, store=store)
    assert made == []
    found = caught.value.difference
    assert (found.step, found.kind, found.call, found.path) == (1, "other arguments", "1.1", "/password")
    assert "another password" not in str(caught.value)
    assert PASSWORD not in str(caught.value)
