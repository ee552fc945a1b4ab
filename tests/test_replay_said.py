"""What an agent says without asking for anything is compared: messages, reports, its own events, reasons, notes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from hypothesis import given, settings
from hypothesis import strategies as st

Says = Callable[[ar.Context], Any]


@ar.tool(safety="pure")
def fetch(page: str) -> str:
    """Something to answer."""
    return page


@ar.tool(safety="pure")
async def afetch(page: str) -> str:
    """The same, awaited."""
    await asyncio.sleep(0)
    return page


def saying(says: Says) -> Any:
    """An agent that says something between two calls."""

    @ar.agent("says", allowed_paths=["n:add,update", "m:add,update"], logger=True)
    def step(i: int, context: ar.Context) -> Any:
        fetch("a")
        says(context)
        fetch("b")
        return ar.Complete(1)

    return step


def replayed(before: Says, now: Says, **options: Any) -> Any:
    """Record an agent that says one thing, and replay one that says another."""
    store = MemoryStore()
    saying(before).run({"n": 0}, store=store)
    return ar.replay("run1", saying(now), store=store, **options)


def messages(*contents: str) -> Says:
    """Messages that are added."""

    def says(context: ar.Context) -> None:
        for content in contents:
            context.messages.append({"role": "user", "content": content})

    return says


def reports(*updates: Any) -> Says:
    """Reports."""

    def says(context: ar.Context) -> None:
        for update in updates:
            context.report(update)

    return says


def events(name: str, **data: Any) -> Says:
    """An event of one's own."""
    return lambda context: context.event(name, **data)


def changes(*reasons: str | None) -> Says:
    """Changes of the payload, each for a reason."""

    def says(context: ar.Context) -> None:
        for number, reason in enumerate(reasons):
            context.change(update={"n": number + 1}, reason=reason)

    return says


def replaces(*given: Any) -> Says:
    """A compaction of the conversation."""

    def says(context: ar.Context) -> None:
        messages("a", "b", "c")(context)
        context.messages.replace([{"role": "user", "content": given[0]}], *given[1:])

    return says


def notes(text: str) -> Says:
    """A note of the agent's for itself."""
    return lambda context: context.note({"notes": text})


def refused(name: str) -> Says:
    """A change that nothing comes of."""
    return lambda context: context.change(new={name: 1}, reason="tried")


DENIED = "Operation denied: Cannot add '{}' - operation 'add' not allowed"

DIFFERENCES = [
    (messages("end"), messages("END"), "another message", "/content", "end", "END"),
    (messages("a", "b"), messages("a"), "another message", "", {"role": "user", "content": "b"}, None),
    (messages("a"), messages("a", "b"), "another message", "", None, {"role": "user", "content": "b"}),
    (messages("a", "b"), messages("b"), "another message", "", {"role": "user", "content": "a"}, None),
    (messages("a", "b"), messages("b", "a"), "another message", "", {"role": "user", "content": "a"}, None),
    (replaces("x", 0, 2), replaces("y", 0, 2), "another message", "/messages/0/content", "x", "y"),
    (replaces("x", 0, 2), replaces("x", 1, 2), "another message", "/start", 0, 1),
    (replaces("x", 0, 2), replaces("x", 0, 3), "another message", "/stop", 2, 3),
    (replaces("x", 0, 2, "trim"), replaces("x", 0, 2, "compaction"), "another message", "/why", "trim", "compaction"),
    (reports("half"), reports("done"), "another report", "/message", "half", "done"),
    (reports({"at": 1}), reports({"at": 1.0}), "another report", "/content/at", 1, 1.0),
    (reports("half"), reports(), "another report", "", {"message": "half"}, None),
    (reports(), reports("half"), "another report", "", None, {"message": "half"}),
    (events("x.a", n=1), events("x.a", n=2), "another event", "/n", 1, 2),
    (events("x.a", n=1), events("x.b", n=1), "another event", "/event", "x.a", "x.b"),
    (changes("why"), changes("because"), "another change", "/reason", "why", "because"),
    (changes("why"), changes(None), "another change", "", {"reason": "why"}, None),
    (changes(None), changes("why"), "another change", "", None, {"reason": "why"}),
    (changes("why"), changes("why", "too"), "another payload", "/n", 1, 2),
    (notes("one"), notes("two"), "another decision", "/scratchpad/notes", "one", "two"),
    (refused("x"), refused("y"), "another change", "/warning", DENIED.format("x"), DENIED.format("y")),
]


@pytest.mark.parametrize(("before", "now", "kind", "path", "expected", "actual"), DIFFERENCES)
def test_what_is_said_otherwise_is_told(
    before: Says, now: Says, kind: str, path: str, expected: Any, actual: Any
) -> None:
    """Each with its kind, the place, what was expected, what was found, and the line of code if there is one."""
    with pytest.raises(ar.Divergence) as caught:
        replayed(before, now)
    found = caught.value.difference.to_json()
    assert (found["step"], found["kind"], found["path"]) == (1, kind, path)
    assert (found["expected"], found["actual"]) == (expected, actual)
    assert (found["site"] or "test_replay_said.py:").startswith("test_replay_said.py:")
    assert (found["site"] is None) == (actual is None)


@pytest.mark.parametrize("says", [one[0] for one in DIFFERENCES])
def test_what_is_said_again_is_no_difference(says: Says) -> None:
    """All of it replays."""
    assert replayed(says, says).verdict == "identical"


def test_changes_for_one_reason_may_be_made_in_any_number_of_steps() -> None:
    """Another way to the same payload is no difference, and neither is a reason that is given twice."""

    def once(context: ar.Context) -> None:
        context.change(update={"n": 1}, new={"m": 2}, reason="both")

    def twice(context: ar.Context) -> None:
        context.change(update={"n": 1}, reason="both")
        context.change(new={"m": 2}, reason="both")

    assert replayed(once, twice).verdict == "identical"
    assert replayed(twice, once).verdict == "identical"


def test_lines_for_people_are_noted_only() -> None:
    """Lines of the logger hold times and durations; that they are others is no divergence."""
    result = replayed(lambda context: context.logger.info("took %s", 1), lambda c: c.logger.info("took %s", 2))
    assert result.verdict == "identical"
    assert result.coverage.notes == [
        'step 1: another report (log), which is no divergence: expected "took 1", found "took 2"'
    ]


RULES = [
    (messages("end"), messages("END"), "message:$.content"),
    (messages("end"), messages(), "message"),
    (reports({"at": 1}), reports({"at": 2}), "report:$.content.at"),
    (reports("a"), reports("a", "b"), "report:report"),
    (events("x.a", n=1), events("x.a", n=2), "event:x.a:$.n"),
    (events("x.a", n=1), events("x.b", n=2), "event:x.*"),
    (changes("why"), changes("because"), "change:$.reason"),
    (notes("one"), notes("two"), "decision:$.scratchpad"),
]


@pytest.mark.parametrize(("before", "now", "rule"), RULES)
def test_a_rule_leaves_out_what_is_said_otherwise_each_time(before: Says, now: Says, rule: str) -> None:
    """Rules name it by its kind, its name and the place."""
    assert replayed(before, now, ignore=[rule]).verdict == "identical"
    with pytest.raises(ar.Divergence):
        replayed(before, now, ignore=["tool:fetch"])


def test_the_hint_names_the_rule() -> None:
    """What differs each time can be left out by what the message says."""
    with pytest.raises(ar.Divergence) as caught:
        replayed(reports({"at": 1}), reports({"at": 2}))
    assert "--ignore 'report:report:$.content.at'" in caught.value.difference.hint


def test_a_sub_agent_is_compared_likewise() -> None:
    """What a child run says is told with its run."""

    def chief(update: str) -> Any:
        child = saying(reports(update))

        @ar.agent("chief")
        def step(i: int, context: ar.Context) -> Any:
            return ar.Complete(context.run_agent(child, {"n": 1}).value)

        return step

    store = MemoryStore()
    chief("half").run({}, store=store)
    assert ar.replay("run1", chief("half"), store=store).verdict == "identical"
    with pytest.raises(ar.Divergence) as caught:
        ar.replay("run1", chief("done"), store=store)
    assert (caught.value.difference.run, caught.value.difference.kind) == ("run2", "another report")


def test_a_loop_of_ones_own_is_compared_likewise() -> None:
    """So what `ar.record` records, between rounds and after the last one, too."""

    def loop(text: str, last: int) -> Callable[[], None]:
        def run() -> None:
            with ar.record("loop", payload={"n": 0}, store=store) as run:
                with run.round() as r:
                    r.tool("fetch", {"page": "a"}, lambda page: page, safety="pure")
                run.report(text)
                run.change(update={"n": last})

        return run

    store = MemoryStore()
    loop("between", 1)()
    assert ar.replay("run1", loop("between", 1), store=store).verdict == "identical"
    for text, last, kind in (("behind", 1, "another report"), ("between", 2, "another payload")):
        with pytest.raises(ar.Divergence) as caught:
            ar.replay("run1", loop(text, last), store=store)
        assert caught.value.difference.kind == kind


def tasks(order: str, says: Callable[[str], str] = str) -> Any:
    """An agent whose tasks report, started in an order."""

    async def work(context: ar.Context, page: str) -> str:
        context.report(f"reads {says(page)}")
        found = await afetch(page)
        context.report(f"has {says(found)}")
        return found

    @ar.agent("tasks")
    async def step(i: int, context: ar.Context) -> Any:
        await asyncio.gather(*[work(context, page) for page in order])
        return ar.Complete(1)

    return step


@settings(max_examples=15, deadline=None)
@given(st.permutations("abcd"))
def test_the_order_of_independent_tasks_is_no_difference(order: list[str]) -> None:
    """What tasks report is met whichever of them comes first; a word is said about it if it was another."""
    store = MemoryStore()
    asyncio.run(tasks("abcd").arun({}, store=store))
    result = ar.replay("run1", tasks("".join(order)), store=store)
    assert result.verdict == "identical"
    assert bool(result.coverage.notes) == (order != list("abcd"))


def test_what_one_of_several_tasks_says_otherwise_is_told() -> None:
    """The others say the same."""
    store = MemoryStore()
    asyncio.run(tasks("abcd").arun({}, store=store))
    with pytest.raises(ar.Divergence) as caught:
        ar.replay("run1", tasks("abcd", lambda page: page.replace("c", "x")), store=store)
    difference = caught.value.difference
    assert (difference.kind, difference.expected, difference.actual) == ("another report", "reads c", "reads x")


def test_threads_of_a_pool_report_in_any_order() -> None:
    """Each thread's reports have their order, and no other."""

    def pool(text: str) -> Any:
        @ar.agent("pool")
        def step(i: int, context: ar.Context) -> Any:
            def work(page: str) -> str:
                context.report(f"{text} {page}")
                return fetch(page)

            with ThreadPoolExecutor(3) as workers:
                return ar.Complete(sorted(workers.map(work, "abcdef")))

        return step

    store = MemoryStore()
    pool("reads").run({}, store=store)
    assert ar.replay("run1", pool("reads"), store=store).verdict == "identical"
    with pytest.raises(ar.Divergence) as caught:
        ar.replay("run1", pool("read"), store=store)
    assert caught.value.difference.kind == "another report"


def test_what_was_said_before_a_recording_broke_off_is_compared() -> None:
    """Of a run that crashed in a call, a report before that call is missed; behind it, nothing is known."""
    store = MemoryStore()
    saying(reports("half")).run({"n": 0}, store=store)
    whole = store.run("run1")
    called = [event.seq for event in store.events(whole) if event.kind == "tool.called"]
    cut = store.create_run("says")
    store.append(cut, -1, [event.model_copy(update={"hash": ""}) for event in store.events(whole, until=called[1])])
    same = ar.replay(cut, saying(reports("half")), store=store)
    assert (same.verdict, same.complete) == ("identical", False)
    with pytest.raises(ar.Divergence) as caught:
        ar.replay(cut, saying(reports()), store=store)
    assert caught.value.difference.kind == "another report"


def test_a_re_run_may_report_more() -> None:
    """The rounds before the step are compared in what they do; what else they say is noted."""

    def agent(update: str) -> Any:
        @ar.agent("goes")
        def step(i: int, context: ar.Context) -> Any:
            context.report(update)
            fetch(str(i))
            return ar.Complete(update) if i == 2 else ar.Continue()

        return step

    store = MemoryStore()
    agent("half").run({}, store=store)
    assert ar.rerun("run1", agent("done"), 2, store=store).value == "done"


def declared(model: str, raw: str | None) -> Any:
    """An agent whose model's name is declared, and whose decision was read from a text."""

    @ar.model(model=model)
    def ask(question: str) -> str:
        return question

    @ar.agent("declares")
    def step(i: int, context: ar.Context) -> Any:
        ask("how much?")
        context.decide(step="Success", raw=raw)
        return ar.Complete(1)

    return step


@pytest.mark.parametrize(
    ("model", "raw", "kind", "path", "rule"),
    [
        ("m-2", "{}", "other arguments", "/model", "model:ask:$.model"),
        ("m-1", "{ }", "another decision", "/raw", "decision:$.raw"),
        ("m-1", None, "another decision", "/raw", "decision:$.raw"),
    ],
)
def test_the_declared_model_and_the_text_of_a_decision_are_compared(
    model: str, raw: str | None, kind: str, path: str, rule: str
) -> None:
    """Neither is an argument of a call or a part of the decision."""
    store = MemoryStore()
    declared("m-1", "{}").run({}, store=store)
    assert ar.replay("run1", declared("m-1", "{}"), store=store).verdict == "identical"
    with pytest.raises(ar.Divergence) as caught:
        ar.replay("run1", declared(model, raw), store=store)
    assert (caught.value.difference.kind, caught.value.difference.path) == (kind, path)
    assert ar.replay("run1", declared(model, raw), store=store, ignore=[rule]).verdict == "identical"
