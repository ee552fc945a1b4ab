"""Tools that run in threads.

A plain pool of threads; nothing has to be handed to it, since a run in progress makes it carry the context. Calls that
are made at once are in no order, and a replay asks for none:

    agentreplay show @last
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import agentreplay as ar

SIZES = {"harbour.png": (4000, 3000), "bridge.png": (1920, 1080), "tower.png": (800, 1200)}

START: dict[str, Any] = {"pictures": ["harbour.png", "bridge.png", "tower.png"], "width": 400}


@ar.tool(safety="pure")
def size_of(picture: str) -> tuple[int, int]:
    """Look up how large a picture is."""
    return SIZES[picture]


@ar.tool(safety="idempotent")
def shrink(picture: str, width: int) -> str:
    """Make a picture smaller; returns the name of the new one."""
    return f"{picture.removesuffix('.png')}-{width}.png"


@ar.agent("pictures", max_rounds=3)
def step(round_index: int, context: ar.Context) -> ar.Continue | ar.Complete[list[str]]:
    """First round: look at all pictures at once. Second round: shrink those that are too wide."""
    pictures, width = context.payload["pictures"], context.payload["width"]
    with ThreadPoolExecutor(3) as pool:
        if round_index == 1:
            sizes = dict(zip(pictures, pool.map(size_of, pictures), strict=True))
            context.change(new={"sizes": sizes}, reason="looked up")
            return ar.Continue()
        wide = [picture for picture in pictures if context.payload["sizes"][picture][0] > width]
        made = list(pool.map(lambda picture: shrink(picture, width), wide))
    context.change(new={"made": made}, reason=f"wider than {width}")
    return ar.Complete(made)


def main() -> None:
    """Shrink three pictures."""
    result = step.run(START)
    print(f"{result.run.id} made {', '.join(result.value)}")


if __name__ == "__main__":
    main()
