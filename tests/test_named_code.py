"""What a person has named to be run is what the runs are known by; and what ends itself cannot be named."""

from __future__ import annotations

from pathlib import Path

import pytest
from agentreplay.cli.apps import choose
from agentreplay.recorder.locate import open_store
from cli_runs import as_process

REFUND = """
import os
import agentreplay as ar

@ar.tool(safety="pure")
def refund(x):
    with open("made", "a") as file:
        file.write(x + ";")
    return x

def main(customer="nobody"):
    with ar.record("refunds", payload={}) as run:
        with run.round() as r:
            r.change(new={"refunded": refund(customer)})
        run.complete(customer)

def go():
    main("alice")

def both():
    main()
    main()

def build():
    total = 0
    @ar.agent("built")
    def step(i, context):
        nonlocal total
        total += i
        refund(str(total))
        return ar.Continue() if i < 3 else ar.Complete(total)
    return step

step = build()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with a program, and a store of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTREPLAY_STORE", str(tmp_path / "store.db"))
    (tmp_path / "ep.py").write_text(REFUND, encoding="utf-8")


def made() -> list[str]:
    """The calls that were made since this was asked last."""
    path = Path("made")
    found = path.read_text(encoding="utf-8").split(";")[:-1] if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def ran(*args: str, code: int = 0) -> str:
    """What a command printed on stdout."""
    done = as_process(*args)
    assert (done.returncode, done.stderr if done.returncode != code else "") == (code, "")
    return done.stdout


def known_by(run: str) -> str:
    """The code that is executed against a run if nobody says another."""
    store = open_store(None, create=False)
    return choose(None, store, store.run(run)).reference


def test_the_function_that_was_named_is_executed_again_and_not_the_one_that_opens_the_run() -> None:
    """Which would begin for another customer; in a re-run with real calls."""
    ran("run", "ep.py:go")
    assert made() == ["alice"]
    assert known_by("run1") == "ep.py:go"
    assert ran("replay", "run1").startswith("run1  refunds  identical")
    assert made() == []
    ran("rerun", "run1", "--step", "1")
    assert made() == ["alice"]


def test_a_step_that_a_factory_has_made_is_reached_by_the_name_that_was_typed() -> None:
    """Though its own name can be reached by nothing but the factory; a re-run is known by it, too."""
    ran("run", "ep.py:step")
    assert ran("replay", "run1").startswith("run1  built  identical")
    ran("rerun", "run1", "--step", "2")
    assert known_by("run2") == "ep.py:step"
    assert ran("replay", "run2").startswith("run2  built  identical")


def test_what_is_named_for_a_rerun_is_what_the_new_run_is_known_by() -> None:
    """As it was executed for it."""
    ran("run", "ep.py:go")
    ran("rerun", "run1", "--step", "1", "--app", "ep.py:main")
    assert [known_by(run) for run in ("run1", "run2")] == ["ep.py:go", "ep.py:main"]


def test_a_run_among_several_is_known_by_the_code_that_opens_it() -> None:
    """What was named makes the others, too."""
    ran("run", "ep.py:both")
    assert [known_by(run) for run in ("run1", "run2")] == ["ep.py:main", "ep.py:main"]
    assert ran("replay", "run2").startswith("run2  refunds  identical")


def test_what_was_named_elsewhere_chooses_no_code_here() -> None:
    """A cassette does not say what was named, and another store does not know."""
    ran("run", "ep.py:go")
    assert ":go" not in ran("export", "run1")
    ran("export", "run1", "run.jsonl")
    ran("import", "run.jsonl", "--store", "other.db")
    store = open_store("other.db", create=False)
    assert store.note(store.run("run1").uid) == {}
    done = as_process("replay", "run1", "--store", "other.db")
    assert (done.returncode, "what is imported never chooses code" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("import sys; sys.exit(0)", "exited with 0 (sys.exit) while it was imported"),
        ("raise SystemExit", "exited with 0 (sys.exit) while it was imported"),
        ("import sys; sys.exit('no')", "exited with 'no' (sys.exit) while it was imported"),
        ("raise GeneratorExit('x')", "raised GeneratorExit (x) while it was imported"),
    ],
)
@pytest.mark.parametrize(
    "command", ["replay run1 --app x.py:step", "rerun run1 --step 1 --app x.py:step", "run x.py:step"]
)
def test_a_file_that_ends_the_process_while_it_is_imported_is_told_of(command: str, line: str, says: str) -> None:
    """With how, and what to do about it."""
    ran("run", "ep.py:go")
    Path("x.py").write_text(f"{line}\n", encoding="utf-8")
    done = as_process(*command.split())
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: x.py {says}, before anything of it could be called.")
    assert 'below `if __name__ == "__main__":`' in done.stderr
    assert made() == ["alice"]


def test_a_program_that_ends_itself_is_executed_as_one() -> None:
    """Named without a function, it is run as Python would."""
    Path("x.py").write_text("import sys\nimport ep\nep.go()\nsys.exit(0)\n", encoding="utf-8")
    ran("run", "ep.py:go")
    assert ran("replay", "run1", "--app", "x.py").startswith("run1  refunds  identical")
