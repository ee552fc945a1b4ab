"""A model whose answer streams, of which the agent reads as much as it likes.

Each chunk is recorded as the agent got it. In the second round the agent has heard enough after two sentences and
stops reading: the recording has what was read and says that the stream was left.

    agentreplay show @last --step 2
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import agentreplay as ar

SENTENCES = {
    "a lighthouse": ["There was a light on the hill.", " It had burnt for a hundred years.", " Then it went out."],
    "what came next": ["A boat set out.", " Nobody rowed it.", " It came back full of fish.", " And so on."],
}

START: dict[str, Any] = {"about": "a lighthouse", "patience": 2}


@ar.model(model="scripted-1")
async def tell(messages: list[dict[str, Any]]) -> AsyncIterator[str]:
    """Answer like a language model would that streams: sentence by sentence."""
    for sentence in SENTENCES[messages[-1]["content"]]:
        await asyncio.sleep(0)
        yield sentence


@ar.agent("story", max_rounds=3)
async def step(round_index: int, context: ar.Context) -> ar.NextStep | ar.Complete[str]:
    """First round: listen to the end. Second round: until the patience is over."""
    payload = context.payload
    question = payload["about"] if round_index == 1 else "what came next"
    context.messages.append({"role": "user", "content": question})
    heard: list[str] = []
    stream = tell(list(context.messages))
    async for sentence in stream:
        heard.append(sentence)
        if round_index == 2 and len(heard) == payload["patience"]:
            break
    text = "".join(heard)
    context.messages.append({"role": "assistant", "content": text})
    if round_index == 1:
        context.change(new={"beginning": text}, reason="heard to the end")
        return ar.NextStep(step="Retry", reasoning="There must be more to it.")
    context.change(new={"end": text}, reason=f"{payload['patience']} sentences are enough")
    return ar.Complete(f"{payload['beginning']} {text}")


def main() -> None:
    """Listen to a story."""
    result = step.run(START)
    print(f"{result.run.id}: {result.value}")


if __name__ == "__main__":
    main()
