"""Three tools at once, of which the last to be asked is the first to answer.

The order in which results reach the agent is part of the recording. Here a summary names its sources in the order in
which they came in, and a replay comes to the same summary, in no time:

    agentreplay show @last
    agentreplay replay @last
"""

from __future__ import annotations

import asyncio
from typing import Any

import agentreplay as ar

PAGES = {
    "archive": (0.09, "The bridge was built in 1928."),
    "paper": (0.05, "The bridge is closed for repairs."),
    "weather": (0.01, "Storm over the bridge tonight."),
}
"""What the sources say, and how many seconds each takes to say it."""

START: dict[str, Any] = {"topic": "bridge", "sources": ["archive", "paper", "weather"]}


@ar.tool(safety="pure")
async def fetch(source: str, topic: str) -> str:
    """Read what a source has on a topic."""
    seconds, text = PAGES[source]
    await asyncio.sleep(seconds)
    return text


@ar.model(model="scripted-1")
async def summarise(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Answer like a language model would: with the texts in one sentence, in the order that they stand in."""
    texts = messages[-1]["content"].splitlines()
    return {"role": "assistant", "content": "; ".join(text.rstrip(".").lower() for text in texts)}


@ar.agent("digest", max_rounds=3)
async def step(round_index: int, context: ar.Context) -> ar.NextStep | ar.Complete[str]:
    """First round: read all sources at once. Second round: sum up what they say."""
    if round_index == 1:
        arrived: list[dict[str, str]] = []

        async def read(source: str) -> None:
            arrived.append({"source": source, "text": await fetch(source, context.payload["topic"])})

        await asyncio.gather(*[read(source) for source in context.payload["sources"]])
        context.change(new={"read": arrived}, reason="in the order in which they came in")
        actions = [{"name": "fetch", "params": {"source": source}} for source in context.payload["sources"]]
        return ar.NextStep(step="Actions", actions=actions, reasoning="What is there to read?")
    texts = "\n".join(page["text"] for page in context.payload["read"])
    context.messages.append({"role": "user", "content": texts})
    answer = await summarise(list(context.messages))
    context.messages.append(answer)
    return ar.Complete(answer["content"])


def main() -> None:
    """Sum up what three sources say."""
    result = step.run(START)
    print(f"{result.run.id}: {result.value}")


if __name__ == "__main__":
    main()
