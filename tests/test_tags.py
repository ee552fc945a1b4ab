"""Tags: which a run may be given, where they stand, and whose they are."""

from __future__ import annotations

from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.tags import checked_tags


@ar.agent("tagged", tags=("nightly", "eu"))
def tagged(i: int, context: ar.Context) -> ar.Complete[int]:
    """Ends at once."""
    context.now()
    return ar.Complete(i)


def tags_in(store: MemoryStore, run: str) -> list[str]:
    """Those in the first event of a run."""
    found: list[str] = next(store.events(run)).data.tags
    return found


def test_a_run_has_the_tags_of_its_agent_and_its_own() -> None:
    """Each once, in the order in which they were given, for a step and for a block."""
    store = MemoryStore()
    tagged.run({}, store=store)
    tagged.run({}, store=store, tags=["eu", "try 2"])
    with ar.record("block", store=store, tags=("alone",)):
        pass
    assert [tags_in(store, run.id) for run in store.runs()] == [
        ["nightly", "eu"],
        ["nightly", "eu", "try 2"],
        ["alone"],
    ]


async def test_a_run_in_an_event_loop_has_tags_too() -> None:
    """As `run`, so `arun`."""
    store = MemoryStore()
    await tagged.arun({}, store=store, tags=["slow"])
    assert tags_in(store, "run1") == ["nightly", "eu", "slow"]


def test_a_run_without_tags_says_nothing_of_them() -> None:
    """Its first event is what it was before there were tags."""
    store = MemoryStore()
    with ar.record("plain", store=store):
        pass
    (row,) = store.rows("run1", until=0)
    assert row.body is not None
    assert b'"tags"' not in row.body


def test_a_child_run_has_the_tags_of_its_own_agent() -> None:
    """What a run is found by says nothing of the runs that it starts."""

    @ar.agent("parent", tags=["above"])
    def parent(i: int, context: ar.Context) -> ar.Complete[Any]:
        return ar.Complete(context.run_agent(tagged, {}).value)

    store = MemoryStore()
    parent.run({}, store=store)
    assert [tags_in(store, "run1"), tags_in(store, "run2")] == [["above"], ["nightly", "eu"]]


def test_a_fork_has_the_tags_of_the_run_it_came_from() -> None:
    """They share the event in which these stand; what the code says by now is not asked."""

    @ar.agent("tagged", tags=["by now another"])
    def changed(i: int, context: ar.Context) -> ar.Complete[int]:
        context.now()
        return ar.Complete(i)

    store = MemoryStore()
    run = tagged.run({}, store=store).run.id
    assert ar.replay(run, changed, store=store).verdict == "identical"
    ar.rerun(run, changed, 1, store=store)
    assert tags_in(store, "run2") == ["nightly", "eu"]


def test_a_secret_in_a_tag_is_kept_out() -> None:
    """A tag is a text like any other."""
    store = MemoryStore()
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    with ar.record("a", store=store, tags=[f"by {secret}"]):
        pass
    assert secret not in tags_in(store, "run1")[0]


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ("nightly", "tags is a list of texts"),
        (b"nightly", "tags is a list of texts"),
        ({"nightly": 1}, "tags is a list of texts"),
        (3, "tags is a list of texts"),
        (["a", 3], "a tag is a text, not 3"),
        (["x" * 65], "this has 65"),
        ([" "], "not all blank"),
        ([str(number) for number in range(21)], "at most 20 tags, not 2[13]"),
    ],
)
def test_what_is_no_tag_is_refused_before_anything_is_recorded(tags: Any, said: str) -> None:
    """It is said what was found; the store stays as it was."""
    store = MemoryStore()
    with pytest.raises(ar.UsageError, match=said):
        tagged.run({}, store=store, tags=tags)
    with pytest.raises(ar.UsageError, match=said):
        ar.record("a", store=store, tags=tags)
    with pytest.raises(ar.UsageError, match=said):
        ar.agent("a", tags=tags)(lambda i, context: ar.Complete(1))
    assert store.runs() == []


def test_twenty_tags_of_64_characters_are_allowed() -> None:
    """The bounds are in; the same tag twice is one."""
    tags = [f"{number:064}" for number in range(20)]
    assert checked_tags(tags, tags, None) == tags
