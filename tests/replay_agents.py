"""Small agents that are recorded and executed again, and the module that tests change to see what is noticed.

Each effect tells `world` that it was really made. Tests of what a replay notices take the text of this module, change
one place of it, and execute what comes out (`changed_code`).
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import agentreplay as ar
import world
from pydantic import BaseModel


class Reply(BaseModel):
    """What a model answers."""

    text: str
    tokens: int = 3


@dataclass(frozen=True)
class Order:
    """What the shop knows of an order."""

    number: str
    total: Decimal
    lines: tuple[str, ...] = ()


class SoldOut(Exception):
    """There is nothing left of an article."""

    def __init__(self, sku: str) -> None:
        super().__init__(sku)
        self.sku = sku


# -- effects -------------------------------------------------------------------------------------------


@ar.tool(safety="pure")
def lookup(number: str, detail: int = 1) -> Order:
    world.touch("lookup")
    return Order(number, Decimal("12.50"), ("lamp", "bulb"))


@ar.tool(safety="pure", raises=(SoldOut,))
def stock(sku: str, place: str = "north") -> int:
    world.touch("stock")
    if sku == "bulb":
        raise SoldOut(sku)
    return 4


@ar.tool(safety="idempotent")
def reserve(sku: str, count: int) -> dict[str, Any]:
    world.touch("reserve")
    return {"sku": sku, "count": count, "until": {"days": 3}}


@ar.tool(safety="irreversible")
def pay(amount: Decimal) -> str:
    world.touch("pay")
    return f"R-{amount}"


@ar.tool(safety="pure")
def pages(query: str) -> Iterator[str]:
    for number in range(3):
        world.touch("pages")
        yield f"{query} {number}"
    return "the end"  # what a generator returns is part of the answer


@ar.model(model="scripted-1")
def ask(messages: list[dict[str, Any]]) -> Reply:
    world.touch("ask")
    return Reply(text=f"about {messages[-1]['content']}", tokens=len(messages))


@ar.tool(safety="pure")
def summarise(text: str) -> str:
    """A tool that calls a model, and another tool."""
    world.touch("summarise")
    short = ask([{"role": "user", "content": text}])
    return f"{short.text}, {stock('lamp')} left"


@ar.model(model="scripted-2")
def assistant(question: str, effort: str = "low") -> Reply:
    """A model that calls a tool."""
    world.touch("assistant")
    return Reply(text=f"{question}: {lookup('N-9').total}")


# -- a step function -----------------------------------------------------------------------------------


@ar.agent("desk", max_rounds=9)
def desk(round_index: int, context: ar.Context) -> Any:
    """Four rounds: tools; a model; chance; the end."""
    if round_index == 1:
        order = lookup("A-1", detail=2)
        left = stock("lamp")
        try:
            stock("bulb", place="south")
        except SoldOut as error:
            context.change(new={"missing": error.sku}, reason="sold out")
        context.change(new={"order": {"number": order.number, "total": order.total}}, reason="looked up")
        context.change(update={"left": left})
        return ar.NextStep(step="Actions", reasoning="what is there?")
    if round_index == 2:
        context.messages.append({"role": "user", "content": "may it go?"})
        reply = ask(messages=list(context.messages))
        context.messages.append({"role": "assistant", "content": reply.text})
        reserve("lamp", count=2)
        context.change(new={"reply": reply.text, "tags": ["new", "paid"]})
        return ar.NextStep(step="Retry", reasoning="reserved", message="wait")
    if round_index == 3:
        context.change(
            new={
                "at": context.now(),
                "key": context.uuid4(),
                "draw": context.random.random(),
                "limit": context.read("limit", read_limit),
            }
        )
        return ar.Continue()
    stock("lamp", place="south")
    return ar.Complete({"receipt": str(context.payload["order"]["total"])})


def read_limit() -> int:
    world.touch("read_limit")
    return 7


# -- tools and models within each other, and generators ------------------------------------------------


@ar.agent("nested", max_rounds=9)
def nested(round_index: int, context: ar.Context) -> Any:
    """Two rounds: a tool that calls a model, and the other way round; then a generator."""
    if round_index == 1:
        short = summarise("a long text")
        said = assistant("how much?", effort="high")
        context.change(new={"short": short, "said": said.text})
        return ar.Continue()
    found = list(pages("lamps"))
    context.change(new={"found": found})
    return ar.Complete(len(found))


# -- sub-agents ----------------------------------------------------------------------------------------


@ar.agent("inspector", max_rounds=3)
def inspector(round_index: int, context: ar.Context) -> Any:
    """A sub-agent of two rounds."""
    if round_index == 1:
        seen = lookup(context.payload["number"], detail=7)
        context.change(new={"total": seen.total})
        return ar.NextStep(step="Actions", reasoning="seen")
    verdict = ask([{"role": "user", "content": f"is {context.payload['total']} fair?"}])
    context.change(new={"verdict": verdict.text})
    return ar.Complete({"verdict": verdict.text})


@ar.agent("chief", max_rounds=9)
def chief(round_index: int, context: ar.Context) -> Any:
    """Hands its order to an inspector, and goes on with what that brings back."""
    if round_index == 1:
        result = context.run_agent(inspector, {"number": "C-3"}, upstream=["verdict"])
        context.change(new={"stopped": result.stop_reason})
        return ar.Continue()
    stock("lamp")
    return ar.Complete(context.payload["verdict"])


# -- loops of their own --------------------------------------------------------------------------------


def call_model(messages: list[dict[str, Any]]) -> Reply:
    world.touch("call_model")
    return Reply(text=f"reply {len(messages)}")


def search(q: str, limit: int = 3) -> list[str]:
    world.touch("search")
    return [f"{q} {number}" for number in range(limit)]


def triage(store: Any = None) -> Any:
    """A loop that marks its rounds."""
    with ar.record("triage", payload={"ticket": 7}, input="broken lamp", params={"tries": 3}, store=store) as run:
        messages = [{"role": "user", "content": run.input}]
        tries = 0
        while tries < run.params["tries"]:
            tries += 1
            with run.round() as r:
                answer = r.model("small-model", {"messages": messages}, call_model)
                messages = [*messages, {"role": "assistant", "content": answer.text}]
                hits = r.tool("search", {"q": answer.text, "limit": tries}, search, safety="pure")
                r.change(update={"hits": hits}, reason="found")
                r.decide(step="Actions", reasoning=f"look {tries}")
        run.complete(len(messages))
    return run.result


def plain_loop(store: Any = None) -> Any:
    """A loop that is not touched: rounds begin with model calls, and the payload is looked at."""
    state: dict[str, Any] = {"notes": [], "done": False}
    with ar.record("plain", payload=lambda: state, rounds="model", store=store) as run:
        messages: list[dict[str, Any]] = [{"role": "user", "content": "look around"}]
        while not state["done"]:
            reply = ask(messages)
            messages.append({"role": "assistant", "content": reply.text})
            state["notes"].append(reply.tokens)
            left = stock("lamp")
            state["done"] = len(state["notes"]) == 3
            state["left"] = left
        run.complete(state["notes"])
    return run.result


# -- several things at a time ----------------------------------------------------------------------------


@ar.tool(safety="pure")
async def fetch(page: str, wait: float = 0.001) -> str:
    world.touch("fetch")
    await asyncio.sleep(wait)
    return f"<{page}>"


@ar.model(model="scripted-3")
async def stream(messages: list[dict[str, Any]]) -> AsyncIterator[str]:
    world.touch("stream")
    for word in messages[-1]["content"].split():
        await asyncio.sleep(0)
        yield word


@ar.tool(safety="pure")
async def digest(page: str) -> str:
    """A tool that calls another, and a model, at a time."""
    world.touch("digest")
    text, words = await asyncio.gather(fetch(page), all_of(stream([{"content": f"sum up {page}"}])))
    return f"{text}: {' '.join(words)}"


async def all_of(words: AsyncIterator[str]) -> list[str]:
    return [word async for word in words]


@ar.agent("scout", max_rounds=3)
async def scout(round_index: int, context: ar.Context) -> Any:
    """A sub-agent that is run several times at once."""
    found = await fetch(context.payload["page"], wait=0.002)
    context.change(new={"found": found})
    return ar.Complete(found)


@ar.agent("fleet", max_rounds=9)
async def fleet(round_index: int, context: ar.Context) -> Any:
    """Three rounds: pages at once and one after the other; a stream; sub-agents at once."""
    if round_index == 1:
        pages = await asyncio.gather(*[fetch(page, wait=0.003) for page in ("a", "b", "c")])
        first = await fetch("d")
        context.change(new={"pages": pages, "first": first})
        return ar.Continue()
    if round_index == 2:
        words = await all_of(stream([{"content": "one two three"}]))
        async with asyncio.timeout(30):
            summary = await digest("e")
        context.change(new={"words": words, "summary": summary})
        return ar.NextStep(step="Retry", reasoning="read")
    runs = [context.run_agent(scout, {"page": page}) for page in ("f", "g")]
    results = await asyncio.gather(*runs)
    await asyncio.sleep(0.01)
    return ar.Complete([result.value for result in results])


@ar.agent("ticker", max_rounds=9)
async def ticker(round_index: int, context: ar.Context) -> Any:
    """Two streams at a time in each round, whose words come in turns."""
    texts = [f"a{round_index} b c", f"d{round_index} e"]
    heard: list[str] = []

    async def listen(text: str) -> None:
        async for word in stream([{"content": text}]):
            heard.append(word)

    await asyncio.gather(*map(listen, texts))
    context.change(update={"heard": heard})
    return ar.Complete(heard) if round_index == 3 else ar.Continue()


# -- how runs end --------------------------------------------------------------------------------------


@ar.agent("gate", max_rounds=5)
def gate(round_index: int, context: ar.Context) -> Any:
    """Asks a person in its second round, and once more."""
    if round_index == 1:
        context.change(new={"number": lookup("G-1").number})
        return ar.Continue()
    left = stock("lamp")
    if not context.interrupt("approve", {"left": left}):
        return ar.NextStep(step="Failed", error_message="not approved")
    amount = context.interrupt("amount", "how much?")
    context.change(new={"receipt": pay(Decimal(amount)), "left": left})
    return ar.Complete(context.payload["receipt"])


@ar.agent("falls", max_rounds=5)
def falls(round_index: int, context: ar.Context) -> Any:
    """Ends with an error of its own, out of an error of a tool's."""
    if round_index == 1:
        context.change(new={"sku": "bulb"})
        return ar.Continue()
    try:
        stock("bulb")
    except SoldOut as error:
        problem = ValueError(f"no {error.sku} for {context.payload['sku']}")
        raise problem from error
    return ar.Complete("unreachable")


@ar.agent("endless", max_rounds=2)
def endless(round_index: int, context: ar.Context) -> Any:
    """Reaches its bound."""
    context.change(new={f"left {round_index}": stock("lamp")})
    return ar.Continue()


@ar.agent("stopped", max_rounds=9)
def stopped(round_index: int, context: ar.Context) -> Any:
    """Is cancelled after its second round."""
    stock("lamp")
    if round_index == 2:
        context.signal.abort("enough")
    return ar.Continue()


# -- state that folding does not know ------------------------------------------------------------------


def counting() -> Any:
    """An agent whose step keeps what it has seen in a closure."""
    seen: list[str] = []

    @ar.agent("counting", max_rounds=9)
    def step(round_index: int, context: ar.Context) -> Any:
        seen.append(ask([{"role": "user", "content": f"{round_index}, {len(seen)} seen"}]).text)
        context.change(update={"seen": list(seen), "drawn": context.random.randint(1, 1)})
        return ar.Complete(seen) if round_index == 5 else ar.Continue()

    return step


class Clerk:
    """An agent whose step is a method, and keeps what it has seen in its object."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    @ar.agent("clerk", max_rounds=9)
    def step(self, round_index: int, context: ar.Context) -> Any:
        self.seen.append(ask([{"role": "user", "content": f"{round_index}, {len(self.seen)} seen"}]).text)
        context.change(update={"seen": list(self.seen)})
        return ar.Complete(self.seen) if round_index == 5 else ar.Continue()


def caching() -> Any:
    """An agent whose step keeps what it has seen in the cache of its run."""

    @ar.agent("caching", max_rounds=9)
    def step(round_index: int, context: ar.Context) -> Any:
        seen = context.cache.setdefault("seen", [])
        seen.append(ask([{"role": "user", "content": f"{round_index}, {len(seen)} seen"}]).text)
        context.change(update={"seen": list(seen)})
        return ar.Complete(seen) if round_index == 5 else ar.Continue()

    return step


UNRECORDED = (time.time, random.random, uuid.uuid4)
"""What code reads that nothing records; mutants do."""
