"""What code does differently is told where it does it, and as what it is; and what makes no difference is not told."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import Any, NamedTuple

import pytest
import replay_agents
import world
from agentreplay.recorder.errors import Divergence
from agentreplay.recorder.loop import Agent
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.replay.replayer import ReplayResult, replay
from changed_code import changed

START: dict[str, Any] = {"desk": {"left": 0}}


@functools.cache
def recording(name: str) -> MemoryStore:
    """A store with a run of one of the agents, as they are."""
    store, agent = MemoryStore(), getattr(replay_agents, name)
    with pytest.raises(ValueError) if name == "falls" else nullcontext():
        agent.run(START.get(name, {}), store=store) if isinstance(agent, Agent) else agent(store)
    return store


def replayed(name: str, agent: Any, **options: Any) -> ReplayResult:
    """Replay code against the run of the agent of that name, with no effect to be reached and nothing written."""
    store = recording(name)
    before = [(info.id, info.head_hash) for info in store.runs()]
    with world.closed() as made:
        try:
            return replay("run1", agent, store=store, **options)
        finally:
            assert made == []
            assert [(info.id, info.head_hash) for info in store.runs()] == before


class Mutant(NamedTuple):
    """A change of code, and what a replay tells of it.

    Attributes:
        agent: whose code is changed.
        old, new: what stood there, and what stands there now.
        run: the child run in which it is told, if it is one.
        at: what stands in the line that is named; None if none is.
    """

    agent: str
    old: str
    new: str
    step: int
    kind: str
    call: str | None
    path: str
    at: str | None = None
    run: str | None = None


LOOKUP = 'order = lookup("A-1", detail=2)'
LAST = '    stock("lamp", place="south")\n'
TAKEN = '        reserve("lamp", count=2)\n'
HANDED = '        result = context.run_agent(inspector, {"number": "C-3"}, upstream=["verdict"])\n'

ARGUMENTS = [
    Mutant("desk", '"A-1", detail=2', '"A-2", detail=2', 1, "other arguments", "1.1", "/number", "order = lookup"),
    Mutant("desk", '"A-1", detail=2', '"A-1", detail=20', 1, "other arguments", "1.1", "/detail", "order = lookup"),
    Mutant("desk", '"A-1", detail=2', '"A-1", detail="2"', 1, "other arguments", "1.1", "/detail", "order = lookup"),
    Mutant("desk", '"A-1", detail=2', '"A-1"', 1, "other arguments", "1.1", "/detail", "order = lookup"),
    Mutant("desk", 'stock("lamp")', 'stock("lamp", place="north")', 1, "other arguments", "1.2", "/place", "stock("),
    Mutant(
        "desk", 'place="south")\n        e', 'place="north")\n        e', 1, "other arguments", "1.3", "/place", "bulb"
    ),
    Mutant("desk", '"may it go?"', '"may it go now?"', 2, "another message", None, "/content", "may it go now?"),
    Mutant(
        "desk", "list(context.messages)", "[*context.messages] * 2", 2, "other arguments", "2.1", "/messages/1", "ask("
    ),
    Mutant("desk", '"user", "content"', '"system", "content"', 2, "another message", None, "/role", "may it go?"),
    Mutant("desk", '"lamp", count=2', '"lamp", count=True', 2, "other arguments", "2.2", "/count", "reserve"),
    Mutant("nested", '"a long text"', '"a longer text"', 1, "other arguments", "1.1", "/text", "summarise("),
    Mutant("nested", 'effort="high"', 'effort="low"', 1, "other arguments", "1.4", "/effort", "assistant("),
    Mutant("nested", 'pages("lamps")', 'pages("lamp")', 2, "other arguments", "2.1", "/query", "pages("),
    Mutant("triage", '"limit": tries}', '"limit": 1}', 2, "other arguments", "2.2", "/limit", "r.tool("),
    Mutant("triage", '"limit": tries}', '"bound": tries}', 1, "other arguments", "1.2", "/bound", "r.tool("),
    Mutant("triage", "answer.text}]", '"?"}]', 2, "other arguments", "2.1", "/messages/1/content", "r.model("),
    Mutant("plain_loop", '"look around"', '"look"', 1, "other arguments", "1.1", "/messages/0/content", "ask("),
    Mutant("plain_loop", "reply.text})", '"?"})', 2, "other arguments", "2.1", "/messages/1/content", "ask("),
]

CALLS = [
    Mutant("desk", LOOKUP, f'{LOOKUP}; lookup("A-1", detail=2)', 1, "extra call", None, "", "order = lookup"),
    Mutant("desk", LOOKUP, f'{LOOKUP}; reserve("lamp", 1)', 1, "extra call", None, "", "order = lookup"),
    Mutant("desk", TAKEN, f'{TAKEN}        pay(Decimal("1"))\n', 2, "extra call", None, "", "pay("),
    Mutant("desk", TAKEN, "", 2, "missing call", "2.2", ""),
    Mutant("desk", 'left = stock("lamp")', "left = 4", 1, "missing call", "1.2", ""),
    Mutant("desk", LAST, "", 4, "missing call", "4.1", ""),
    Mutant("desk", LAST, LAST * 2, 4, "extra call", None, "", LAST.strip()),
    Mutant("desk", 'reserve("lamp", count=2)', 'lookup("lamp", 2)', 2, "extra call", None, "", 'lookup("lamp", 2)'),
    Mutant("desk", 'stock("lamp")', 'lookup("lamp").total', 1, "extra call", None, "", 'lookup("lamp")'),
    Mutant("nested", 'summarise("a long text")', 'ask([{"role": "user"}]).text', 1, "extra call", None, "", "ask(["),
    Mutant("nested", 'assistant("how much?", effort="high")', "ask([])", 1, "extra call", None, "", "ask([])"),
    Mutant("nested", 'assistant("how much?", effort="high")', 'Reply(text="")', 1, "missing call", "1.4", ""),
    Mutant("nested", "short = summarise", "stock('lamp'); short = summarise", 1, "extra call", None, "", "stock("),
    Mutant("nested", '    found = list(pages("lamps"))\n', "    found = []\n", 2, "missing call", "2.1", ""),
    Mutant("triage", '"small-model"', '"large-model"', 1, "another call", "1.1", "", "r.model("),
    Mutant("triage", 'r.tool("search"', 'r.tool("find"', 1, "another call", "1.2", "", "r.tool("),
    Mutant("plain_loop", 'left = stock("lamp")', "left = 4", 1, "missing call", "1.2", ""),
    Mutant(
        "plain_loop",
        'left = stock("lamp")',
        'left = stock("lamp") + stock("lamp")',
        1,
        "extra call",
        None,
        "",
        "stock(",
    ),
    Mutant("chief", 'stock("lamp")', 'lookup("lamp")', 2, "extra call", None, "", 'lookup("lamp")'),
]

DECISIONS = [
    Mutant("desk", "what is there?", "what is here?", 1, "another decision", None, "/reasoning"),
    Mutant("desk", 'step="Actions"', 'step="Retry"', 1, "another decision", None, "/step"),
    Mutant("desk", ', message="wait"', "", 2, "another decision", None, "/message"),
    Mutant("desk", 'message="wait"', 'message="wait", terminate=True', 2, "another decision", None, "/terminate"),
    Mutant(
        "desk",
        "        return ar.Continue()\n",
        '        return ar.NextStep(step="Plan")\n',
        3,
        "another decision",
        None,
        "/step",
    ),
    Mutant("triage", 'f"look {tries}"', 'f"look at {tries}"', 1, "another decision", None, "/reasoning", "r.decide("),
    Mutant(
        "triage",
        '                r.decide(step="Actions", reasoning=f"look {tries}")\n',
        "",
        1,
        "another decision",
        None,
        "/step",
    ),
    Mutant(
        "triage",
        "tries += 1\n",
        'tries += 1\n            if tries == 3:\n                run.decide(step="Chat")\n',
        2,
        "another decision",
        None,
        "",
        "run.decide(",
    ),
]

PAYLOADS = [
    Mutant("desk", "order.total}", "order.total + 1}", 1, "another payload", None, "/order/total", "order.total + 1"),
    Mutant("desk", "order.total}", "str(order.total)}", 1, "another payload", None, "/order/total", "str(order.total)"),
    Mutant("desk", '        context.change(update={"left": left})\n', "", 1, "another payload", None, "/left"),
    Mutant("desk", '"left": left}', '"left": left, "x": 1}', 1, "another payload", None, "/x", '"x": 1'),
    Mutant(
        "desk",
        '"left": left})\n',
        '"left": left})\n        context.change(new={"y": 1})\n',
        1,
        "another payload",
        None,
        "/y",
        '"y": 1',
    ),
    Mutant("desk", '["new", "paid"]', '["new", "old", "paid"]', 2, "another payload", None, "/tags/1", '"old"'),
    Mutant("desk", '["new", "paid"]', '["paid", "new"]', 2, "another payload", None, "/tags", '"paid", "new"'),
    Mutant(
        "nested", 'list(pages("lamps"))', 'list(pages("lamps"))[:2]', 2, "another payload", None, "/found/2", "found}"
    ),
    Mutant("triage", '{"hits": hits}', '{"hits": hits[:2]}', 3, "another payload", None, "/hits/2", "hits[:2]"),
    Mutant("plain_loop", "reply.tokens)", "reply.tokens + 1)", 1, "another payload", None, "/notes/0", "ask("),
    Mutant("plain_loop", '        state["left"] = left\n', "", 1, "another payload", None, "/left", "ask("),
]

READS = [
    Mutant(
        "desk",
        '"at": context.now(),',
        '"at": context.now(), "a": context.now(),',
        3,
        "another value read",
        None,
        "",
        '"a":',
    ),
    Mutant("desk", '"key": context.uuid4(),', "", 3, "another value read", None, ""),
    Mutant("desk", "context.uuid4(),", "uuid.uuid4(),", 3, "another value read", None, ""),
    Mutant("desk", '"A-1", detail=2)', '"A-1", detail=2); context.uuid4()', 1, "another value read", None, "", "uuid4"),
    Mutant("desk", "context.random.random()", "random.random()", 3, "another value read", None, ""),
    Mutant("desk", "context.now()", "time.time()", 3, "another value read", None, ""),
    Mutant("desk", '"limit", read_limit', '"bound", read_limit', 3, "another value read", None, "", '"bound"'),
    Mutant("desk", 'context.read("limit", read_limit)', "7", 3, "another value read", None, ""),
    Mutant(
        "triage", "tries += 1\n", "tries += 1; run.random.random()\n", 0, "another value read", None, "", "random()"
    ),
]

ENDS = [
    Mutant("desk", LAST, f"{LAST}    raise KeyError(1)\n", 4, "another error", None, "", "raise KeyError"),
    Mutant("desk", LAST, f"    raise KeyError(1)\n{LAST}", 4, "another error", None, "", "raise KeyError"),
    Mutant("desk", LOOKUP, 'raise SoldOut("all")', 1, "another error", None, "", "raise SoldOut"),
    Mutant("desk", "except SoldOut", "except KeyError", 1, "another error", None, "", 'stock("bulb"'),
    Mutant("falls", "= ValueError(", "= KeyError(", 2, "another error", None, "/type", "raise problem"),
    Mutant("falls", 'f"no {', 'f"none {', 2, "another error", None, "/message", "raise problem"),
    Mutant("falls", "        raise problem from error\n", "", 2, "another error", None, ""),
    Mutant("falls", "except SoldOut", "except OSError", 2, "another error", None, "/type", 'stock("bulb")'),
    Mutant(
        "falls",
        "        return ar.Continue()\n",
        "        return ar.Complete(1)\n",
        1,
        "another decision",
        None,
        "/step",
    ),
    Mutant(
        "desk",
        "        return ar.Continue()\n",
        "        return ar.Complete(1)\n",
        3,
        "another decision",
        None,
        "/step",
    ),
    Mutant(
        "desk",
        "return ar.Complete({",
        "return ar.Continue() if round_index < 5 else ar.Complete({",
        4,
        "another decision",
        None,
        "/step",
    ),
    Mutant("desk", "str(context.payload", "(context.payload", 4, "another outcome", None, "/value/receipt"),
    Mutant(
        "nested",
        "ar.Complete(len(found))",
        'ar.NextStep(step="Success", terminate=True)',
        2,
        "another outcome",
        None,
        "/value",
    ),
    Mutant("triage", "complete(len(messages))", "complete(0)", 3, "another outcome", None, "/value"),
    Mutant("triage", 'run.params["tries"]:', "2:", 2, "another outcome", None, "/rounds"),
    Mutant("triage", 'run.params["tries"]:', "4:", 4, "another outcome", None, "/rounds"),
    Mutant(
        "triage",
        "        run.complete(",
        "        raise OSError(5)\n        run.complete(",
        3,
        "another error",
        None,
        "",
        "OSError(5)",
    ),
    Mutant(
        "plain_loop",
        '(state["notes"]) == 3',
        '(state["notes"]) == 2',
        2,
        "another payload",
        None,
        "/done",
        "with ar.record(",
    ),
    Mutant(
        "plain_loop", 'while not state["done"]', 'while len(state["notes"]) < 2', 2, "another outcome", None, "/rounds"
    ),
    Mutant(
        "plain_loop", 'while not state["done"]', 'while len(state["notes"]) < 4', 4, "another outcome", None, "/rounds"
    ),
    Mutant("endless", "max_rounds=2", "max_rounds=1", 1, "another error", None, ""),
    Mutant("endless", "max_rounds=2", "max_rounds=3", 3, "another outcome", None, "/rounds"),
    Mutant("stopped", '("enough")', '("too much")', 2, "another error", None, "/message"),
    Mutant("stopped", "round_index == 2", "round_index == 1", 1, "another error", None, ""),
    Mutant("gate", '"approve", {', '"allow", {', 2, "another outcome", None, "/interrupt", '"allow"'),
    Mutant("gate", '"left": left}):', '"left": 5}):', 2, "another outcome", None, "/reason/left", '"left": 5'),
    Mutant(
        "gate",
        'context.interrupt("approve", {"left": left})',
        "left < 5",
        2,
        "another outcome",
        None,
        "/interrupt",
        '"amount"',
    ),
    Mutant(
        "gate", "return ar.Continue()", 'return context.interrupt("now", None)', 1, "another outcome", None, "", '"now"'
    ),
]

FIRST_ONLY = 'ar.Complete(1 if context.payload["page"] == "f" else found)'

CHILDREN = [
    Mutant(
        "chief", '{"number": "C-3"}', '{"number": "C-4"}', 1, "other arguments", "run2", "/payload/number", "run_agent("
    ),
    Mutant(
        "chief", '{"number": "C-3"}', '{"number": "C-3"}, input=1', 1, "other arguments", "run2", "/input", "run_agent("
    ),
    Mutant(
        "chief",
        '{"number": "C-3"}',
        '{"number": "C-3"}, params={"a": 1}',
        1,
        "other arguments",
        "run2",
        "/params/a",
        "run_agent(",
    ),
    Mutant("chief", HANDED, HANDED + HANDED, 1, "extra call", None, "", "run_agent("),
    Mutant(
        "chief",
        f'{HANDED}        context.change(new={{"stopped": result.stop_reason}})\n',
        "",
        1,
        "missing call",
        "run2",
        "",
    ),
    Mutant("chief", '@ar.agent("inspector"', '@ar.agent("reviewer"', 1, "another call", "run2", "", "run_agent("),
    Mutant("chief", 'upstream=["verdict"]', 'upstream=["total"]', 1, "another payload", None, "/total"),
    Mutant(
        "chief",
        'context.payload["verdict"])',
        'context.payload["verdict"].upper())',
        2,
        "another outcome",
        None,
        "/value",
    ),
    Mutant("inspector", "detail=7", "detail=8", 1, "other arguments", "1.1", "/detail", "detail=8", "run2"),
    Mutant("inspector", 'reasoning="seen"', 'reasoning="saw"', 1, "another decision", None, "/reasoning", None, "run2"),
    Mutant("inspector", "fair?", "dear?", 2, "other arguments", "2.1", "/messages/0/content", "dear?", "run2"),
    Mutant(
        "inspector",
        '"verdict": verdict.text})\n    r',
        '"verdict": "?"})\n    r',
        2,
        "another payload",
        None,
        "/verdict",
        '"?"',
        "run2",
    ),
    Mutant(
        "inspector",
        "    verdict = ask(",
        "    raise OSError(9)\n    verdict = ask(",
        2,
        "another error",
        None,
        "",
        "OSError(9)",
        "run2",
    ),
    Mutant(
        "inspector",
        'new={"total": seen.total}',
        'new={"total": context.now()}',
        1,
        "another value read",
        None,
        "",
        "now()",
        "run2",
    ),
]

FIRST = '        first = await fetch("d")\n'
WORDS = 'words = await all_of(stream([{"content": "one two three"}]))'
SUMMARY = '        async with asyncio.timeout(30):\n            summary = await digest("e")\n'

AT_A_TIME = [
    Mutant("fleet", '("a", "b", "c")', '("a", "b", "x")', 1, "other arguments", "1.3", "/page", "gather("),
    Mutant("fleet", "wait=0.003", "wait=0.004", 1, "other arguments", "1.1", "/wait", "gather("),
    Mutant("fleet", '("a", "b", "c")', '("a", "b")', 1, "missing call", "1.3", ""),
    Mutant("fleet", '("a", "b", "c")', '("a", "b", "c", "x")', 1, "other arguments", "1.4", "/page", "gather("),
    Mutant("fleet", '("a", "b", "c")', '("c", "b", "a")', 1, "another payload", None, "/pages", '"pages": pages'),
    Mutant("fleet", FIRST, '        first = "<d>"\n', 1, "missing call", "1.4", ""),
    Mutant("fleet", 'fetch("d")', 'digest("d")', 1, "another call", "1.4", "", 'digest("d")'),
    Mutant("fleet", 'fetch("d")', 'fetch("d") + await fetch("d")', 1, "extra call", None, "", 'fetch("d")'),
    Mutant(
        "fleet", '"one two three"', '"one two four"', 2, "other arguments", "2.1", "/messages/0/content", "async for"
    ),
    Mutant("fleet", WORDS, "words = []", 2, "missing call", "2.1", ""),
    Mutant("fleet", WORDS, 'words = await fetch("h")', 2, "extra call", None, "", 'fetch("h")'),
    Mutant("fleet", 'digest("e")', 'digest("x")', 2, "other arguments", "2.2", "/page", 'digest("x")'),
    Mutant("fleet", SUMMARY, '        summary = "?"\n', 2, "missing call", "2.2", ""),
    Mutant("fleet", '"words": words,', '"words": words[1:],', 2, "another payload", None, "/words/0", "words[1:]"),
    Mutant("fleet", 'reasoning="read"', 'reasoning="seen"', 2, "another decision", None, "/reasoning"),
    Mutant("fleet", '("f", "g")', '("f", "x")', 3, "other arguments", "run3", "/payload/page", "gather("),
    Mutant("fleet", '("f", "g")', '("f",)', 3, "missing call", "run3", ""),
    Mutant("fleet", '("f", "g")', '("f", "g", "x")', 3, "extra call", None, "", "gather("),
    Mutant("fleet", "sleep(0.01)\n", 'sleep(0.01)\n    await fetch("z")\n', 3, "extra call", None, "", 'fetch("z")'),
    Mutant("fleet", "sleep(0.01)\n", "sleep(0.01)\n    raise OSError(3)\n", 3, "another error", None, "", "OSError(3)"),
    Mutant("fleet", "[result.value for result in results]", "results[0].value", 3, "another outcome", None, "/value"),
    Mutant("scout", "wait=0.002", "wait=0.001", 1, "other arguments", "1.1", "/wait", "fetch(", "run2"),
    # Of one of the two: which of them ends first was a matter of chance while recording.
    Mutant("scout", "ar.Complete(found)", FIRST_ONLY, 1, "another outcome", None, "/value", None, "run2"),
]

MUTANTS = [*ARGUMENTS, *CALLS, *DECISIONS, *PAYLOADS, *READS, *ENDS, *CHILDREN, *AT_A_TIME]
PARENTS = {"inspector": "chief", "scout": "fleet"}


@pytest.mark.parametrize("mutant", MUTANTS, ids=[f"{at}-{one.agent}" for at, one in enumerate(MUTANTS)])
def test_what_code_does_differently_is_told_where_it_does_it(mutant: Mutant) -> None:
    """Each change of an agent is told at the right step, as what it is, with the place in the data and in the code."""
    name = PARENTS.get(mutant.agent, mutant.agent)
    agent, source = changed(name, (mutant.old, mutant.new), within=mutant.agent)
    with pytest.raises(Divergence) as caught:
        replayed(name, agent)
    found = caught.value.difference
    site = None if found.site is None else source[int(found.site.removeprefix("replay_agents.py:")) - 1]
    told = (found.step, found.kind, found.call, found.path, found.run)
    assert told == (mutant.step, mutant.kind, mutant.call, mutant.path, mutant.run)
    assert (site is None) == (mutant.at is None)
    assert site is None or str(mutant.at) in site
    assert found.hint
    assert found.headline in str(caught.value)


class Refactoring(NamedTuple):
    """Changes of code that change nothing, and what a replay notes of them."""

    agent: str
    what: str
    changes: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()


BEFORE_DESK = '@ar.agent("desk", max_rounds=9)'
SWAPPED = "step {}: calls are made in another order than they were recorded in; the first is {} ({}), before {} ({})"

REFACTORINGS = [
    Refactoring(
        "desk",
        "a function is extracted",
        (
            ('left = stock("lamp")', "left = remaining()"),
            (BEFORE_DESK, f'def remaining() -> int:\n    return stock("lamp")\n\n\n{BEFORE_DESK}'),
        ),
    ),
    Refactoring(
        "desk",
        "a variable is renamed",
        (
            (LOOKUP, LOOKUP.replace("order", "found")),
            ("order.number", "found.number"),
            ("order.total}", "found.total}"),
        ),
    ),
    Refactoring(
        "desk",
        "two independent calls are swapped",
        ((f'{LOOKUP}\n        left = stock("lamp")\n', f'left = stock("lamp")\n        {LOOKUP}\n'),),
        (SWAPPED.format(1, "1.2", "stock", "1.1", "lookup"),),
    ),
    Refactoring(
        "desk",
        "a model and a tool are swapped",
        ((TAKEN, ""), ("        reply = ask(", f"{TAKEN}        reply = ask(")),
        (SWAPPED.format(2, "2.2", "reserve", "2.1", "ask"),),
    ),
    Refactoring("desk", "a keyword instead of a position", (('left = stock("lamp")', 'left = stock(sku="lamp")'),)),
    Refactoring("desk", "a position instead of a keyword", (('"A-1", detail=2', '"A-1", 2'),)),
    Refactoring("desk", "keywords in another order", (('"lamp", count=2', 'count=2, sku="lamp"'),)),
    Refactoring(
        "desk",
        "a message's keys in another order",
        (('{"role": "user", "content": "may it go?"}', '{"content": "may it go?", "role": "user"}'),),
    ),
    Refactoring(
        "triage",
        "arguments in another order",
        (('"q": answer.text, "limit": tries', '"limit": tries, "q": answer.text'),),
    ),
    Refactoring(
        "plain_loop",
        "keys of all messages in another order",
        (
            ('"role": "user", "content": "look around"', '"content": "look around", "role": "user"'),
            ('"role": "assistant", "content": reply.text', '"content": reply.text, "role": "assistant"'),
        ),
    ),
    Refactoring(
        "desk",
        "the payload's keys in another order",
        (('"number": order.number, "total": order.total', '"total": order.total, "number": order.number'),),
    ),
    Refactoring(
        "desk",
        "two changes of the payload in one",
        (
            ('        context.change(update={"left": left})\n', ""),
            ('order.total}}, reason="looked up")', 'order.total}}, update={"left": left}, reason="looked up")'),
        ),
    ),
    Refactoring(
        "desk",
        "one change of the payload in two, another way",
        (
            (
                '"reply": reply.text, "tags": ["new", "paid"]})',
                '"reply": reply.text})\n        context.change(merge={"tags": ["new", "paid"]})',
            ),
        ),
    ),
    Refactoring(
        "desk",
        "a loop instead of lines",
        (
            (
                '        left = stock("lamp")\n        try:\n            stock("bulb", place="south")\n',
                "        left = 0\n        try:\n"
                '            for more in ({"sku": "lamp"}, {"sku": "bulb", "place": "south"}):\n'
                "                left += stock(**more)\n",
            ),
        ),
    ),
    Refactoring(
        "desk",
        "lines for a log",
        (
            ('left = stock("lamp")', 'left = stock("lamp"); context.create_sub_flow_logger().info("left: %s", left)'),
            (LAST, f'{LAST}    context.diagnostics.note("nearly there")\n'),
        ),
        (
            "step 1: another report (log), which is no divergence: expected nothing, found "
            '{"level": "info", "message": "left: 4"}',
            "step 4: another report (diagnostics), which is no divergence: expected nothing, found "
            '{"message": "nearly there"}',
        ),
    ),
    Refactoring(
        "desk",
        "a decision is told before it is returned",
        (
            (
                'return ar.NextStep(step="Actions", reasoning="what is there?")',
                'return context.decide(step="Actions", reasoning="what is there?")',
            ),
        ),
    ),
    Refactoring(
        "desk",
        "a round says that it goes on by a dict",
        (("        return ar.Continue()\n", '        return {"type": "continue"}\n'),),
    ),
    Refactoring(
        "desk",
        "reads in another order",
        (('"at": context.now(),', ""), ("context.uuid4(),", 'context.uuid4(), "at": context.now(),')),
    ),
    Refactoring(
        "desk",
        "a tool's function is renamed, and the tool is not",
        (
            ('@ar.tool(safety="idempotent")\ndef reserve(', '@ar.tool(safety="idempotent", name="reserve")\ndef take('),
            ('reserve("lamp", count=2)', 'take("lamp", count=2)'),
        ),
    ),
    Refactoring(
        "desk",
        "a tool does something else",
        (('return {"sku": sku, "count": count,', 'return {"sku": sku, "count": count + 1,'),),
    ),
    Refactoring(
        "desk",
        "an answer has a field more, with a default",
        (("    tokens: int = 3", '    tokens: int = 3\n    language: str = "en"'),),
    ),
    Refactoring("desk", "a bound is raised", (('"desk", max_rounds=9', '"desk", max_rounds=90'),)),
    Refactoring(
        "nested",
        "a generator is used item by item",
        (
            (
                '    found = list(pages("lamps"))\n',
                '    found = []\n    for page in pages("lamps"):\n        found.append(page)\n',
            ),
        ),
    ),
    Refactoring(
        "chief",
        "a sub-agent is run from a function",
        (
            (HANDED, "        result = hand_over(context)\n"),
            (
                '@ar.agent("chief"',
                "def hand_over(context: ar.Context) -> Any:\n"
                '    return context.run_agent(inspector, {"number": "C-3"}, upstream=["verdict"])\n\n\n'
                '@ar.agent("chief"',
            ),
        ),
    ),
    Refactoring(
        "triage",
        "a round's arguments are put together elsewhere",
        (
            (
                'r.tool("search", {"q": answer.text, "limit": tries}, search,',
                'r.tool("search", dict(q=answer.text, limit=tries), search,',
            ),
        ),
    ),
    Refactoring(
        "fleet",
        "calls at once are made one after the other",
        (("await asyncio.gather(*[fetch(page, wait=0.003)", "([await fetch(page, wait=0.003)"),),
    ),
    Refactoring(
        "fleet",
        "calls at once are made in a group of tasks",
        (
            (
                '        pages = await asyncio.gather(*[fetch(page, wait=0.003) for page in ("a", "b", "c")])\n',
                "        async with asyncio.TaskGroup() as group:\n"
                '            tasks = [group.create_task(fetch(page, wait=0.003)) for page in ("a", "b", "c")]\n'
                "        pages = [task.result() for task in tasks]\n",
            ),
        ),
    ),
    Refactoring(
        "fleet",
        "a call is made at once with those before it",
        (
            ('for page in ("a", "b", "c")]', 'for page in ("a", "b", "c")], fetch("d")'),
            ("        first = await", "        *pages, first = pages\n        0 and"),
        ),
    ),
    Refactoring(
        "fleet",
        "sub-agents are run one after the other",
        (("    results = await asyncio.gather(*runs)\n", "    results = [await run for run in runs]\n"),),
        ("results came in another order than they were recorded in",),
    ),
    Refactoring(
        "fleet",
        "a pause is longer",
        (("await asyncio.sleep(0.01)", "await asyncio.sleep(30)"),),
        (
            "step 3: asyncio.sleep at replay_agents.py:289 is given 30 s, and was given 0.01 s when it was recorded; "
            "it fires by the log all the same",
        ),
    ),
    Refactoring("fleet", "a pause is left out", (("    await asyncio.sleep(0.01)\n", ""),)),
    Refactoring("fleet", "a time limit is left out", ((SUMMARY, '        summary = await digest("e")\n'),)),
    Refactoring(
        "plain_loop", "a condition is turned around", (('while not state["done"]:', 'while len(state["notes"]) < 3:'),)
    ),
    Refactoring(
        "falls",
        "an error is raised from elsewhere",
        (("        raise problem from error\n", "        raise problem\n"),),
    ),
]


@pytest.mark.parametrize("refactoring", REFACTORINGS, ids=[f"{one.agent}: {one.what}" for one in REFACTORINGS])
def test_a_refactoring_is_no_divergence(refactoring: Refactoring) -> None:
    """Code that does the same in another way replays identical; calls in another order are noted."""
    agent, _ = changed(refactoring.agent, *refactoring.changes)
    result = replayed(refactoring.agent, agent)
    assert result.verdict == "identical"
    assert result.divergences == ()
    assert result.complete
    assert tuple(result.coverage.notes) == refactoring.notes
    assert result.coverage.unused == 0


# -- what is told of it ----------------------------------------------------------------------------------


def told(mutant: Mutant) -> str:
    """The message about changed code, with the line of code in the place of its number."""
    name = PARENTS.get(mutant.agent, mutant.agent)
    agent, source = changed(name, (mutant.old, mutant.new), within=mutant.agent)
    with pytest.raises(Divergence) as caught:
        replayed(name, agent)
    site = caught.value.difference.site
    line = "" if site is None else source[int(site.removeprefix("replay_agents.py:")) - 1].strip()
    return str(caught.value).replace(str(site), f"<{line}>")


@pytest.mark.parametrize(
    ("mutant", "message"),
    [
        (
            ARGUMENTS[0],
            """\
step 1, call 1.1: other arguments
  where     <order = lookup("A-2", detail=2)>, tool lookup
  what      argument "number" has another value
  path      /number
  expected  "A-1"
  actual    "A-2"
  next      If this is different each time: --ignore 'tool:lookup:$.number'. If the code is meant to ask for this, \
record the run again; --collect shows what else differs.""",
        ),
        (
            ARGUMENTS[6],
            """\
step 2: another message
  where     <context.messages.append({"role": "user", "content": "may it go now?"})>
  what      key "content" has another value
  path      /content
  expected  "may it go?"
  actual    "may it go now?"
  next      If this is different each time: --ignore 'message:$.content'. If the code is meant to say this, record the \
run again; --collect shows what else differs.""",
        ),
        (
            ARGUMENTS[16],
            """\
step 1, call 1.1: other arguments
  where     <reply = ask(messages)>, model ask
  what      key "content" of messages[0] has another value
  path      /messages/0/content
  expected  "look around"
  actual    "look"
  next      If this is different each time: --ignore 'model:ask:$.messages[0].content'. If the code is meant to ask \
for this, record the run again; --collect shows what else differs.""",
        ),
        (
            CHILDREN[8],
            """\
run2, step 1, call 1.1: other arguments
  where     <seen = lookup(context.payload["number"], detail=8)>, tool lookup
  what      argument "detail" has another value
  path      /detail
  expected  7
  actual    8
  next      If this is different each time: --ignore 'tool:lookup:$.detail'. If the code is meant to ask for this, \
record the run again; --collect shows what else differs.""",
        ),
        (
            CHILDREN[4],
            """\
step 1, call run2: missing call
  where     agent inspector
  what      the code does not make this call
  expected  agent inspector(payload={"number": "C-3"}, input=null, params={})
  actual    nothing
  next      If the code is meant to leave this call out, record the run again; --collect shows what else differs.""",
        ),
        (
            ENDS[0],
            """\
step 4: another error
  where     <raise KeyError(1)>
  what      the recording has none here
  expected  nothing
  actual    {"type": "builtins.KeyError", "message": "1"}
  next      The code, or something it reads unrecorded, changed at step 4: `agentreplay rerun run1 --step 4 \
--prefix=fold` starts from the recorded state, without executing the steps before.""",
        ),
    ],
)
def test_a_divergence_says_what_a_person_needs_to_know(mutant: Mutant, message: str) -> None:
    """Where in the run and in the code, what was expected and what came, and what can be done next."""
    assert told(mutant) == message


def test_all_differences_can_be_gathered() -> None:
    """With collect=True code goes on with the recorded answers, as far as there are any, and calls nothing real."""
    agent, _ = changed(
        "desk",
        ("detail=2", "detail=3"),
        ("what is there?", "what is here?"),
        (TAKEN, ""),
        ('"key": context.uuid4(),', '"key": 1,'),
        ("str(context.payload", "(context.payload"),
    )
    result = replayed("desk", agent, collect=True)
    assert result.verdict == "diverged"
    assert [(one.step, one.kind, one.call, one.path) for one in result.divergences] == [
        (1, "other arguments", "1.1", "/detail"),
        (1, "another decision", None, "/reasoning"),
        (2, "missing call", "2.2", ""),
        (3, "another value read", None, ""),
        (3, "another payload", None, "/key"),
        (4, "another outcome", None, "/value/receipt"),
    ]
    assert result.complete
    assert (result.coverage.live, result.coverage.unused) == (0, 1)


def test_gathering_ends_where_there_is_no_answer() -> None:
    """What the recording cannot answer stops the code; what was gathered until then is told, and nothing is called."""
    agent, _ = changed(
        "desk", ("detail=2", "detail=3"), ('        reserve("lamp", count=2)', "        pay(Decimal(1))")
    )
    result = replayed("desk", agent, collect=True)
    assert [(one.step, one.kind, one.path) for one in result.divergences] == [
        (1, "other arguments", "/detail"),
        (2, "extra call", ""),
    ]
    assert not result.complete
    assert result.coverage.unused == 2


def test_differences_of_a_child_run_are_gathered_with_those_of_its_parent() -> None:
    """They are told in the order in which they were found, each with its run."""
    agent, _ = changed(
        "chief", ("detail=7", "detail=8"), ('"number": "C-3"', '"number": "C-4"'), ('context.payload["verdict"]', '""')
    )
    result = replayed("chief", agent, collect=True)
    assert [(one.run, one.step, one.kind, one.path) for one in result.divergences] == [
        (None, 1, "other arguments", "/payload/number"),
        ("run2", 1, "other arguments", "/detail"),
        (None, 2, "another outcome", "/value"),
    ]


@pytest.mark.parametrize(
    ("mutant", "rule"),
    [
        (ARGUMENTS[0], "tool:lookup:$.number"),
        (ARGUMENTS[16], "model:ask:$.messages[*].content"),
        (DECISIONS[0], "decision:$.reasoning"),
        (PAYLOADS[6], "payload:$.tags"),
        (ENDS[11], "outcome:$.value.receipt"),
        (ENDS[5], "error:$.message"),
        (ENDS[25], "outcome:$.reason.left"),
    ],
)
def test_what_a_rule_names_is_no_difference(mutant: Mutant, rule: str) -> None:
    """A rule leaves out what is different each time, of whatever is compared."""
    agent, _ = changed(mutant.agent, (mutant.old, mutant.new))
    assert replayed(mutant.agent, agent, ignore=[rule]).verdict == "identical"
