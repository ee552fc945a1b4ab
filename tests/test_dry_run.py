"""`rerun --dry-run`: what a re-run would do, told from the log; and from which step it is worth one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.locate import open_store
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.store import EventStore
from agentreplay.replay.edits import edits_of
from agentreplay.replay.planning import Plan, plan, step_of_failure
from cli_runs import invoke, json_of, output
from replayed_agents import at_work, calls_made


@ar.tool(safety="pure")
def look(n: int) -> int:
    return n


@ar.tool(safety="irreversible")
def wire(n: int) -> str:
    return f"wired {n}"


@ar.tool
def undeclared(n: int) -> int:
    return look(n=n)


@ar.model
def ask(messages: list[Any]) -> str:
    return "go on"


@ar.agent("child")
def child(round_index: int, context: ar.Context) -> ar.Complete[Any]:
    return ar.Complete(wire(n=look(n=9)))


@ar.agent("parent")
def parent(round_index: int, context: ar.Context) -> Any:
    context.now()
    if round_index == 1:
        context.change(new={"n": look(n=1), "secret": "x"})
        return ar.Continue()
    ask(messages=[{"role": "user", "content": "?"}])
    undeclared(n=2)
    wire(n=3)
    context.run_agent(child, {})
    return ar.Complete("done") if round_index == 3 else ar.Continue()


@pytest.fixture
def store() -> EventStore:
    """run1 is a run of three rounds, run2 and run3 are its children."""
    found = MemoryStore()
    parent.run({"a": 0}, store=found)
    return found


def planned(store: EventStore, step: int, **given: Any) -> Plan:
    options = {name: given.pop(name) for name in ("allow", "reuse", "executed") if name in given}
    return plan(store.events("run1"), step, edits_of(**given), run="run1", child=store.events, **options)


def fates(told: Plan) -> list[tuple[str, str]]:
    return [(f"{call.agent or ''}{call.call} {call.name}", call.fate) for call in told.calls]


# -- the plan ------------------------------------------------------------------------------------------------------


def test_each_recorded_call_has_its_fate(store: EventStore) -> None:
    """Models and safe tools are called, others refused; what is inside of a refused call is not made at all."""
    assert fates(planned(store, 3)) == [
        ("3.1 ask", "live"),
        ("3.2 undeclared", "refused"),
        ("3.4 wire", "refused"),
        ("child1.1 look", "live"),
        ("child1.2 wire", "refused"),
    ]
    assert planned(store, 3).refused == ("undeclared", "wire")


def test_what_is_allowed_is_live_with_what_is_inside(store: EventStore) -> None:
    """Also in a child run; other names stay refused."""
    assert fates(planned(store, 3, allow=["undeclared", "wire"])) == [
        ("3.1 ask", "live"),
        ("3.2 undeclared", "live"),
        ("3.3 look", "live"),
        ("3.4 wire", "live"),
        ("child1.1 look", "live"),
        ("child1.2 wire", "live"),
    ]


def test_edited_and_reused_answers_are_told(store: EventStore) -> None:
    """Edits are of the first live round; answers are used again in every one, but not in child runs."""
    told = planned(store, 2, tool_results={"2.2": 1}, model_responses={"2.1": "stop"}, skip=["2.4"])
    assert fates(told)[:4] == [
        ("2.1 ask", "edited"),
        ("2.2 undeclared", "edited"),
        ("2.4 wire", "skipped"),
        ("child1.1 look", "live"),
    ]
    reused = [fate for name, fate in fates(planned(store, 2, reuse=True)) if not name.startswith("child")]
    assert reused == ["reused"] * 6


def test_what_is_answered_from_the_log_is_counted(store: EventStore) -> None:
    """Calls, read values and child runs of the rounds before; nothing where they are not executed."""
    assert planned(store, 3).answered == {"calls": 4, "values": 2, "runs": 1}
    assert planned(store, 1).answered == {"calls": 0, "values": 0, "runs": 0}
    assert planned(store, 3, executed=False).answered is None


def test_changes_of_the_payload_are_told(store: EventStore) -> None:
    """As a diff of the state before the step; a secret by its place alone."""
    told = planned(
        store, 2, set={"/n": 2, "new": [1]}, patch=[{"op": "remove", "path": "/a"}], secrets={"/secret": "s"}
    )
    assert {(change.kind, change.path) for change in told.changes} == {
        ("remove", "/a"),
        ("replace", "/n"),
        ("add", "/new"),
    }
    assert told.edits[-1] == {"edit": "secret", "path": "/secret"}


def test_planning_consumes_and_appends_nothing(store: EventStore) -> None:
    """It reads the log."""
    before = [(info.uid, info.head_seq) for info in store.runs()]
    planned(store, 2)
    assert planned(store, 2) == planned(store, 2)
    assert [(info.uid, info.head_seq) for info in store.runs()] == before


# -- edits as a caller gives them ----------------------------------------------------------------------------------


def test_places_are_read_in_either_form() -> None:
    """A JSON Pointer, or as paths are shown."""
    edits = edits_of(set={"": 3, "order.items[0]": 1, "/a~1b": 2}, secrets={"keys.main": "s"})
    assert edits.set == {"/order/items/0": 1, "/a~1b": 2, "": 3}
    assert edits.secrets == {"/keys/main": "s"}


def test_an_input_may_be_none() -> None:
    """None is an input; none given is another thing."""
    assert (edits_of(input=None).input, edits_of().input) == ((None,), None)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"set": {"a[": 1}}, "cannot read the path 'a['"),
        ({"patch": {"op": "remove"}}, "patch is a JSON Patch: a list of operations"),
        ({"patch": ["remove"]}, "patch is a JSON Patch: a list of operations"),
        ({"skip": "7.2"}, "write ['7.2']"),
    ],
)
def test_edits_that_cannot_be_meant_are_refused(given: dict[str, Any], says: str) -> None:
    """Where they are given, and not later in the run."""
    with pytest.raises(UsageError) as caught:
        edits_of(**given)
    assert says in str(caught.value)


# -- the step of a failure -----------------------------------------------------------------------------------------


@ar.tool(safety="pure", raises=(ValueError,))
def brittle(n: int) -> int:
    raise ValueError(f"no {n}")


def failing(store: EventStore, step: Any) -> tuple[int, str]:
    agent = ar.agent("failing", max_rounds=4)(step)
    with suppress(KeyError, ar.RoundLimitReached):
        agent.run({}, store=store)
    return step_of_failure(store.events("@last"))


def test_an_exception_of_the_step_names_its_round() -> None:
    """Also where a call failed long before, which the agent got over."""

    def step(round_index: int, context: ar.Context) -> Any:
        if round_index == 1:
            with pytest.raises(ValueError):
                brittle(n=1)
        if round_index == 3:
            raise KeyError("lost")
        return ar.Continue()

    assert failing(MemoryStore(), step) == (3, "it ended the run: KeyError: 'lost'")


def test_an_agent_that_gives_up_names_the_round_of_the_call_that_made_it() -> None:
    """It says so rounds later."""

    def step(round_index: int, context: ar.Context) -> Any:
        if round_index == 2:
            with pytest.raises(ValueError):
                brittle(n=2)
        return ar.NextStep(step="Failed", errorMessage="no") if round_index == 4 else ar.Continue()

    assert failing(MemoryStore(), step) == (2, "call 2.1 failed: ValueError: no 2")


def test_without_a_failure_the_last_round_is_meant() -> None:
    """Of a run that completed, or gave up by itself; a run without rounds has none."""
    store = MemoryStore()
    assert failing(store, lambda i, c: ar.Complete(1) if i == 2 else ar.Continue()) == (2, "the last one")
    assert failing(store, lambda i, c: ar.NextStep(step="Failed", errorMessage="no")) == (1, "the last one")
    assert step_of_failure([]) == (0, "the last one")


def test_a_run_that_reached_its_bound_is_taken_up_in_its_last_round() -> None:
    """That is where it was when it was stopped."""
    step, why = failing(MemoryStore(), lambda i, c: ar.Continue())
    assert (step, why.partition(": ")[2].partition(":")[0]) == (4, "RoundLimitReached")


# -- on the command line -------------------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a shop, and run1, which failed in step 3."""
    with at_work(tmp_path, monkeypatch) as folder:
        output("run", "shop.py:step", code=1)
        calls_made()
        (folder / "shop.py").unlink()
        yield folder


def test_a_dry_run_executes_and_imports_nothing(shop: Path) -> None:
    """The code need not even be there; what is missing for the run is said."""
    text = output("rerun", "run1", "--step", 3, "--set", "/amount=3", "--dry-run")
    assert text.splitlines() == [
        "run1  from step 3  nothing is executed",
        "  from the log  steps 1 to 2: 2 calls answered",
        "  edited        set /amount 3",
        "~ amount  12.5 → 3",
        "  live          step 3, if the code does what it did:",
        "    3.1  tool pay  irreversible  refused",
        "  pay would be refused; allow it with --allow pay",
    ]
    assert len(json_of("ls")) == 1


def test_a_dry_run_tells_programs(shop: Path) -> None:
    """The same, with the step of the failure."""
    assert json_of("rerun", "run1", "--from-failure", "--prefix=fold", "--tool-result", "3.1=7", "--dry-run") == {
        "run": "run1",
        "step": 3,
        "last": 3,
        "answered": None,
        "edits": [{"edit": "tool result", "call": "3.1", "value": 7}],
        "changes": [],
        "calls": [
            {
                "step": 3,
                "call": "3.1",
                "kind": "tool",
                "name": "pay",
                "safety": "irreversible",
                "within": None,
                "agent": None,
                "fate": "edited",
            }
        ],
        "refused": [],
        "compensated": [],
        "undone": [],
    }


def test_a_dry_run_refuses_what_the_run_would(shop: Path) -> None:
    """What cannot be meant is said now."""
    result = invoke("rerun", "run1", "--step", 3, "--tool-result", "2.1=7", "--dry-run")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "step 3 of run1 has no call 2.1" in result.stderr


OPTIONS: list[list[str]] = [
    ["--set", "/amount=3"],
    ["--set", "/amount"],
    ["--set", "/a/b=1"],
    ["--patch", "patch.json"],
    ["--patch", "unfit.json"],
    ["--edit"],
    ["--tool-result", "3.1=7"],
    ["--tool-result", "9.9=7"],
    ["--model-response", "3.1=7"],
    ["--skip", "3.1"],
    ["--add-message", '{"role": "user", "content": "now"}'],
    ["--param", "tone=kind"],
    ["--input", "1"],
    ["--secret", "/amount=env:PATH"],
    ["--allow", "pay"],
    ["--allow", "nobody"],
    ["--reuse"],
    ["--prefix", "fold"],
    ["--compensate"],
    ["--max-rounds", "3"],
    ["--max-rounds", "2"],
    ["--ignore", "payload:$.amount"],
    ["--ignore", "nothing"],
    ["--app", "nowhere.py:step"],
    ["--json"],
]


def test_a_dry_run_writes_nothing_whatever_it_is_asked(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any two options: it tells what would be, or refuses it as wrong usage; the runs are as they were."""
    Path("patch.json").write_text('[{"op": "replace", "path": "/amount", "value": 4}]', encoding="utf-8")
    Path("unfit.json").write_text('[{"op": "remove", "path": "/nothing"}]', encoding="utf-8")
    Path("editor.sh").write_text("""#!/bin/sh\nsed -i 's/12.5/3/' "$1"\n""", encoding="ascii")
    Path("editor.sh").chmod(0o755)
    monkeypatch.setenv("EDITOR", str(Path("editor.sh").absolute()))
    monkeypatch.delenv("VISUAL", raising=False)
    found = open_store(None, create=False)
    before = [(info.id, info.head_seq, info.head_hash) for info in found.runs()]
    codes = []
    for first, second in [*combinations(OPTIONS, 2), *[([], one) for one in OPTIONS]]:
        result = invoke("rerun", "run1", "--step", 3, "--dry-run", *first, *second)
        codes.append(result.exit_code)
        assert result.exit_code in (0, 2), (first, second, result.output)
        assert bool(result.stdout) is (result.exit_code == 0), (first, second)
        assert "executing" not in result.stderr
    assert [(info.id, info.head_seq, info.head_hash) for info in found.runs()] == before
    assert codes.count(0) > 100
