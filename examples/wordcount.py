"""Other processes take part in a run.

A worker joins the run by its name, and what it calls is recorded there. In a replay each worker is answered from what
one of the recorded workers did, which is told by what it asks:

    agentreplay show @last
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

import agentreplay as ar

CHAPTERS = {
    "one": "It was a dark and stormy night",
    "two": "The rain fell in torrents",
    "three": "Then it stopped",
}


@ar.tool(safety="pure")
def count_words(chapter: str) -> int:
    """Count the words of a chapter."""
    return len(CHAPTERS[chapter].split())


def work(run: str, chapter: str) -> int:
    """What a worker does: it joins the run and counts one chapter."""
    with ar.join(run):
        return count_words(chapter)


def count() -> str:
    """Count all chapters, in processes of their own; returns the run's id."""
    with ar.record("wordcount", payload={"chapters": list(CHAPTERS)}) as run:
        with run.round() as r:
            chapters = list(run.payload["chapters"])
            with ProcessPoolExecutor(3) as pool:
                counts = list(pool.map(work, repeat(run.id), chapters))
            r.change(new={"words": dict(zip(chapters, counts, strict=True))}, reason="counted")
            r.decide(step="Success", reasoning="every chapter was counted")
        run.complete(sum(counts))
    return run.id


def main() -> None:
    """Count the words of three chapters."""
    run = count()
    print(f"{run} counted {ar.state_at(run).payload['words']}")


if __name__ == "__main__":
    main()
