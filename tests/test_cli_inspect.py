"""`ls`, `show`, `state` and `diff`: what a person and a program see of recorded runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import agentreplay as ar
import jsonpatch
import pytest
from agentreplay.recorder.hashes import comparison_hash
from cli_runs import invoke, json_of, keep, output
from event_builder import EventBuilder, refund_log
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTREPLAY_STORE", str(tmp_path / "store.db"))
    return tmp_path


@pytest.fixture
def demo(elsewhere: Path) -> None:
    """Record the example: run1 fails, run2 is its child."""
    output("demo")


def counting(rounds: int, payload: Any = None, path: str = "store.db", uid: str | None = None) -> EventBuilder:
    """A run that counts, in a store."""
    log = EventBuilder(payload or {"n": 0})
    for n in range(1, rounds + 1):
        log.begin()
        log.call(f"{n}.1", "tick", arguments={"n": n})
        log.give(f"{n}.1", result=n, duration=0.25)
        log.change({"updateElements": {"n": n}}, source={"kind": "action", "call": f"{n}.1"}, reason=f"tick {n}")
        log.add("step.decided", decision={"step": "Actions", "reasoning": f"count to {n}"})
        log.end()
    log.finish(payload_hash=comparison_hash(log.payload))
    keep(log.events, Path(path), uid=uid)
    return log


# -- ls ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("demo")
def test_ls_tells_programs_what_there_is() -> None:
    """Each run has these fields and no others; a child run has a number of its own and names its parent."""
    parent, child = json_of("ls")
    assert {**parent, "uid": 0, "started": 0, "duration": 0} == {
        "run": "run1", "uid": 0, "agent": "refunds", "status": "failed", "steps": 10, "started": 0, "duration": 0,
        "origin": "recorded", "parent": None, "silent_since": None, "partial": False, "tags": [],
    }  # fmt: skip
    assert (child["run"], child["agent"], child["status"], child["parent"]) == (
        "run2",
        "inspector",
        "completed",
        "run1",
    )
    assert UUID7.fullmatch(parent["uid"])
    started = datetime.fromisoformat(parent["started"])
    assert started.utcoffset() == timedelta(0)
    assert timedelta(0) <= datetime.now(UTC) - started < timedelta(minutes=10)
    assert 0 < parent["duration"] < 60


@pytest.mark.usefixtures("demo")
def test_ls_shows_people_the_newest_last() -> None:
    """A line per run under a headline, children marked as such."""
    head, first, second = output("ls").splitlines()
    assert head.split() == ["run", "agent", "status", "steps", "started", "took", "origin", "parent"]
    assert re.match(r"run1  refunds      failed        10  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\d", first)
    assert re.match(r"run2  ↳ inspector  completed      1  .* recorded  child of run1", second)


@pytest.mark.usefixtures("demo")
def test_ls_can_be_limited_to_the_last() -> None:
    """`-n 1` is the newest run alone, for people with the number of all."""
    assert [run["run"] for run in json_of("ls", "-n", 1)] == ["run2"]
    assert output("ls", "--limit", 1).splitlines()[-1] == "The last 1 of 2 runs."
    assert len(json_of("ls", "-n", 50)) == 2


def record_tagged() -> None:
    """run1 and run3 are nightly, run3 of the EU too; run2 has no tags."""
    for tags in (["nightly"], [], ["nightly", "eu"]):
        with ar.record("tagged", tags=tags):
            pass


def test_runs_are_listed_by_their_tags() -> None:
    """Of several, those that have each; `-n` counts what fits, and a tag is meant as a whole."""
    record_tagged()

    def listed(*options: object) -> list[str]:
        return [run["run"] for run in json_of("ls", *options)]

    assert listed("--tag", "nightly") == ["run1", "run3"]
    assert listed("--tag", "nightly", "--tag", "eu") == ["run3"]
    assert listed("--tag", "nightly", "-n", 1) == ["run3"]
    assert listed("--tag", "night") == []
    assert json_of("ls")[2]["tags"] == json_of("show", "run3")["tags"] == ["nightly", "eu"]
    assert output("ls", "--tag", "night") == "Of 3 runs none is tagged night.\n"
    assert output("ls", "--tag", "nightly", "-n", 1).splitlines()[-1] == "The last 1 of 2 runs."


def test_people_see_the_tags_of_a_run_where_there_are_any() -> None:
    """In the list and at the head of the run."""
    record_tagged()
    head, first, second, third = output("ls").splitlines()
    assert head.split()[-1] == "tags"
    assert (first.split()[-1], third.split()[-2:]) == ("nightly", ["nightly,", "eu"])
    assert second.endswith("recorded")
    assert "  tags      nightly, eu\n" in output("show", "run3")
    assert "tags" not in output("show", "run2")


def test_an_empty_store_says_what_to_do(elsewhere: Path) -> None:
    """A store without runs is no error: it says how to record one."""
    ar.open_store(elsewhere / "store.db")
    assert json_of("ls") == []
    assert "agentreplay demo" in output("ls")


def test_a_run_in_progress_has_no_duration(elsewhere: Path) -> None:
    """What is not known yet is null."""
    log = EventBuilder({})
    log.begin()
    keep(log.events, elsewhere / "store.db")
    (run,) = json_of("ls")
    assert (run["status"], run["steps"], run["duration"]) == ("running", 1, None)
    assert json_of("show")["steps"][0] == {
        "step": 1, "decision": None, "outcome": None, "duration": None, "reasoning": None, "calls": [], "changes": [],
        "warnings": [], "children": [],
    }  # fmt: skip
    assert "1  –            in progress" in output("show")


def test_a_long_name_leaves_the_others_in_sight(elsewhere: Path) -> None:
    """In tables for people names are cut, also where no terminal says how wide it is; JSON has them whole."""
    log = EventBuilder({})
    started = log.events[0].data.model_copy(update={"agent": "n" * 10_000})
    log.events[0] = log.events[0].model_copy(update={"data": started})
    keep(log.events, elsewhere / "store.db")
    shown = output("ls")
    assert max(map(len, shown.splitlines())) < 200
    assert "n" * 59 + "…  silent since" in shown
    assert "n" * 59 + "…" in output("tree")
    assert json_of("ls")[0]["agent"] == "n" * 10_000


# -- which run -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("demo")
def test_a_run_has_many_names() -> None:
    """By number, with or without the word, by uid, by the start of a uid, or as the last one."""
    uid = json_of("ls")[0]["uid"]
    for name in ("run1", "1", uid, uid.upper(), uid[:20], "@last"):
        assert json_of("show", name)["uid"] == uid
    assert json_of("show")["uid"] == uid


# -- show ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("demo")
def test_show_tells_programs_what_each_step_did() -> None:
    """Every step has its decision, outcome, calls and changed paths."""
    run = json_of("show", "run1")
    assert (run["run"], run["agent"], run["status"], run["parent"]) == ("run1", "refunds", "failed", None)
    steps = run["steps"]
    assert [step["step"] for step in steps] == list(range(1, 11))
    assert [step["decision"] for step in steps] == [
        "Actions", "Actions", "Retry", "Actions", "Sub-Agent", "Retry", "Retry", "Retry", "Actions", "Failed",
    ]  # fmt: skip
    assert [step["outcome"] for step in steps] == ["continue"] * 9 + ["failed"]
    assert steps[6]["changes"] == ["/order/total", "/totals_checked"]
    assert steps[4]["children"] == [{"run": json_of("ls")[1]["uid"], "agent": "inspector", "status": "completed"}]
    calls = [(call["call"], call["kind"], call["name"], call["status"]) for call in steps[8]["calls"]]
    assert calls == [("9.1", "model", "ask", "returned"), ("9.2", "tool", "issue_refund", "failed")]
    assert all(call["duration"] > 0 for call in steps[8]["calls"])


@pytest.mark.usefixtures("demo")
def test_show_tells_people_what_each_step_did() -> None:
    """A line for the decision, and below it what was called and changed."""
    text = output("show", "run1")
    assert text.startswith("run1  refunds  failed\n")
    assert re.search(
        r"""
 7  Retry        continue +[\d.]+ .s  “The coupon SPRING takes 40 % off the total.”
    ├ 7.1  model ask  returned  [\d.]+ .s
    ├ ~ order.total  129.5 → 77.7
    └ . totals_checked  true
""".replace(" .s", " [mµ]?s")
        .replace("└ .", "└ [+]")
        .replace("├ ~", "├ ~"),
        text,
    )
    assert "RefundRejected: a refund of 95.50 is more than the 77.70 that was paid for A-17" in text
    assert "↳ run2  inspector  completed" in text


@pytest.mark.usefixtures("demo")
def test_show_of_one_step_has_its_details() -> None:
    """A step that is shown alone has what its calls were asked and gave, and its reasoning in full."""
    text = output("show", "run1", "--step", 1)
    assert 'asked  {"order_id": "A-17"}' in text
    assert 'gave   {"id": "A-17", "customer": "C-104"' in text
    assert "lookup_customer" not in text
    assert [step["step"] for step in json_of("show", "run1", "--step", -1)["steps"]] == [10]


@pytest.mark.usefixtures("demo")
def test_show_in_short_is_a_line_per_round() -> None:
    """`--short` leaves the deeds out."""
    lines = output("show", "run1", "--short").split("\n\n")[1].splitlines()
    assert len(lines) == 10
    assert lines[6].startswith(" 7  Retry        continue")


def test_show_of_a_long_run_has_its_ends() -> None:
    """Of hundreds of rounds the first and last are shown, with the command for those in between; JSON has them all."""
    counting(100)
    text = output("show")
    shown = [int(found) for found in re.findall(r"^ *(\d+)  Actions", text, re.MULTILINE)]
    assert shown == [*range(1, 21), *range(81, 101)]
    assert "\n… 60 more rounds: agentreplay show run1 --rounds 21:80\n" in text
    assert len(json_of("show")["steps"]) == 100


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ("30:32", [30, 31, 32]),
        (":2", [1, 2]),
        ("99:", [99, 100]),
        ("-2:", [99, 100]),
        ("-3:-2", [98, 99]),
        ("98:1000", [98, 99, 100]),
        ("7", [7]),
        (":", list(range(1, 101))),
    ],
)
def test_rounds_can_be_chosen(rounds: str, expected: list[int]) -> None:
    """`--rounds A:B` includes both ends, either may be left out, and negative ones count from the end."""
    counting(100)
    assert [step["step"] for step in json_of("show", "--rounds", rounds)["steps"]] == expected
    text = output("show", "--rounds", rounds)
    assert [int(found) for found in re.findall(r"^ *(\d+)  Actions", text, re.MULTILINE)] == expected


@pytest.mark.parametrize("rounds", ["a:b", "1:2:3", "", "5:3", "200:"])
def test_rounds_that_make_no_sense_are_refused(rounds: str) -> None:
    """What is no range, or not of this run, is a usage error."""
    counting(10)
    result = invoke("show", "--rounds", rounds)
    assert (result.exit_code, result.stdout) == (2, "")


def test_show_has_everything_that_happened() -> None:
    """Interrupts, reports, a user's own events and what was before the first round are all there."""
    keep(refund_log().events, Path("store.db"))
    assert "x.note  [1]" in output("show", "--step", 1)
    second, third = output("show", "--step", 2), output("show", "--step", 3)
    for word in ("? approve", "answered i1", "auditor", "skill.activated", "plan.proposed", "memory.written"):
        assert word in second
    assert "messages 0 to 1 replaced by 1 (compaction)" in third
    assert "report: done" in third
    assert "more notes" in output("show")


def test_show_names_where_a_log_stops_making_sense() -> None:
    """What can be read is shown; then the event is named, as data that cannot be read."""
    log = counting_log_that_breaks()
    keep(log.events, Path("store.db"))
    result = invoke("show")
    assert result.exit_code == 3
    assert "1  Actions" in result.stdout
    assert "stops making sense at event 5 (round.finished, round 2)" in result.stderr
    assert invoke("show", "--json").stdout == ""


def counting_log_that_breaks() -> EventBuilder:
    log = EventBuilder({"n": 0})
    log.begin()
    log.add("step.decided", decision={"step": "Actions"})
    log.end()
    log.begin()
    event = log.end()
    log.events[-1] = event.model_copy(update={"data": event.data.model_copy(update={"payload_hash": "merkle1:0"})})
    return log


# -- state ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("demo")
def test_state_is_the_payload_at_a_step() -> None:
    """Without a step it is the last; 0 is the start, negative ones count from the end."""
    assert json_of("state", "run1", "--step", 0) == {
        "order_id": "A-17",
        "request": "The desk lamp arrived broken. I want my money back.",
    }
    assert json_of("state", "run1", "--step", 6)["order"]["total"] == 129.5
    assert json_of("state", "run1", "--step", 7)["order"]["total"] == 77.7
    assert json_of("state", "run1", "--step", -4) == json_of("state", "run1", "--step", 7)
    assert json_of("state", "run1") == json_of("state", "run1", "--step", 10)


@pytest.mark.usefixtures("demo")
def test_the_whole_state_has_every_part() -> None:
    """`--all` gives what the fold knows: messages, usage, children, status and so on."""
    state = json_of("state", "run1", "--all")
    assert (state["step"], state["status"], state["stop_reason"]) == (10, "failed", "failed")
    assert state["payload"] == json_of("state", "run1")
    assert [message["role"] for message in state["messages"][:3]] == ["system", "user", "assistant"]
    assert len(state["children"]) == 1
    text = output("state", "run1", "--all")
    for part in ("payload", "messages", "children", "usage", "decision"):
        assert f"\n{part}\n" in text
    assert "\nopen calls\n" not in text


@pytest.mark.usefixtures("demo")
def test_state_is_shown_as_json_in_lines() -> None:
    """Small values stand on one line, larger ones are broken; plain data reads as JSON."""
    lines = output("state", "run1", "--step", 2).splitlines()
    assert lines[0] == "run1  refunds  step 2  running"
    assert lines[1:4] == [
        "{",
        '  "order_id": "A-17",',
        '  "request": "The desk lamp arrived broken. I want my money back.",',
    ]
    assert '    "coupon": {"code": "SPRING", "percent": 40},' in lines


@pytest.mark.parametrize(
    "payload", [None, 1, "text", [], {}, [1, [2, [3, [4]]]], {"a": {"b": {"c": {"d": {}}}}}, ["x" * 200]]
)
def test_every_payload_can_be_shown(payload: Any) -> None:
    """A payload may be anything."""
    log = EventBuilder(payload)
    log.begin()
    log.end()
    keep(log.events, Path("store.db"))
    assert json_of("state") == payload
    assert output("state").startswith("run1  refunds  step 1  running\n")


# -- diff ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("demo")
def test_diff_tells_programs_what_a_step_changed() -> None:
    """Every change has its path in both forms, its kind and values, and the event and call that caused it."""
    total, checked = json_of("diff", "run1", "--step", 7)
    assert {**total, "cause": 0} == {
        "path": "/order/total", "display": "order.total", "kind": "replace", "old": 129.5, "new": 77.7, "cause": 0,
    }  # fmt: skip
    assert (checked["path"], checked["kind"], checked["new"]) == ("/totals_checked", "add", True)
    assert total["cause"] == checked["cause"]
    assert (total["cause"]["step"], total["cause"]["kind"]) == (7, "payload.changed")
    assert total["cause"].keys() == {"seq", "step", "kind", "call"}


@pytest.mark.usefixtures("demo")
def test_diff_tells_people_what_a_step_changed_and_why() -> None:
    """What was decided and called stands above the changes, the reason above those it led to."""
    text = output("diff", "run1", "--step", 7)
    head, changes = text.split("step 7, event ")
    assert head.startswith("run1  refunds  failed  step 7\n")
    assert "Retry" in head
    assert "The coupon SPRING takes 40 % off the total." in head
    assert "model ask" in head
    assert changes.splitlines()[0].endswith("The coupon SPRING takes 40 % off the total.")
    assert changes.splitlines()[1:] == [
        "~ order.total  129.5 → 77.7",
        "+ totals_checked  true",
        "2 changes: 1 added, 1 replaced",
    ]


def test_a_cause_names_the_call_that_asked() -> None:
    """A change that a tool's result led to has that call."""
    counting(3)
    (change,) = json_of("diff", "--step", 2)
    assert change["cause"] == {"seq": 10, "step": 2, "kind": "payload.changed", "call": "2.1"}
    assert "payload.changed in call 2.1 — tick 2" in output("diff", "--step", 2)


@pytest.mark.usefixtures("demo")
def test_diff_of_any_two_steps() -> None:
    """From one step to another, each change with the step that made it; either end may be left out."""
    changes = {change["path"]: change["cause"]["step"] for change in json_of("diff", "run1", "--from", 6, "--to", 9)}
    assert changes == {"/order/total": 7, "/totals_checked": 7, "/reply": 8, "/problem": 9}
    assert json_of("diff", "run1", "--from", 9) == json_of("diff", "run1", "--from", 9, "--to", 10)
    assert json_of("diff", "run1", "--to", 3) == json_of("diff", "run1", "--from", 0, "--to", 3)
    text = output("diff", "run1", "--from", 6, "--to", 9)
    assert "from step 6 to step 9" in text
    assert "  7  Retry        “The coupon SPRING takes 40 % off the total.”" in text


@pytest.mark.usefixtures("demo")
def test_diff_backwards_undoes() -> None:
    """From a later step to an earlier one, what was added is removed, and the cause is still the event that did it."""
    changes = json_of("diff", "run1", "--from", 7, "--to", 6)
    assert [(change["kind"], change["path"], change["cause"]["step"]) for change in changes] == [
        ("replace", "/order/total", 7),
        ("remove", "/totals_checked", 7),
    ]


@pytest.mark.usefixtures("demo")
def test_a_step_that_changed_nothing_says_so() -> None:
    """No difference is no error, and not found by `--exit-code` either."""
    assert json_of("diff", "run1") == []
    assert output("diff", "run1").splitlines()[-1] == "no difference"
    assert output("diff", "run1", "--exit-code").splitlines()[-1] == "no difference"


@pytest.mark.usefixtures("demo")
def test_exit_code_tells_a_difference() -> None:
    """With `--exit-code` a difference is 1; without, 0."""
    assert json_of("diff", "run1", "--step", 7, "--exit-code", code=1) == json_of("diff", "run1", "--step", 7)


@pytest.mark.usefixtures("demo")
def test_patch_makes_the_new_state_of_the_old() -> None:
    """The printed patch is an RFC 6902 document, which another library applies."""
    old, new = json_of("state", "run1", "--step", 2), json_of("state", "run1", "--step", 9)
    patch = output("diff", "run1", "--from", 2, "--to", 9, "--patch")
    assert jsonpatch.JsonPatch.from_string(patch).apply(old) == new
    back = output("diff", "run1", "--from", 9, "--to", 2, "--patch")
    assert jsonpatch.JsonPatch.from_string(back).apply(new) == old


TREES = st.recursive(
    st.sampled_from([None, True, 0, 1, 1.5, "a", "b"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "0", "x/y", "~"]), inner),
    max_leaves=12,
)


@given(old=TREES, new=TREES)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_patch_of_any_two_payloads_applies(old: Any, new: Any, tmp_path: Path) -> None:
    """Lists, nulls and changes of type included."""
    log = EventBuilder(old, applier="replace")
    log.begin()
    log.change(new)
    log.end()
    path = tmp_path / "patches.db"
    run = keep(log.events, path).runs()[-1].id
    patch = output("diff", run, "--patch", "--store", path)
    assert comparison_hash(jsonpatch.JsonPatch.from_string(patch).apply(old)) == comparison_hash(new)


def test_diff_of_two_runs_names_the_run_of_each_cause() -> None:
    """The same step of two runs is compared; a cause is an event of the run in which it happened."""
    counting(3)
    other = EventBuilder({"n": 0, "extra": True})
    for _ in range(3):
        other.begin()
        other.end()
    other.finish("failed")
    keep(other.events, Path("store.db"))
    changes = json_of("diff", "run1", "run2", "--step", 3)
    assert [
        (change["kind"], change["path"], change["cause"]["run"], change["cause"]["kind"]) for change in changes
    ] == [
        ("replace", "/n", "run1", "payload.changed"),
        ("add", "/extra", "run2", "run.started"),
    ]
    text = output("diff", "run1", "run2", "--step", 3)
    assert text.startswith("run1  refunds  completed  step 3\nrun2  refunds  failed  step 3\n")
    assert "payload.changed in call 3.1 — run1: tick 3" in text


def test_diff_of_other_parts() -> None:
    """Messages and other parts are compared on demand; the paths start with the part."""
    keep(refund_log().events, Path("store.db"))
    changes = json_of("diff", "--step", 2, "--part", "scratchpad", "--part", "skills")
    assert [(change["path"], change["kind"], change["cause"]["kind"]) for change in changes] == [
        ("/scratchpad", "replace", "scratchpad.changed"),
        ("/skills/0", "add", "skill.activated"),
    ]
    before, after = json_of("state", "--step", 1, "--all"), json_of("state", "--step", 2, "--all")
    patch = output("diff", "--step", 2, "--part", "scratchpad", "--part", "skills", "--patch")
    patched = jsonpatch.JsonPatch.from_string(patch).apply(before)
    assert (patched["scratchpad"], patched["skills"]) == (after["scratchpad"], after["skills"])
    assert invoke("diff", "--part", "mood").exit_code == 2


def test_warnings_of_a_change_are_shown() -> None:
    """What a change was warned of stands beside what it did, for one step and for several."""
    log = EventBuilder({"n": 0})
    log.begin()
    log.change({"updateElements": {"n": 1}}, warnings=["something was lost"])
    log.end()
    log.begin()
    log.end()
    keep(log.events, Path("store.db"))
    assert "! something was lost" in output("diff", "--step", 1)
    assert "! event 2: something was lost" in output("diff", "--from", 0, "--to", 2)
    assert json_of("show")["steps"][0]["warnings"] == ["something was lost"]


def test_long_values_are_summed_up_unless_asked() -> None:
    """A diff stays short; `--full` writes everything."""
    log = EventBuilder({})
    log.begin()
    log.change({"newElements": {"text": "x" * 5_000, "list": list(range(500))}})
    log.end()
    keep(log.events, Path("store.db"))
    assert len(output("diff")) < 1_000
    full = output("diff", "--full")
    assert '"' + "x" * 5_000 + '"' in full
    assert "498, 499]" in full


def test_the_last_step_of_a_long_run_is_found_from_its_end() -> None:
    """A negative step is right where the last round is far from the end of the log, and where it never finished."""
    log = EventBuilder({"n": 0})
    log.begin()
    log.change({"updateElements": {"n": 1}})
    for n in range(700):
        log.add("report", message=str(n))
    keep(log.events, Path("store.db"))
    assert [change["new"] for change in json_of("diff", "--step", -1)] == [1]
    assert json_of("state", "--step", -2) == {"n": 0}
