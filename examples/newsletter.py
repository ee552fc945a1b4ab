"""A workflow: a newsletter is drafted, reviewed until nothing is left to say, and sent.

Each node is a function of the state that gives what it changes of it; its routes say what comes then. Drafting begins a
round, so each round is a draft and what the editor says of it:

    agentreplay show @last
    agentreplay rerun @last --step 2 --set /topic='"bulbs"'
"""

from __future__ import annotations

from typing import TypedDict

import agentreplay as ar

REMARKS = {
    "Lamps.": "Say what they cost.",
    "Lamps, from 20 euros.": "Say where to get them.",
}
ADDITIONS = {
    "Say what they cost.": ", from 20 euros",
    "Say where to get them.": ", at our shop in Basel",
}


class Letter(TypedDict, total=False):
    """The state of the workflow: what a node gives replaces the keys of the same name."""

    topic: str
    remarks: list[str]
    text: str
    ready: bool
    receipt: str


START: Letter = {"topic": "lamps", "remarks": []}


@ar.model
def write(topic: str, remarks: list[str]) -> str:
    """Stands for a model that writes."""
    return f"{topic.capitalize()}{''.join([ADDITIONS[remark] for remark in remarks])}."


@ar.model
def edit(text: str) -> str | None:
    """Stands for a model that reads as an editor would; None where it has nothing to say."""
    return REMARKS.get(text)


@ar.tool(safety="idempotent")
def send(text: str) -> str:
    """Send the letter."""
    return f"sent {len(text)} characters"


@ar.node("draft", starts_round=True, routes=[ar.route.to("review")])
def draft(state: Letter) -> Letter:
    """Write the letter, with all remarks so far."""
    return {"text": write(state["topic"], list(state["remarks"]))}


@ar.node(
    "review",
    routes=[
        ar.route.to("send", when=lambda letter: letter.get("ready")),
        ar.route.to("draft"),
    ],
)
def review(state: Letter, context: ar.Context) -> Letter:
    """Have the editor read it."""
    remark = edit(state["text"])
    if remark is None:
        return {"ready": True}
    context.report(remark)
    return {"remarks": [*state["remarks"], remark]}


@ar.node("send", routes=[ar.route.deliver("receipt")])
def deliver(state: Letter) -> Letter:
    """Send it."""
    return {"receipt": send(state["text"])}


newsletter = ar.CoreEngine(workflow=ar.define_workflow("newsletter", [draft, review, deliver]), max_rounds=6)


def main() -> None:
    """Write a letter and send it."""
    result = newsletter.run(START)
    print(f"{result.run.id} {result.value}: {result.payload['text']}")


if __name__ == "__main__":
    main()
