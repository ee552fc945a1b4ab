"""The tree that a run belongs to, whatever of it is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.examples import refunds
from agentreplay.recorder.errors import RunNotFound
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.replay.forks import RunTree, tree_of
from cassette_runs import (
    HISTORY,
    UID,
    a_round,
    add_raw,
    event,
    finished,
    fork_at,
    record_family,
    record_forks,
    started,
    stored,
)


def drawn(tree: RunTree) -> list[tuple[int, str, str, int | None]]:
    """Of each run of a tree: depth, name, kind, step."""
    return [(run.depth, run.run, run.kind, run.step) for run in tree.runs]


def test_a_tree_has_forks_and_child_runs_where_they_began() -> None:
    """Below the run that they came from, in the order of the steps; every run of a tree has the same tree."""
    store = MemoryStore()
    record_forks(store)
    expected = [
        (0, "run1", "root", None),
        (1, "run2", "child", 1),
        (1, "run3", "child", 2),
        (2, "run4", "child", 0),
        (1, "run5", "fork", 3),
        (2, "run6", "fork", 4),
    ]
    for run in ("run1", "run4", "run6"):
        tree = tree_of(run, store)
        assert (tree.run, drawn(tree)) == (run, expected)
    assert [run.above for run in tree.runs] == [None, "run1", "run1", "run3", "run1", "run5"]


def test_a_fork_says_what_was_edited_and_how_it_ended() -> None:
    """Edits as the log tells them; a value, or why it gave up."""
    store = MemoryStore()
    failed = refunds.step.run(refunds.START, store=store).run.uid
    ar.rerun(failed, refunds.step, 7, set={"/order/coupon/used": True}, allow=["issue_refund"], store=store)
    parent, child, fork = tree_of(failed, store).runs
    assert (parent.status, parent.said) == ("failed", "a refund of 95.50 is more than the 77.70 that was paid for A-17")
    assert (child.kind, child.step, child.value) == ("child", 5, {"broken": ["LAMP-2"], "confidence": 0.93})
    assert (fork.step, fork.status) == (7, "completed")
    assert fork.edits == ({"edit": "set", "path": "/order/coupon/used", "value": True},)
    assert fork.value == "Dear Acme GmbH, we refund 95.50 for your lamp."
    row = fork.to_json()
    assert (row["edits"], row["error"], row["above"]) == (list(fork.edits), None, "run1")


def test_a_parent_of_which_only_a_beginning_is_here_is_shown_as_that(tmp_path: Path) -> None:
    """A fork that came in a cassette brings its parent's beginning; the step at which it parted is known."""
    store = MemoryStore()
    record_forks(store)
    path = ar.export_run(UID(0x11), tmp_path / "fork.jsonl", store=store)
    elsewhere = MemoryStore()
    ar.import_file(path, store=elsewhere)
    tree = tree_of(UID(0x11), elsewhere)
    parent, fork = tree.runs[0], tree.runs[-1]
    assert (parent.uid, parent.note) == (UID(1), "only the beginning that a fork shares is in this store")
    assert (fork.uid, fork.kind, fork.step) == (UID(0x11), "fork", 4)


def test_a_parent_that_is_not_here_is_shown_by_its_name() -> None:
    """A child run that was imported without its parent, or one whose parent was taken out."""
    store = MemoryStore()
    child = store.create_run("inspector", uid=UID(3), parent=UID(1))
    store.append(child, -1, [started("inspector", parent={"run": UID(1)}), finished(1, 0)])
    tree = tree_of(UID(3), store)
    assert drawn(tree) == [(0, UID(1), "root", None), (1, "run1", "child", None)]
    assert tree.runs[0].note == "it is not in this store"


def test_a_damaged_run_is_shown_with_what_is_wrong_with_it() -> None:
    """The others are shown as they are."""
    store = MemoryStore()
    parent = record_family(store)
    fork_at(store, parent, 14, UID(0x10))
    store.append(fork_at(store, parent, 14, UID(0x11)), 15, a_round(16, 3, HISTORY[:7]))
    row = next(store.rows(UID(0x10), 14, 15))
    row.body = b"{"
    sound, broken = tree_of("run1", store).runs[-2:]
    assert (sound.step, sound.note, broken.step) == (3, None, None)
    assert broken.note is not None
    assert "event 15 (run.forked): its stored data cannot be read" in broken.note
    started_child = next(row for row in store.rows("run1") if row.kind == "subrun.started")
    started_child.body = b"{"
    assert [run.step for run in tree_of("run1", store).runs if run.kind == "child"] == [None, None, 0]


def test_runs_that_come_from_each_other_end(tmp_path: Path) -> None:
    """A store that says so is damaged; the tree shows each run once."""
    store = MemoryStore()
    add_raw(store, [stored(0, b"{}")], UID(1), parent=UID(2))
    add_raw(store, [stored(0, b"{}")], UID(2), parent=UID(1))
    assert sorted(run.uid for run in tree_of(UID(1), store).runs) == [UID(1), UID(2)]


@pytest.mark.parametrize("shape", ["wide", "deep"])
def test_hundreds_of_forks_are_one_tree(shape: str) -> None:
    """Side by side, or each of the one before."""
    store: EventStore = MemoryStore()
    above = record_family(store)
    seq = 14
    for number in range(400):
        uid = f"01900000-0000-7000-9000-{number:012x}"
        fork = fork_at(store, above, seq, uid)
        if shape == "deep":
            above, seq = fork, seq + 1
    tree = tree_of("run1", store)
    assert len(tree.runs) == 404
    assert max(run.depth for run in tree.runs) == (400 if shape == "deep" else 2)
    forks = [run for run in tree.runs if run.kind == "fork"]
    assert [run.run for run in forks] == [f"run{number}" for number in range(5, 405)]


def test_the_json_of_a_tree_is_flat() -> None:
    """A list that any program reads, however deep the tree is."""
    store = MemoryStore()
    record_forks(store)
    data: dict[str, Any] = tree_of("run6", store).to_json()
    assert data["run"] == "run6"
    assert data["runs"][-1] == {
        "run": "run6", "uid": UID(0x11), "kind": "fork", "depth": 2, "above": "run5", "step": 4, "edits": [],
        "agent": "refunds", "status": "completed", "steps": 4, "duration": 7.0, "value": None, "error": None,
        "said": None, "note": None,
    }  # fmt: skip


def test_a_run_that_is_not_there_has_no_tree() -> None:
    """It is named."""
    with pytest.raises(RunNotFound, match="run9"):
        tree_of("run9", MemoryStore())


def test_a_fork_that_never_began_is_part_of_the_tree() -> None:
    """Its process ended before its first event; nothing is known of it but where it is."""
    store = MemoryStore()
    parent = record_family(store)
    store.create_run("refunds", uid=UID(0x10), fork_of=parent.uid, fork_seq=14)
    fork = tree_of("run5", store).runs[-1]
    assert (fork.run, fork.kind, fork.step, fork.edits) == ("run5", "fork", None, ())


def test_a_run_with_an_error_says_which() -> None:
    """As data: the type and the message."""
    store = MemoryStore()
    run = store.create_run("a", uid=UID(1))
    error = {"type": "shop.Refused", "message": "no"}
    ending = event("run.finished", 1, status="failed", stop_reason="error", error=error)
    store.append(run, -1, [started("a"), ending])
    assert tree_of(UID(1), store).to_json()["runs"][0]["error"] == error
