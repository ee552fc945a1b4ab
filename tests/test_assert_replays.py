"""Cassettes as regression tests, without a store: `ar.assert_replays`."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from random_programs import LEVELS, Trace, program
from test_replay_order import app as program_as_app

AGENT = '''
import dataclasses
import agentreplay as ar


@dataclasses.dataclass
class Order:
    id: str
    total: float


class Rejected(Exception):
    """The bank does not like it."""


@ar.tool(safety="pure")
def find(order_id: str) -> Order:
    return Order(order_id, 12.5)


@ar.tool(safety="irreversible", raises=(Rejected,))
def pay(order: Order, amount: float) -> str:
    raise Rejected(f"{amount} is too much")


@ar.agent("shop")
def step(round_index: int, context: ar.Context):
    if round_index == 1:
        context.change(new={"order": find(order_id="A-17")}, reason="found")
        return ar.Continue()
    pay(order=context.payload["order"], amount=3)


if __name__ == "__main__":
    try:
        step.run({"n": 1})
    except Rejected:
        pass
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with an agent in a file, which is forgotten again, and nothing else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "shop_agent.py").write_text(AGENT, encoding="utf-8")
    yield tmp_path
    sys.modules.pop("shop_agent", None)


def cassette_of(run: str, path: Path, store: Any) -> Path:
    """Write a cassette of a run that stands in a store elsewhere."""
    return ar.export_run(run, path, store=store)


def in_memory(path: Path, agent: Any, payload: Any = None, **options: Any) -> Path:
    """Record an agent into a cassette, without a store on disk."""
    store = ar.open_store("memory:", **options)
    agent.run(payload, store=store)
    return cassette_of("run1", path, store)


@ar.tool(safety="pure")
def look(what: str) -> str:
    """A tool that finds things."""
    return f"a {what}"


@ar.agent("finder")
def finder(round_index: int, context: ar.Context) -> ar.Complete[str]:
    """Finds a lamp."""
    return ar.Complete(look(what="lamp"))


@ar.agent("finder")
def another_finder(round_index: int, context: ar.Context) -> ar.Complete[str]:
    """Finds a chair."""
    return ar.Complete(look(what="chair"))


def test_the_same_code_replays_and_leaves_nothing_behind(folder: Path) -> None:
    """The result says what was covered; neither a store nor any other file is made."""
    in_memory(folder / "lamp.jsonl", finder)
    before = sorted(folder.rglob("*"))
    result = ar.assert_replays("lamp.jsonl", finder)
    assert (result.verdict, result.coverage.recorded) == ("identical", 1)
    assert result.result is not None
    assert result.result.value == "a lamp"
    assert sorted(folder.rglob("*")) == before


def test_other_code_fails_as_an_assertion_that_says_all(folder: Path) -> None:
    """File, step, call, path, expected, actual, line of code and what to do; as text and as attributes."""
    in_memory(folder / "lamp.jsonl", finder)
    with pytest.raises(AssertionError) as raised:
        ar.assert_replays("lamp.jsonl", another_finder)
    error = raised.value
    assert isinstance(error, ar.CassetteDiverged)
    assert (error.cassette, error.step, error.call, error.path) == ("lamp.jsonl", 1, "1.1", "/what")
    first, headline, *rest = str(error).splitlines()
    assert (first, headline) == ("lamp.jsonl does not replay", "step 1, call 1.1: other arguments")
    told = dict(line.split(maxsplit=1) for line in rest)
    assert told["where"].startswith("test_assert_replays.py:")
    assert (told["path"], told["expected"], told["actual"]) == ("/what", '"lamp"', '"chair"')
    assert told["next"] == (
        'If this is different each time: ignore=["tool:look:$.what"]. '
        "If the code is meant to ask for this: pytest --agentreplay-update"
    )


def test_rules_leave_out_what_differs(folder: Path) -> None:
    """As in every replay; what follows from it is another matter."""
    in_memory(folder / "lamp.jsonl", finder)
    assert ar.assert_replays("lamp.jsonl", another_finder, ignore=["tool:look:$.what"]).verdict == "identical"


def test_all_differences_are_told_together_if_they_are_collected(folder: Path) -> None:
    """Two of them in one error."""
    in_memory(folder / "lamp.jsonl", finder)

    @ar.agent("finder")
    def other(round_index: int, context: ar.Context) -> ar.Complete[str]:
        context.report("hello")
        return ar.Complete(look(what="chair"))

    with pytest.raises(ar.CassetteDiverged) as raised:
        ar.assert_replays("lamp.jsonl", other, collect=True)
    assert [difference.kind for difference in raised.value.differences] == ["another report", "other arguments"]


async def test_tests_in_an_event_loop_have_a_twin(folder: Path) -> None:
    """A coroutine is replayed in the loop that runs; the plain function says so."""

    @ar.agent("finder")
    async def step(round_index: int, context: ar.Context) -> ar.Complete[str]:
        return ar.Complete(look(what="lamp"))

    store = ar.open_store("memory:")
    await step.arun(store=store)
    cassette_of("run1", folder / "lamp.jsonl", store)
    assert (await ar.aassert_replays("lamp.jsonl", step)).verdict == "identical"
    with pytest.raises(ar.UsageError) as raised:
        ar.assert_replays("lamp.jsonl", step)
    assert "await" in str(raised.value)


def test_coroutines_replay_in_plain_tests(folder: Path) -> None:
    """They get an event loop of their own."""

    @ar.agent("finder")
    async def step(round_index: int, context: ar.Context) -> ar.Complete[str]:
        return ar.Complete(look(what="lamp"))

    in_memory(folder / "lamp.jsonl", step)
    assert ar.assert_replays("lamp.jsonl", step).verdict == "identical"


def test_code_that_opens_its_own_recording_replays(folder: Path) -> None:
    """A callable without arguments, in which `ar.record` begins the run."""

    def loop(store: Any = None) -> None:
        with ar.record("loop", payload={"n": 1}, store=store) as run, run.round() as r:
            r.tool("look", {"what": "lamp"}, look.__wrapped__)

    store = ar.open_store("memory:")
    loop(store)
    cassette_of("run1", folder / "loop.jsonl", store)
    assert ar.assert_replays("loop.jsonl", loop).verdict == "identical"


def test_a_program_that_python_ran_replays_where_it_is_imported(folder: Path) -> None:
    """Its classes were `__main__.Order` and `__main__.Rejected`; they are `shop_agent`'s in a test, and the same."""
    subprocess.run([sys.executable, "shop_agent.py"], cwd=folder, check=True)
    cassette_of("run1", folder / "shop.jsonl", str(folder / ".agentreplay" / "store.db"))
    assert '"__main__:Order"' in (folder / "shop.jsonl").read_text(encoding="utf-8")
    agent = importlib.import_module("shop_agent")
    assert ar.assert_replays("shop.jsonl", agent.step).verdict == "identical"
    with pytest.raises(agent.Rejected):  # once it is through, classes have their own names again
        agent.step.run({"n": 1}, store=(store := ar.open_store("memory:")))
    cassette_of("run1", folder / "again.jsonl", store)
    assert '"shop_agent:Order"' in (folder / "again.jsonl").read_text(encoding="utf-8")


def test_code_that_was_moved_to_another_module_replays(folder: Path) -> None:
    """Its classes were `shop_agent:Order`, and are `moved.agents:Order` now."""
    agent = importlib.import_module("shop_agent")
    with pytest.raises(agent.Rejected):
        agent.step.run({"n": 1}, store=(store := ar.open_store("memory:")))
    cassette_of("run1", folder / "shop.jsonl", store)
    (folder / "moved").mkdir()
    (folder / "shop_agent.py").rename(folder / "moved" / "agents.py")
    (folder / "shop.jsonl").rename(folder / "moved" / "renamed.jsonl")
    moved = importlib.import_module("moved.agents")
    assert ar.assert_replays(folder / "moved" / "renamed.jsonl", moved.step).verdict == "identical"
    sys.modules.pop("moved.agents")


def test_processes_that_joined_a_run_are_answered_from_the_file(folder: Path) -> None:
    """A worker of the code that is replayed stands for one that was recorded, though there is no store to join in."""
    workers = """
import multiprocessing
import agentreplay as ar


@ar.tool(safety="pure")
def count_words(text: str) -> int:
    return len(text.split())


def work(run_id: str, text: str) -> None:
    with ar.join(run_id):
        count_words(text)


def main():
    with ar.record("counting") as run, run.round():
        worker = multiprocessing.Process(target=work, args=(run.id, TEXT))
        worker.start()
        worker.join()


TEXT = "one two"
if __name__ == "__main__":
    main()
"""
    (folder / "shop_agent.py").write_text(workers, encoding="utf-8")
    subprocess.run([sys.executable, "shop_agent.py"], cwd=folder, check=True)
    cassette_of("run1", folder / "workers.jsonl", str(folder / ".agentreplay" / "store.db"))
    agent = importlib.import_module("shop_agent")
    assert ar.assert_replays("workers.jsonl", agent.main).coverage.recorded == 1
    agent.TEXT = "three"
    with pytest.raises(ar.CassetteDiverged) as raised:
        ar.assert_replays("workers.jsonl", agent.main)
    assert (raised.value.path, raised.value.difference.actual) == ("/text", "three")


@pytest.mark.parametrize("level", LEVELS)
def test_random_programs_replay_from_a_file_alone(folder: Path, level: str) -> None:
    """Concurrency in every mixture: the same trace to the last entry, no effect made, nothing left behind."""
    for seed in range(15):
        store, real, traces = MemoryStore(), list[str](), list[Trace]()
        code = program_as_app(program(seed, level), store, real, traces)
        asyncio.run(code())
        cassette_of("run1", folder / "program.jsonl", store)
        made, before = len(real), sorted(folder.iterdir())
        assert ar.assert_replays("program.jsonl", code).verdict == "identical"
        assert (traces[0] == traces[1], len(real), sorted(folder.iterdir())) == (True, made, before), f"{level} {seed}"


def test_secrets_of_another_store_match_by_kind(folder: Path) -> None:
    """The token in the file was made with a key that nobody has; a secret of that kind is the same."""

    @ar.tool(safety="pure")
    def login(user: str, password: str) -> str:
        return "fine"

    def agent(user: str) -> Any:
        @ar.agent("secretive")
        def step(round_index: int, context: ar.Context) -> ar.Complete[str]:
            return ar.Complete(login(user=user, password="hunter2-very-long-1!"))

        return step

    path = in_memory(folder / "secret.jsonl", agent("bob"))
    assert "hunter2" not in path.read_text(encoding="utf-8")
    assert ar.assert_replays("secret.jsonl", agent("bob")).verdict == "identical"
    with pytest.raises(ar.CassetteDiverged) as raised:
        ar.assert_replays("secret.jsonl", agent("eve"))
    assert raised.value.path == "/user"


def test_the_redaction_rules_of_the_recording_hold(folder: Path) -> None:
    """What was a secret by a rule of the user's own is one in a replay, too, though nobody opened a store with it."""
    badge = ar.SecretPattern("badge", r"BDG-[0-9]{6}", needles=("BDG-",))

    @ar.tool(safety="pure")
    def check(note: str, iban: str) -> str:
        return "fine"

    @ar.agent("desk")
    def step(round_index: int, context: ar.Context) -> ar.Complete[str]:
        return ar.Complete(check(note="asked by BDG-204117", iban="DE02 1203 0000"))

    path = in_memory(folder / "desk.jsonl", step, redaction=ar.RedactionRules(keys=("iban",), patterns=(badge,)))
    assert "DE02" not in path.read_text(encoding="utf-8")
    assert ar.assert_replays("desk.jsonl", step).verdict == "identical"


def test_child_runs_are_executed_and_named_after_their_agents(folder: Path) -> None:
    """Numbers of runs mean nothing without a store."""

    def family(what: str) -> Any:
        @ar.agent("inspector")
        def inspector(round_index: int, context: ar.Context) -> ar.Complete[str]:
            return ar.Complete(look(what=what))

        @ar.agent("boss")
        def boss(round_index: int, context: ar.Context) -> ar.Complete[str]:
            return ar.Complete(context.run_agent(inspector).value)

        return boss

    in_memory(folder / "family.jsonl", family("lamp"))
    assert ar.assert_replays("family.jsonl", family("lamp")).verdict == "identical"
    assert ar.assert_replays("family.jsonl", family("chair"), shallow=True).verdict == "identical"
    with pytest.raises(ar.CassetteDiverged) as raised:
        ar.assert_replays("family.jsonl", family("chair"))
    assert "child run of inspector, step 1, call 1.1: other arguments" in str(raised.value)


def test_a_fork_replays_from_its_file_alone(folder: Path) -> None:
    """With the events that it shares; its edit counts as it was made."""

    @ar.agent("finder")
    def step(round_index: int, context: ar.Context) -> ar.Continue | ar.Complete[str]:
        found = look(what=context.payload["what"])
        return ar.Continue() if round_index == 1 else ar.Complete(found)

    store = ar.open_store("memory:")
    step.run({"what": "lamp"}, store=store)
    assert ar.rerun("run1", step, 2, set={"/what": "chair"}, store=store).value == "a chair"
    cassette_of("run2", folder / "fork.jsonl", store)
    result = ar.assert_replays("fork.jsonl", step)
    assert result.result is not None
    assert (result.verdict, result.result.value) == ("identical", "a chair")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("missing.jsonl", None, "there is no cassette missing.jsonl. `pytest --agentreplay-record=once`"),
        ("empty.jsonl", b"", "cannot read empty.jsonl: it is empty"),
        ("notes.txt", b"hello", "cannot read notes.txt: it is no cassette"),
        ("cut.jsonl", 900, "cannot read cut.jsonl, line"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(folder: Path, name: str, content: bytes | int | None, says: str) -> None:
    """Missing, empty, foreign and damaged files; the message has the line where there is one."""
    whole = in_memory(folder / "whole.jsonl", finder).read_bytes()
    if content is not None:
        (folder / name).write_bytes(whole[:-content] if isinstance(content, int) else content)
    with pytest.raises(ar.ImportFailed) as raised:
        ar.assert_replays(name, finder)
    assert str(raised.value).startswith(says)


def test_a_run_of_another_agent_is_told_with_the_file(folder: Path) -> None:
    """Code that begins none, or one of another name."""
    in_memory(folder / "lamp.jsonl", finder)
    with pytest.raises(ar.UsageError) as raised:
        ar.assert_replays("lamp.jsonl", lambda: None)
    assert str(raised.value).startswith("lamp.jsonl: the code came to its end without a run of 'finder'")


def test_a_replay_that_answers_nothing_is_no_success(folder: Path) -> None:
    """The message names the file."""

    @ar.agent("idle")
    def step(round_index: int, context: ar.Context) -> ar.Complete[str]:
        return ar.Complete("fine")

    in_memory(folder / "idle.jsonl", step)
    with pytest.raises(ar.NothingCaptured) as raised:
        ar.assert_replays("idle.jsonl", step)
    assert str(raised.value).startswith("idle.jsonl: ")
