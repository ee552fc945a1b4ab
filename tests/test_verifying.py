"""What verifying says of a run, and when."""

from __future__ import annotations

import agentreplay as ar
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.verifying import verify_run


def test_a_run_that_grows_while_it_is_verified_is_sound() -> None:
    """Events that were appended after the look at its head are no damage."""
    store = MemoryStore()
    with ar.record("a", payload={"n": 1}, store=store) as run:
        seen = store.run(run.uid)
        with run.round() as r:
            r.change(update={"n": 2})
        assert list(verify_run(store, seen)) == []
