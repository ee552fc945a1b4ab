"""Which code is executed against a recording: what is named, and never what a file says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agentreplay.cli import apps
from agentreplay.cli.apps import Chosen, choose, load_app, of_the_project
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.locate import open_store
from agentreplay.recorder.loop import Agent
from agentreplay.recorder.store import EventStore, RunInfo
from cli_runs import invoke, output
from replayed_agents import at_work, calls_made, change_shop


@pytest.fixture(autouse=True)
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a shop, and run1, which failed."""
    with at_work(tmp_path, monkeypatch) as folder:
        output("run", "shop.py:step", code=1)
        calls_made()
        yield folder


def store() -> EventStore:
    return open_store(None, create=False)


def refusal(info: RunInfo | None = None, named: str | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        choose(named, store(), info or store().run("@last"))
    return str(caught.value)


# -- the order -----------------------------------------------------------------------------------------------------


def test_what_is_typed_comes_first(recorded: Path) -> None:
    """`--app` goes before what the project says, and that before what recorded the run."""
    run = store().run("run1")
    assert choose(None, store(), run) == Chosen("shop.py:step", "", "as recorded")
    (recorded / "pyproject.toml").write_text('[tool.agentreplay]\napp = "other.py:main"\n', encoding="utf-8")
    assert choose(None, store(), run) == Chosen("other.py:main", str(recorded), "as pyproject.toml says")
    assert choose("third.py:step", store(), run) == Chosen("third.py:step")


def test_the_nearest_project_counts(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its names are relative to its folder; a project that names no code leaves it to the recording."""
    (recorded / "pyproject.toml").write_text('[tool.agentreplay]\napp = "shop.py:step"\n', encoding="utf-8")
    below = recorded / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert of_the_project() == Chosen("shop.py:step", str(recorded), "as ../../pyproject.toml says")
    result = invoke("replay", "run1")
    assert (result.exit_code, result.stdout.split("\n")[0]) == (0, "run1  shop  identical  3 rounds recorded")
    assert result.stderr.startswith("executing shop.py:step, as ../../pyproject.toml says")
    (below / "pyproject.toml").write_text('[project]\nname = "b"\n', encoding="utf-8")
    assert of_the_project() is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tool.agentreplay", "pyproject.toml cannot be read"),
        ("[tool.agentreplay]\napp = 7\n", "app in [tool.agentreplay] is a text such as"),
    ],
)
def test_a_project_that_cannot_be_read_says_so(text: str, says: str, recorded: Path) -> None:
    """What is meant cannot be guessed; --app still works."""
    (recorded / "pyproject.toml").write_text(text, encoding="utf-8")
    assert says in refusal()
    assert output("replay", "run1", "--app", "shop.py:step").startswith("run1  shop  identical")


def test_a_project_of_somebody_else_chooses_nothing(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder above that others can write to must not decide what is executed here."""
    (recorded / "pyproject.toml").write_text('[tool.agentreplay]\napp = "evil.py:step"\n', encoding="utf-8")
    owner = (recorded / "pyproject.toml").stat().st_uid
    monkeypatch.setattr(apps.os, "getuid", lambda: owner + 1)
    monkeypatch.setattr(apps, "ROOT", -1)
    assert "belongs to another user" in refusal()


# -- what recorded the run -----------------------------------------------------------------------------------------


def test_a_file_chooses_no_code(recorded: Path) -> None:
    """A run that came from a cassette is executed by no code but what is named, whatever the cassette says."""
    output("export", "run1", "run.jsonl")
    result = invoke("import", "run.jsonl", "--store", "elsewhere.db")
    assert result.exit_code == 0
    result = invoke("replay", "run1", "--store", "elsewhere.db")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "what is imported never chooses code" in result.stderr
    assert "executing" not in result.stderr
    named = invoke("replay", "run1", "--app", "shop.py:step", "--store", "elsewhere.db")
    assert (named.exit_code, named.stdout.split("\n")[0]) == (0, "run1  shop  identical  3 rounds recorded")


def test_a_note_in_a_file_chooses_no_code(recorded: Path) -> None:
    """Fields of a cassette that look like the store's own note are kept apart from it."""
    output("export", "run1", "run.jsonl")
    lines = Path("run.jsonl").read_text(encoding="utf-8").splitlines()
    header = json.loads(lines[0])
    code = {"file": str(recorded / "shop.py"), "name": "step", "module": "shop", "host": "here"}
    for part in (header, header["runs"][0]):
        part["code"] = part["note"] = code
    lines[0] = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    Path("run.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    invoke("import", "run.jsonl", "--salvage", "--store", "elsewhere.db")
    there = open_store("elsewhere.db")
    (info,) = there.runs()
    assert "code" not in there.note(info.uid)


def test_what_was_recorded_here_stays_known_when_more_of_it_is_imported(recorded: Path) -> None:
    """Importing a run that is there changes nothing of where its code is."""
    output("export", "run1", "run.jsonl")
    output("import", "run.jsonl")
    assert choose(None, store(), store().run("run1")).reference == "shop.py:step"


def test_a_rerun_is_known_by_the_code_that_it_ran() -> None:
    """It was recorded here, too; a run that it was forked from need not have been."""
    output("export", "run1", "run.jsonl")
    invoke("import", "run.jsonl", "--store", "elsewhere.db")
    where = ["--store", "elsewhere.db"]
    output("rerun", "run1", "--step", 3, "--set", "/amount=3", "--allow", "pay", "--app", "shop.py:step", *where)
    assert output("replay", "run2", *where).startswith("run2  shop  identical")
    assert invoke("replay", "run1", *where).exit_code == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"host": "another-machine"}, "was recorded on another machine, another-machine"),
        ({"file": "/nowhere/shop.py"}, "was recorded by /nowhere/shop.py, which is not there any more"),
        ({"name": "main.<locals>.step"}, "by main.<locals>.step in shop.py, which only its own code can reach"),
        ({"name": 7}, "was not recorded into this store by code in a file"),
        ({"module": None}, "was not recorded into this store by code in a file"),
    ],
)
def test_code_that_cannot_be_reached_is_to_be_named(change: dict[str, Any], says: str) -> None:
    """The message says why, and how to name code."""
    found = store()
    code = found.note(found.run("run1").uid)["code"]
    message = refusal(found.create_run("shop", note={"code": {**code, **change}}))
    assert says in message
    assert "--app FILE.py:NAME" in message
    assert "[tool.agentreplay]" in message


def test_code_is_found_from_any_folder(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place is known whole; it is shown short where that is true."""
    elsewhere = recorded / "sub"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert choose(None, store(), store().run("run1")).reference == f"{recorded}/shop.py:step"
    assert output("replay", "run1").startswith("run1  shop  identical")


# -- what can be executed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["step", "own_loop", "approved"])
def test_whatever_recorded_itself_is_executed_again(name: str) -> None:
    """A step, a function that opens ar.record, one that waits for a person."""
    invoke("run", f"shop.py:{name}")
    calls_made()
    text = output("replay", "@last")
    assert "identical" in text
    assert calls_made() == []


def test_a_function_gets_the_payload_that_was_recorded() -> None:
    """One that takes it by name is called with it."""
    output("run", "shop.py:with_payload", "--payload", '{"order": "E-5"}')
    calls_made()
    assert output("replay", "@last").startswith("run2  given  identical")
    assert calls_made() == []


def test_a_plain_step_function_is_executed() -> None:
    """It need not be decorated."""
    change_shop('@ar.agent("shop")\n', "")
    assert output("replay", "run1").startswith("run1  shop  identical")


def test_a_program_is_executed_as_one(recorded: Path) -> None:
    """A file that records at its top level is no module to import: it runs once the recording is attached."""
    subprocess.run([sys.executable, "program.py"], cwd=recorded, check=True)
    assert calls_made() == ["find"]
    arguments = sys.argv[:]
    for app in ([], ["--app", "program.py"]):
        assert output("replay", "@last", *app).startswith("run2  program  identical")
    assert calls_made() == []
    assert sys.argv == arguments


def test_importing_a_program_begins_nothing() -> None:
    """Naming something in it would record a run on the way; it is stopped, and says what to name."""
    result = invoke("replay", "run1", "--app", "program.py:run")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "importing program.py:run begins a run of 'program'" in result.stderr
    assert "--app program.py\n" in result.stderr
    assert calls_made() == []
    assert len(store().runs()) == 1


def test_importing_calls_nothing(recorded: Path) -> None:
    """A tool that is called while its module is imported was not recorded, and is not called now."""
    with (recorded / "shop.py").open("a", encoding="utf-8") as file:
        file.write("\nfind(order_id='Z')\n")
    result = invoke("replay", "run1")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "importing shop.py:step calls the tool find, outside of any run" in result.stderr
    assert calls_made() == []


def test_a_file_of_a_package_is_imported_as_one(recorded: Path) -> None:
    """Its neighbours are found, and its classes have the names that they had, by either way of naming it."""
    package = recorded / "pack"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "words.py").write_text("WORD = 'pack'\n", encoding="utf-8")
    text = (recorded / "shop.py").read_text(encoding="utf-8")
    (package / "shop.py").write_text(text.replace("import agentreplay", "from .words import WORD\nimport agentreplay"))
    output("run", "pack.shop:step", code=1)
    calls_made()
    for app in ([], ["--app", "pack.shop:step"], ["--app", "pack/shop.py:step"]):
        assert output("replay", "@last", *app).startswith("run2  shop  identical")


def test_the_only_agent_of_a_file_needs_no_name(recorded: Path) -> None:
    """As for `run`; of several one must be named."""
    source = "from shop import step\n"
    (recorded / "only.py").write_text(source, encoding="utf-8")
    app = load_app(Chosen("only.py"), store(), store().run("run1"))
    assert isinstance(app, Agent)
    assert app.name == "shop"
    result = invoke("replay", "run1", "--app", "shop.py")
    assert result.exit_code == 2
    assert "say which agent, as shop.py:step" in result.stderr
