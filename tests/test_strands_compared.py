"""Two runs of one Strands agent that did the same are the same: ids and latencies of the SDK are no differences."""

from __future__ import annotations

from pathlib import Path

import agentreplay as ar
import pytest
from agentreplay.cli import main
from click.testing import CliRunner
from strands_scripted import Use, World

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize("verb", ["compare", "bisect"])
def test_random_ids_of_messages_are_no_difference(verb: str, tmp_path: Path) -> None:
    """No step differs."""
    place = f"{tmp_path}/s.db"
    store = ar.open_store(place)
    for _ in range(2):
        world = World(lambda: [ar.strands.Recorder(store=store)])
        world.agent([Use("divide", {"a": 1, "b": 2})], ["done"], tools=world.tools("divide"))("go")
    store.close()
    said = CliRunner().invoke(main, [verb, "run1", "run2", "--store", place])
    assert "No step differs." in said.output
