"""`blame`: what a person and a program see of the history of a value."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.event_codec import StoredEvent
from agentreplay.recorder.events import Event
from agentreplay.recorder.hashes import comparison_hash
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import RunInfo
from agentreplay.replay.blame import FOLDED
from agentreplay.replay.changes import MISSING
from cli_runs import invoke, json_of, keep, output
from event_builder import EventBuilder, refund_log


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTREPLAY_STORE", str(tmp_path / "store.db"))
    return tmp_path


@pytest.fixture
def demo(elsewhere: Path) -> None:
    """Record the example: run1 fails, run2 is its child."""
    output("demo")


def kept(*payloads: Any, reason: str | None = None) -> EventBuilder:
    """A run in the store whose rounds each make the payload what is given, and decide to retry."""
    log = EventBuilder(payloads[0], applier="replace")
    for payload in payloads[1:]:
        log.begin()
        log.change(payload, "replace", reason=reason)
        log.add("step.decided", decision={"step": "Retry", "reasoning": f"round {log.round}"})
        log.end()
    log.finish(payload_hash=comparison_hash(log.payload))
    keep(log.events, Path("store.db"))
    return log


# -- for people --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("demo")
def test_blame_finds_the_mistake_of_the_demo() -> None:
    """The wrong total is blamed on step 7 and the coupon; before that it came with the order."""
    assert output("blame", "run1", "order.total").splitlines() == [
        "run1  refunds  failed  step 10",
        "order.total  77.7",
        "",
        "step 7, event 64: payload.changed in call 7.1 — The coupon SPRING takes 40 % off the total.",
        "~ order.total  129.5 → 77.7",
        "step 1, event 9: payload.changed — The request names an order.",
        "+ order.total  129.5",
        "  with order",
        "2 changes: 1 added, 1 replaced",
    ]


@pytest.mark.usefixtures("demo")
def test_blame_is_as_of_a_step() -> None:
    """What happened after it is not looked at; negative steps count from the end."""
    shown = output("blame", "run1", "/order/total", "--step", 6)
    assert shown.startswith("run1  refunds  failed  step 6\n/order/total  129.5\n\nstep 1, event 9: ")
    assert output("blame", "run1", "/order/total", "--step", -5) == shown
    assert invoke("blame", "run1", "order.total", "--step", 11).exit_code == 2


def test_of_an_object_is_shown_what_changed_inside() -> None:
    """Not two large values, but the differences between them, the first few unless all are asked for."""
    kept({"order": {"total": 1, "text": "x" * 500}}, {"order": {"total": 2, "text": "x" * 500, "tags": ["vip"]}})
    assert output("blame", "run1", "order").splitlines()[3:7] == [
        "step 1, event 2: payload.changed — Retry: round 1",
        "~ order.total  1 → 2",
        '+ order.tags  ["vip"]',
        "step 0, event 0: run.started",
    ]
    kept({"order": {}}, {"order": {f"key {n}": n for n in range(12)}})
    assert "  … 4 more changes" in output("blame", "run2", "order")
    assert "… " not in output("blame", "run2", "order", "--full")


def test_a_decision_stands_for_a_reason_that_was_not_given() -> None:
    """A reason that was given with the change is better."""
    kept({"n": 1}, {"n": 2})
    kept({"n": 1}, {"n": 2}, reason="because\nof it")
    assert "step 1, event 2: payload.changed — Retry: round 1\n" in output("blame", "run1", "n")
    assert "step 1, event 2: payload.changed — because of it\n" in output("blame", "run2", "n")


def test_a_value_that_is_gone_says_since_when() -> None:
    """The removal is the first that is listed."""
    kept({"draft": True, "n": 1}, {"n": 1}, {"n": 2})
    assert output("blame", "run1", "draft").splitlines()[1:] == [
        "draft  gone since event 2 of step 1",
        "",
        "step 1, event 2: payload.changed — Retry: round 1",
        "- draft  true",
        "step 0, event 0: run.started",
        "+ draft  true",
        "2 changes: 1 added, 1 removed",
    ]


def test_an_item_is_shown_where_it_was() -> None:
    """The headline has the path as it was typed, each change the path of its time."""
    first, second = {"id": "a", "v": 1}, {"id": "b", "v": 1}
    kept([first], [{**first, "v": 2}], [second, {**first, "v": 2}])
    shown = output("blame", "run1", "[1].v")
    assert shown.splitlines()[1] == "[1].v  2"
    assert "~ [0].v  1 → 2\n" in shown


def test_a_path_that_never_was_is_a_usage_error() -> None:
    """The message says what may have been meant."""
    kept({"order": {"total": 1}})
    result = invoke("blame", "run1", "order.totl")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "error: run1 has no order.totl at step 0, and had none before; did you mean order.total?\n"
    )
    assert invoke("blame", "run1", "order[").exit_code == 2
    assert invoke("blame", "run7", "order").exit_code == 3


def test_of_a_long_history_the_newest_changes_are_shown() -> None:
    """How many, and the command that shows all of them, stand at the end; -n says how many."""
    kept(*[{"a b": n} for n in range(100)])
    shown = output("blame", "run1", '["a b"]')
    assert shown.count("\n~ ") == 30
    *_, summary, last = shown.splitlines()
    assert summary == "100 changes: 1 added, 99 replaced"
    more = re.fullmatch(r"The newest 30 are shown; all: agentreplay (.*)", last)
    assert more is not None
    assert more[1] == "blame run1 '[\"a b\"]' --step 99 -n 100"
    assert output("blame", "run1", "/a b", "-n", 100).count("\n~ ") == 99
    assert [row["new"] for row in json_of("blame", "run1", "/a b", "-n", 2)] == [99, 98]
    assert len(json_of("blame", "run1", "/a b")) == 100


def test_nothing_that_was_recorded_acts_on_the_terminal() -> None:
    """Keys, values and reasons are shown, whatever they hold, without a control character."""
    nasty = "\x1b[2J[bold]\u202e"
    kept({nasty: {nasty: 1}}, {nasty: nasty}, {nasty: {nasty: 2}}, reason=nasty)
    pointer = f"/{nasty}/{nasty}"
    for path in (pointer, f"/{nasty}", ""):
        shown = output("blame", "run1", path)
        assert "[bold]" in shown
        assert all(char.isprintable() or char == "\n" for char in shown)


# -- for programs ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("demo")
def test_blame_tells_programs_what_a_diff_tells_them() -> None:
    """A list as that of `diff`, newest first, with the reason and what else there is to know."""
    rows = json_of("blame", "run1", "order.total")
    assert rows == [
        {
            "path": "/order/total",
            "display": "order.total",
            "kind": "replace",
            "old": 129.5,
            "new": 77.7,
            "cause": {"seq": 64, "step": 7, "kind": "payload.changed", "call": "7.1"},
            "why": "The coupon SPRING takes 40 % off the total.",
            "note": None,
        },
        {
            "path": "/order/total",
            "display": "order.total",
            "kind": "add",
            "new": 129.5,
            "cause": {"seq": 9, "step": 1, "kind": "payload.changed", "call": None},
            "why": "The request names an order.",
            "note": "with order",
        },
    ]
    (of_the_step,) = [row for row in json_of("diff", "run1", "--step", 7) if row["path"] == "/order/total"]
    assert {name: rows[0][name] for name in of_the_step} == of_the_step


def test_secrets_are_shown_as_the_tokens_that_stand_for_them() -> None:
    """A secret that changed shows as two tokens, one that did not as no change."""
    with ar.record("shop", payload={"api_key": "sk-proj-" + "a" * 40}) as run:
        for letter in "bb":
            with run.round() as r:
                r.change(update={"api_key": "sk-proj-" + letter * 40})
    newest, oldest = json_of("blame", "run1", "api_key")
    assert (newest["cause"]["step"], oldest["cause"]["step"]) == (1, 0)
    assert newest["old"] == oldest["new"] != newest["new"]
    assert all("sk-proj" not in row["new"] for row in (newest, oldest))


def test_blame_in_python_is_the_same() -> None:
    """`ar.blame` takes a run, a path, and the store; a notebook shows the changes as a table."""
    log = kept({"n": {"x": 1}}, {"n": {"x": 2}})
    store = ar.open_store("store.db")
    found = ar.blame("run1", "n.x", store)
    assert [(change.path, change.kind, change.old, change.new) for change in found] == [
        ("/n/x", "replace", 1, 2),
        ("/n/x", "add", MISSING, 1),
    ]
    assert ar.blame(1, "/n/x") == found
    assert [change.cause and change.cause.seq for change in ar.blame("run1", "n.x", step=0)] == [0]
    assert isinstance(found[0], ar.Change)
    assert found[0].cause is not None
    assert log.events[found[0].cause.seq].kind == "payload.changed"
    assert "<td>n.x</td><td>1</td><td>2</td>" in found._repr_html_()  # type: ignore[attr-defined]  # for notebooks
    with pytest.raises(ar.RunNotFound):
        ar.blame("run9", "n")
    with pytest.raises(ar.UsageError):
        ar.blame("run1", "n", step=9)


class _Watched(MemoryStore):
    """Keeps count of what is decoded."""

    def __init__(self) -> None:
        super().__init__()
        self.decoded: list[str] = []

    def decode(self, info: RunInfo, row: StoredEvent, *, conversations: bool = True) -> Event:
        """Decode a row and keep its kind."""
        self.decoded.append(row.kind)
        return super().decode(info, row, conversations=conversations)


def test_only_what_the_payload_is_made_of_is_decoded() -> None:
    """A blame reads a run once, and of most of its events no more than their kind."""
    log = refund_log()
    store = _Watched()
    store.append(store.create_run("refunds"), -1, log.events)
    assert [change.cause and change.cause.step for change in ar.blame("run1", "status", store)] == [1, 1]
    assert store.decoded == [event.kind for event in log.events if event.kind in FOLDED]
