"""Workflows that tests run: one that writes in circles, one that goes round three nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import agentreplay as ar
from agentreplay.recorder.store import EventStore
from recorded import log_of

State = dict[str, Any]
TO, DELIVER = ar.route.to, ar.route.deliver

made: list[str] = []
"""The calls that were really made, in order."""


@ar.model
def write(topic: str, notes: list[str]) -> str:
    made.append(f"write {topic} {len(notes)}")
    return f"{topic} with {len(notes)} notes"


@ar.model
async def judge(text: str) -> str | None:
    made.append(f"judge {text}")
    await asyncio.sleep(0)
    return None if text.endswith("2 notes") else f"more about {text}"


def draft(state: State) -> State:
    """Write a text."""
    return {"text": write(state["topic"], state["notes"])}


async def review(state: State) -> State:
    note = await judge(state["text"])
    return {"good": True} if note is None else {"notes": [*state["notes"], note]}


def sign(state: State, context: ar.Context) -> State:
    return {"letter": f"{state['text']}, signed in round {context.round}"}


def nodes(**instead: Any) -> list[ar.Node[State]]:
    """The nodes, some of them with another function."""
    return [
        ar.node("draft", run=instead.get("draft", draft), starts_round=True, routes=[TO("review")]),
        ar.node(
            "review",
            run=instead.get("review", review),
            routes=instead.get("routes", [TO("sign", when=lambda state: state.get("good")), TO("draft")]),
        ),
        ar.node("sign", run=instead.get("sign", sign), routes=[DELIVER("letter")]),
    ]


def engine_of(name: str = "writing", max_rounds: int = 9, **instead: Any) -> ar.CoreEngine[State]:
    return ar.CoreEngine(workflow=ar.define_workflow(name, nodes(**instead)), max_rounds=max_rounds)


ENGINE = engine_of()
START = {"topic": "tea", "notes": []}
CALLS = [
    "write tea 0",
    "judge tea with 0 notes",
    "write tea 1",
    "judge tea with 1 notes",
    "write tea 2",
    "judge tea with 2 notes",
]


def turns(count: int, ask: Callable[[str], str]) -> ar.CoreEngine[Any]:
    """Nodes that each start a round, in a circle of three."""

    def visit(name: str) -> Callable[[State, ar.Context], Any]:
        return lambda state, context: {"seen": [*state["seen"], ask(f"{name}{context.visit}")]}

    end = DELIVER("seen", when=lambda state: len(state["seen"]) == count)
    return ar.CoreEngine(
        workflow=ar.define_workflow(
            "turns",
            [
                ar.node(one, run=visit(one), starts_round=True, routes=[end, TO(then)])
                for one, then in (("a", "b"), ("b", "c"), ("c", "a"))
            ],
        )
    )


@ar.tool(safety="pure")
def ask(what: str) -> str:
    made.append(what)
    return what


def decisions(store: EventStore, run: str = "@last") -> list[Any]:
    return [event.data.decision for event in log_of(store, run) if event.kind == "step.decided"]
