"""A run that was interrupted or cut off goes on in place; what was done is not done again, and the end is the same."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import agentreplay as ar
import pytest
import replay_agents
import world
from agentreplay.recorder.errors import Divergence, LiveCallRefused, RedactedValue, UsageError
from agentreplay.recorder.loop import Agent
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.replay import turns
from agentreplay.replay.reducer import fold
from agentreplay.replay.replayer import replay
from agentreplay.replay.rerunning import NOT_DONE, rerun, resume
from changed_code import changed
from journal import Journal
from recorded import log_of

# -- cut off anywhere ------------------------------------------------------------------------------------

AGENTS: dict[str, Callable[[], Any]] = {
    "a step function": lambda: replay_agents.desk,
    "tools and models within each other": lambda: replay_agents.nested,
    "a sub-agent": lambda: replay_agents.chief,
    "several things at a time": lambda: replay_agents.fleet,
    "state in a closure": replay_agents.counting,
    "state in an object": lambda: replay_agents.Clerk().step,
    "an error that ends it": lambda: replay_agents.falls,
    "a bound that it reaches": lambda: replay_agents.endless,
    "a signal that cancels it": lambda: replay_agents.stopped,
    "a loop of its own": lambda: replay_agents.triage,
    "a loop that is not touched": lambda: replay_agents.plain_loop,
}


def executed(agent: Any, store: EventStore) -> None:
    with contextlib.suppress(ValueError):
        agent.run({"left": 0}, store=store) if isinstance(agent, Agent) else agent(store)


def resumed(agent: Any, store: EventStore, **options: Any) -> Any:
    with contextlib.suppress(ValueError):
        return resume("run1", agent, store=store, take_over=True, **options)


def outcome(store: EventStore, run: str = "run1") -> Any:
    """How a run ended, but for times and for what chance gave."""
    state = ar.state_at(run, store=store)
    payload = {key: value for key, value in state.payload.items() if key not in ("at", "key", "draw")}
    data = log_of(store, run)[-1].data
    tools = {name: {**counts, "totalTime": 0} for name, counts in data.metrics.get("toolMetrics", {}).items()}
    error = data.error and (data.error.type, data.error.message)
    messages = list(state.messages)
    return data.status, data.stop_reason, data.value, error, payload, messages, {**data.metrics, "toolMetrics": tools}


def ended_calls(store: EventStore) -> list[str]:
    """The names of the calls of all runs that have returned or failed."""
    names = []
    for info in store.runs():
        called = {}
        for event in store.events(info):
            if event.kind.endswith(".called"):
                called[event.data.call] = event.data.name
            elif event.kind in ("tool.returned", "tool.failed", "model.returned", "model.failed"):
                names.append(called[event.data.call])
            elif event.kind == "value.read" and event.data.source == "limit":
                names.append("read_limit")
    return names


EFFECT_OF = {"small-model": "call_model"}


@pytest.mark.parametrize("make", AGENTS.values(), ids=AGENTS)
def test_a_run_that_is_cut_off_anywhere_ends_as_it_would_have(make: Callable[[], Any]) -> None:
    """After each write: no effect that has ended is made again, each other one is, and the end is the same."""
    journal = Journal()
    world.made.clear()
    executed(make(), journal)
    whole = list(world.made)
    expected = outcome(journal)
    for count in range(2, len(journal.entries)):
        store = journal.until(count)
        done = [EFFECT_OF.get(name, name) for name in ended_calls(store)]
        world.made.clear()
        resumed(make(), store)
        assert sorted(world.made) == sorted(remaining(whole, done)), count
        assert outcome(store) == expected
        assert store.verify() == []
        assert fold(store.events("run1")).ended
        assert [event.kind for event in log_of(store)].count("run.resumed") == 1
        with world.closed() as made:
            result = replay("run1", make(), store=store)
        assert (made, result.verdict, result.complete) == ([], "identical", True)


def remaining(whole: list[str], done: list[str]) -> list[str]:
    left = list(whole)
    for name in done:
        for effect in [name] * (3 if name == "pages" else 1):
            left.remove(effect)
    return left


def test_a_run_that_is_cut_off_again_and_again_ends_as_it_would_have() -> None:
    """The process that resumed it is killed after each write in its turn, and the next one as well."""
    first = Journal()
    executed(replay_agents.gate, first)
    executed_again: list[Journal] = []
    second = first.until(len(first.entries))
    resume("run1", replay_agents.gate, store=second, answers={"2.approve.1": True})
    third = second.until(len(second.entries))
    resume("run1", replay_agents.gate, store=third, answers={"2.amount.2": "7"})
    expected = outcome(third)
    assert expected[2] == "R-7"
    for journal, answers in ((first, ["approve", "amount"]), (second, ["amount"]), (third, [])):
        for count in range(2, len(journal.entries)):
            executed_again.append(journal.until(count))
            finish(executed_again[-1], list(answers))
            assert outcome(executed_again[-1]) == expected
    assert len(executed_again) > 30


def finish(store: Journal, answers: list[str]) -> None:
    """Resume a run of `gate` until it ends, as a person would who answers what is asked."""
    given = {"approve": True, "amount": "7"}
    for _ in range(4):
        state = ar.state_at("run1", store=store)
        if state.status == "completed":
            break
        waiting = {"2.3": "R-7"} if "2.3" in state.open_calls else {}
        questions = {question: given[question.split(".")[1]] for question in state.open_interrupts}
        resume("run1", replay_agents.gate, store=store, take_over=True, answers=questions, assume=waiting)
    assert store.verify() == []
    with world.closed() as made:
        result = replay("run1", replay_agents.gate, store=store)
    assert (made, result.verdict, result.complete) == ([], "identical", True)


# -- questions -------------------------------------------------------------------------------------------


def asked(result: ar.AgentResult) -> list[tuple[str, str, Any]]:
    return [(one.id, one.name, one.reason) for one in result.interrupts or []]


def test_an_interrupted_run_goes_on_with_the_answer() -> None:
    """It asks once more, and ends with the second answer; what was done is not done again, and all is in one log."""
    store = MemoryStore()
    world.made.clear()
    result = replay_agents.gate.run({}, store=store)
    assert asked(result) == [("2.approve.1", "approve", {"left": 4})]
    result = resume("run1", replay_agents.gate, store=store, answers={"2.approve.1": True})
    assert asked(result) == [("2.amount.2", "amount", "how much?")]
    assert store.run("run1").status == "interrupted"
    result = resume("run1", replay_agents.gate, store=store, answers={"2.amount.2": Decimal("7.25")})
    assert (result.stop_reason, result.value, result.run.id) == ("endTurn", "R-7.25", "run1")
    assert world.made == ["lookup", "stock", "pay"]
    kinds = [event.kind for event in log_of(store) if event.kind.startswith(("run.", "interrupt."))]
    assert kinds == [
        *("run.started", "interrupt.raised", "run.suspended"),
        *("run.resumed", "interrupt.raised", "run.suspended"),
        *("run.resumed", "run.finished"),
    ]
    assert len(store.runs()) == 1


def test_without_an_answer_an_interrupted_run_asks_again() -> None:
    """It waits as before, for the same question."""
    store = MemoryStore()
    first = replay_agents.gate.run({}, store=store)
    for _ in range(2):
        result = resume("run1", replay_agents.gate, store=store)
        assert asked(result) == asked(first)
        assert store.run("run1").status == "interrupted"
        assert list(ar.state_at("run1", store=store).open_interrupts) == ["2.approve.1"]
        assert store.verify() == []
    assert resume("run1", replay_agents.gate, store=store, answers={"2.approve.1": False}).stop_reason == "failed"
    with world.closed() as made:
        assert replay("run1", replay_agents.gate, store=store).complete
    assert made == []


def test_the_same_question_can_be_asked_twice_in_a_round() -> None:
    """Each has an id of its own, and its own answer."""

    @ar.agent("twice")
    def step(round_index: int, context: ar.Context) -> Any:
        return ar.Complete([context.interrupt("sure?"), context.interrupt("sure?")])

    store = MemoryStore()
    result = step.run(store=store)
    assert asked(result) == [("1.sure?.1", "sure?", None)]
    result = resume("run1", step, store=store, answers={"1.sure?.1": "yes"})
    assert asked(result) == [("1.sure?.2", "sure?", None)]
    result = resume("run1", step, store=store, answers={"1.sure?.2": {"very": (1, 2)}})
    assert result.value == ["yes", {"very": (1, 2)}]
    assert replay("run1", step, store=store).verdict == "identical"


def test_a_loop_of_its_own_can_wait_for_a_person() -> None:
    """The block ends at the question, and begins anew when it is resumed, with what it has done answered."""

    def loop(store: EventStore | None = None) -> Any:
        with ar.record("asks", payload={"n": 0}, store=store) as run:
            for number in range(3):
                with run.round() as r:
                    replay_agents.stock("lamp")
                    r.change(update={"n": r.interrupt("how many?", number) if number == 1 else number})
            run.complete(run.payload["n"])
        return run.result

    store = MemoryStore()
    world.made.clear()
    assert asked(loop(store)) == [("2.how many?.1", "how many?", 1)]
    result = resume("run1", loop, store=store, answers={"2.how many?.1": 70})
    assert (result.value, ar.state_at("run1", 2, store=store).payload["n"]) == (2, 70)
    assert world.made == ["stock"] * 3
    assert replay("run1", loop, store=store).verdict == "identical"


# -- what was in flight ----------------------------------------------------------------------------------


@ar.tool(safety="irreversible")
def charge(amount: int) -> str:
    world.touch("charge")
    return f"charged {amount}"


@ar.tool(safety="pure")
def settle(amount: int) -> str:
    """A harmless tool that calls one which is not."""
    world.touch("settle")
    return f"{charge(amount)}, {replay_agents.stock('lamp')} left"


@ar.agent("cashier")
def cashier(round_index: int, context: ar.Context) -> Any:
    return ar.Complete(charge(2))


@ar.agent("shop", max_rounds=9)
def shop(round_index: int, context: ar.Context) -> Any:
    """Charges by itself, inside another tool, and in a run that it starts."""
    if round_index == 1:
        context.change(new={"one": charge(1)})
        return ar.Continue()
    if round_index == 2:
        context.change(new={"two": context.run_agent(cashier, {}).value})
        return ar.Continue()
    return ar.Complete(settle(3))


BOUGHT = {"one": "charged 1", "two": "charged 2"}
CHARGES = {"1.1": 1, "run2:1.1": 2, "3.2": 3}
"""The calls that charge, by what they are settled by, and how much."""


def charged(journal: Journal, count: int) -> tuple[list[str], list[str]]:
    """Of the first writes: the calls of `charge` that were begun, and those that have ended."""
    begun, done = [], []
    for entry in journal.entries[:count]:
        for row in entry.rows:
            event = journal.decode(journal.run(entry.number), row)
            name = getattr(event.data, "call", None)
            name = name if entry.number == 1 or name is None else f"run{entry.number}:{name}"
            if name in CHARGES and event.kind == "tool.called":
                begun.append(name)
            elif name in CHARGES and event.kind == "tool.returned":
                done.append(name)
    return begun, done


def test_what_cannot_be_undone_is_not_done_twice_without_being_asked() -> None:
    """Cut off after each write: a call that was in flight is named, and made only if somebody says that it was not."""
    journal = Journal()
    shop.run({}, store=journal)
    refusals = 0
    for count in range(2, len(journal.entries)):
        begun, done = charged(journal, count)
        open_call = next((name for name in begun if name not in done), None)
        others = [name for name in CHARGES if name not in begun]
        if open_call is None:
            store = journal.until(count)
            world.made.clear()
            assert resumed(shop, store).value == "charged 3, 4 left"
            assert world.made.count("charge") == len(others)
            continue
        refusals += 1
        store = journal.until(count)
        before = store.run("run1").head_hash, len(store.entries)
        world.made.clear()
        with pytest.raises(LiveCallRefused) as caught:
            resume("run1", shop, store=store, take_over=True)
        assert (caught.value.name, caught.value.call) == ("charge", open_call)
        assert f"--assume {open_call}=JSON" in str(caught.value)
        assert world.made == []
        assert (store.run("run1").head_hash, len(store.entries)) == before
        for value, made in ((f"charged {CHARGES[open_call]}", 0), (NOT_DONE, 1)):
            store = journal.until(count)
            world.made.clear()
            result = resumed(shop, store, assume={open_call: value})
            assert (result.value, dict(result.payload)) == ("charged 3, 4 left", BOUGHT)
            assert world.made.count("charge") == len(others) + made
            assert store.verify() == []
            with world.closed() as again:
                assert replay("run1", shop, store=store).verdict == "identical"
            assert again == []
    assert refusals >= 3


def test_what_an_outer_call_gave_settles_what_is_inside_of_it() -> None:
    """Whoever says what a tool gave need not say what a tool inside of it did."""
    journal = Journal()
    shop.run({}, store=journal)
    count = next(n for n in range(len(journal.entries)) if charged(journal, n)[0][-1:] == ["3.2"])
    store = journal.until(count)
    world.made.clear()
    result = resumed(shop, store, assume={"3.1": "settled"})
    assert (result.value, world.made) == ("settled", [])
    returned = [e.data for e in log_of(store) if e.kind == "tool.returned" and e.data.call == "3.1"]
    assert [(data.result, data.assumed) for data in returned] == [("settled", True)]
    with pytest.raises(UsageError, match=r"call 3\.2 was made inside of call 3\.1, and what that gave settles both"):
        resumed(shop, journal.until(count), assume={"3.1": "settled", "3.2": NOT_DONE})
    assert replay("run1", shop, store=store).verdict == "identical"


def test_a_model_that_was_in_flight_is_asked_again() -> None:
    """So is a harmless tool; the log has both attempts, and one answer."""
    journal = Journal()
    replay_agents.counting().run({}, store=journal)
    count = 1 + next(n for n, entry in enumerate(journal.entries) if entry.kinds == ["model.called"])
    store = journal.until(count)
    world.made.clear()
    resumed(replay_agents.counting(), store)
    assert world.made == ["ask"] * 5
    attempts = [e.data.attempt for e in log_of(store) if e.kind == "model.called" and e.data.call == "1.1"]
    assert attempts == [1, 2]


def test_what_a_call_in_flight_had_changed_is_taken_back() -> None:
    """It is made again from its beginning, so the payload and the conversation are what they were before it."""

    @ar.agent("writer", max_rounds=3)
    def step(round_index: int, context: ar.Context) -> Any:
        with_context = ar.wrap(lambda: writes_in(context), kind="tool", name="writes", safety="pure")
        with_context()
        return ar.Complete("end") if round_index == 2 else ar.Continue()

    journal = Journal()
    step.run({"written": []}, store=journal)
    assert ar.state_at("run1", store=journal).payload["written"] == ["draft", "final"] * 2
    for count in range(2, len(journal.entries)):
        store = journal.until(count)
        resumed(step, store)
        state = ar.state_at("run1", store=store)
        assert (state.payload["written"], len(state.messages)) == (["draft", "final"] * 2, 2)
        assert store.verify() == []


def writes_in(context: ar.Context) -> str:
    context.change(update={"written": [*context.payload["written"], "draft"]})
    context.messages.append({"role": "user", "content": "working"})
    replay_agents.stock("lamp")
    context.change(update={"written": [*context.payload["written"], "final"]})
    return "done"


@ar.tool(safety="pure")
async def wait_for(seconds: float) -> float:
    world.touch(f"wait_for {seconds}")
    await asyncio.sleep(seconds)
    return seconds


@ar.agent("waiter")
async def waiter(round_index: int, context: ar.Context) -> Any:
    return ar.Complete(await wait_for(context.payload["seconds"]))


@ar.agent("waiters")
async def waiters(round_index: int, context: ar.Context) -> Any:
    """One that is quick, one that is slow, and a pause between the two, in runs of their own."""
    runs = [context.run_agent(waiter, {"seconds": seconds}) for seconds in (0.001, 0.2)]
    both = asyncio.gather(*runs)
    await asyncio.sleep(0.05)
    return ar.Complete([result.value for result in await both])


def test_what_takes_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """While something is under way live, the code may wait for it as long as that takes."""
    monkeypatch.setattr(turns, "PATIENCE", 0.02)
    journal = Journal()
    waiters.run({}, store=journal)
    for count in range(2, len(journal.entries)):
        store = journal.until(count)
        done = [entry.rows[0].seq for entry in journal.entries[:count] if entry.kinds == ["tool.returned"]]
        world.made.clear()
        result = resumed(waiters, store)
        assert result.value == [0.001, 0.2]
        assert len(world.made) == 2 - len(done)
        assert store.verify() == []
        monkeypatch.setattr(turns, "PATIENCE", 2.0)
        assert replay("run1", waiters, store=store).verdict == "identical"
        monkeypatch.setattr(turns, "PATIENCE", 0.02)


# -- what is refused -------------------------------------------------------------------------------------


def test_only_a_run_that_can_go_on_is_resumed() -> None:
    """One that has ended has nothing to resume; one that may still be running is not touched, unless that is known."""
    store = MemoryStore()
    replay_agents.desk.run({"left": 0}, store=store)
    with pytest.raises(ValueError, match="no bulb"):
        replay_agents.falls.run({}, store=store)
    for run in ("run1", "run2"):
        with pytest.raises(UsageError, match="there is nothing to resume"):
            resume(run, replay_agents.desk, store=store)
    journal = Journal()
    replay_agents.desk.run({"left": 0}, store=journal)
    running = journal.until(9)
    before = len(running.entries)
    with pytest.raises(UsageError, match="may still be running"):
        resume("run1", replay_agents.desk, store=running)
    assert len(running.entries) == before


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"answers": {"2.amount.2": 1}}, "run1 has no open question 2.amount.2; open: 2.approve.1 (approve)"),
        ({"answers": {"approval": 1}}, "run1 has no open question approval; open: 2.approve.1 (approve)"),
        ({"assume": {"2.1": 1}}, "run1 has no call 2.1 in flight; in flight: none"),
        ({"secrets": {"/nothing/here": 1}}, "/nothing/here cannot be set"),
    ],
)
def test_what_was_not_asked_cannot_be_answered(options: dict[str, Any], says: str) -> None:
    """A question or a call that does not wait is a mistake, found before anything is executed."""
    store = MemoryStore()
    replay_agents.gate.run({}, store=store)
    before = store.run("run1").head_hash
    world.made.clear()
    with pytest.raises(UsageError) as caught:
        resume("run1", replay_agents.gate, store=store, **options)
    assert says in str(caught.value)
    assert (world.made, store.run("run1").head_hash) == ([], before)


def test_code_that_has_changed_is_not_resumed() -> None:
    """What it did before is compared; where it parts, nothing is called or appended, and it can be resumed still."""
    store = MemoryStore()
    replay_agents.gate.run({}, store=store)
    before = store.run("run1").head_hash
    world.made.clear()
    agent, _ = changed("gate", ('lookup("G-1")', 'lookup("G-2")'))
    with pytest.raises(Divergence) as caught:
        resume("run1", agent, store=store, answers={"2.approve.1": True})
    assert (caught.value.difference.step, caught.value.difference.path) == (1, "/number")
    assert (world.made, store.run("run1").head_hash) == ([], before)
    assert asked(resume("run1", replay_agents.gate, store=store, answers={"2.approve.1": True}))


# -- re-runs ---------------------------------------------------------------------------------------------


def test_a_rerun_that_is_cut_off_is_resumed_with_its_edits() -> None:
    """After each write: what was edited takes effect once, also what was not asked for before the end."""
    journal = Journal()
    shop.run({}, store=journal)
    start = len(journal.entries)
    edits: dict[str, Any] = {"set": {"/gift": "bow"}, "tool_results": {"3.1": "on the house"}}
    run = rerun("run1", shop, 3, store=journal, **edits).run.id
    expected = outcome(journal, run)
    assert (expected[2], expected[4]["gift"]) == ("on the house", "bow")
    for count in range(start + 2, len(journal.entries)):
        store = journal.until(count)
        world.made.clear()
        result = resume(run, shop, store=store, take_over=True)
        assert world.made == []
        assert outcome(store, run) == expected
        assert result.value == "on the house"
        assert store.verify() == []
        assert replay(run, shop, store=store).verdict == "identical"


def test_a_rerun_that_is_resumed_still_asks_before_it_does_harm() -> None:
    """It is a re-run: what it may call live is what it is allowed to; and refused, it can be resumed once more."""
    store = MemoryStore()
    replay_agents.gate.run({}, store=store)
    run = rerun("run1", replay_agents.gate, 2, store=store).run.id
    resume(run, replay_agents.gate, store=store, answers={"2.approve.1": True})
    world.made.clear()
    with pytest.raises(LiveCallRefused) as caught:
        resume(run, replay_agents.gate, store=store, answers={"2.amount.2": "7"})
    assert (caught.value.name, world.made, store.run(run).status) == ("pay", [], "interrupted")
    result = resume(run, replay_agents.gate, store=store, allow=["pay"])
    assert (result.value, world.made) == ("R-7", ["pay"])
    assert store.verify() == []
    assert replay(run, replay_agents.gate, store=store).verdict == "identical"
    assert store.run("run1").status == "interrupted"


# -- secrets ---------------------------------------------------------------------------------------------

KEY = "sk-proj-" + "a1B2c3D4" * 6
got: list[str] = []


@ar.tool(safety="pure")
def sign(text: str, api_key: str) -> str:
    got.append(api_key)
    return f"signed {text}"


@ar.agent("signer", max_rounds=5)
def signer(round_index: int, context: ar.Context) -> Any:
    context.change(update={"signed": sign(f"text {round_index}", context.payload["credentials"]["api_key"])})
    return ar.Complete(round_index) if round_index == 3 else ar.Continue()


def test_a_resumed_run_sends_no_token_in_the_place_of_a_secret() -> None:
    """It stops where it would, and can be resumed with the secret, which is not recorded."""
    journal = Journal()
    signer.run({"credentials": {"api_key": KEY}}, store=journal)
    expected = ar.state_at("run1", store=journal).payload
    for count in range(2, len(journal.entries)):
        store = journal.until(count)
        got.clear()
        left = 3 - sum(entry.kinds == ["tool.returned"] for entry in journal.entries[:count])
        with pytest.raises(RedactedValue) if left else contextlib.nullcontext() as caught:
            resume("run1", signer, store=store, take_over=True)
        if caught is not None:
            assert caught.value.pointers == ("/api_key",)
            assert got == []
            resume("run1", signer, store=store, take_over=True, secrets={"/credentials/api_key": KEY})
        assert got == [KEY] * left
        assert ar.state_at("run1", store=store).payload == expected
        assert KEY.encode() not in b"".join(row.body or b"" for row in store.rows("run1"))
        assert store.verify() == []
        assert replay("run1", signer, store=store).verdict == "identical"
