"""`rerun`: running an agent again from a step, from the command line."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agentreplay.recorder.locate import open_store
from cli_runs import SCRIPT, as_process, invoke, json_of, output
from replayed_agents import at_work, calls_made, change_shop

FIX = ["--set", "/amount=3", "--allow", "pay"]


@pytest.fixture(autouse=True)
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a shop, and run1, which failed in step 3: 12.5 is too much to pay."""
    monkeypatch.delenv("VISUAL", raising=False)
    with at_work(tmp_path, monkeypatch) as folder:
        output("run", "shop.py:step", code=1)
        calls_made()
        yield folder


def editor(script: str) -> None:
    """Have $EDITOR be a shell script that is given the file."""
    Path("editor.sh").write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    Path("editor.sh").chmod(0o755)
    os.environ["EDITOR"] = str(Path("editor.sh").absolute())


def edits_of(run: str) -> list[dict[str, Any]]:
    store = open_store(None, create=False)
    (forked,) = [event for event in store.events(run) if event.kind == "run.forked"]
    edits: list[dict[str, Any]] = forked.data.edits
    return edits


# -- what comes of it ----------------------------------------------------------------------------------------------


def test_an_edit_turns_a_failed_run_into_one_that_completes() -> None:
    """The steps appear, then both runs, a line each, then what to do next; only the live call was made."""
    text = output("rerun", "run1", "--step", 3, *FIX)
    lines = text.splitlines()
    assert lines[:2] == ["run1  again from step 3", "  edited  set /amount 3"]
    assert lines[2].startswith("3  Success      complete")
    assert "   └ ~ amount  12.5 → 3" in lines
    assert "run1  shop  failed     3 rounds   12.5 is too much" in lines
    assert 'run2  shop  completed  3 rounds   {"receipt": "paid 3", "params": {}, "input": null}' in lines
    assert "  agentreplay diff run1 run2 --step 3   what differs after that step" in lines
    assert calls_made() == ["pay"]
    assert [(row["run"], row["status"], row["parent"]) for row in json_of("ls")] == [
        ("run1", "failed", None),
        ("run2", "completed", "run1"),
    ]


def test_the_commands_to_go_on_with_work() -> None:
    """What is offered in the end is typed as it stands."""
    text = output("rerun", "run1", "--step", 3, *FIX)
    offered = [line.split("   ")[0].split()[1:] for line in text.splitlines() if line.startswith("  agentreplay")]
    assert offered == [["diff", "run1", "run2", "--step", "3"], ["compare", "run1", "run2"], ["show", "run2"]]
    assert "~ amount  12.5 → 3\n" in output(*offered[0])
    assert "step 3: another payload\n" in output(*offered[1])
    assert "run again from here: set /amount 3" in output(*offered[2])


def test_programs_get_json() -> None:
    """The new run, its parent, the step, how it ended and what was covered; what the agent prints goes elsewhere."""
    change_shop("receipt = pay", 'print("paying"); receipt = pay')
    result = invoke("rerun", "run1", "--step", 3, *FIX, "--json")
    assert json.loads(result.stdout) == {
        "run": "run2",
        "parent": "run1",
        "step": 3,
        "status": "completed",
        "coverage": {"recorded": 2, "live": 1, "uncaptured": 0, "unused": 0},
    }
    assert "paying\n" in result.stderr


def test_an_agent_that_fails_again_gives_exit_code_one() -> None:
    """However it fails; what it raised is shown as the user's own."""
    assert "run2  shop  failed     3 rounds   12.5 is too much\n" in output(
        "rerun", "run1", "--step", 3, "--allow", "pay", code=1
    )
    change_shop("receipt = pay", 'raise KeyError("lost"); receipt = pay')
    result = invoke("rerun", "run1", "--step", 3)
    assert result.exit_code == 1
    assert "KeyError: 'lost'" in result.stderr
    assert "/cli/" not in result.stderr
    assert "run3  shop  failed     3 rounds\n" in result.stdout


def test_an_irreversible_tool_is_refused_unless_it_is_allowed() -> None:
    """It is not called; the message says which option allows it, or gives its result; the exit code is 1."""
    result = invoke("rerun", "run1", "--step", 3, "--set", "/amount=3")
    assert result.exit_code == 1
    assert "the tool pay is irreversible: allow it with --allow pay" in result.stderr
    assert calls_made() == []
    told = invoke("rerun", "run1", "--step", 3, "--json")
    assert (told.exit_code, json.loads(told.stdout)["status"]) == (1, "failed")


def test_rounds_are_shown_while_they_run(recorded: Path) -> None:
    """A round stands on the screen before the next one has ended: that waits here until somebody has read it."""
    change_shop("    try:\n", "    while not WORLD.with_name('read').exists():\n        time.sleep(0.01)\n    try:\n")
    change_shop("import dataclasses, os", "import time, dataclasses, os")
    command = [*SCRIPT, "rerun", "run1", "--step", "2", *FIX]
    with subprocess.Popen(command, cwd=recorded, stdout=subprocess.PIPE, text=True, encoding="utf-8") as running:
        assert running.stdout is not None
        lines = iter(running.stdout.readline, "")
        assert any(line.startswith("2  Undecided    continue") for line in lines)
        Path("read").touch()
        assert any(line.startswith("3  Success      complete") for line in lines)
        running.stdout.read()
    assert running.returncode == 0


def test_output_is_written_in_any_encoding(recorded: Path) -> None:
    """A terminal in ASCII gets ASCII, from the rounds that are shown meanwhile, too."""
    environment = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = as_process("rerun", "run1", "--step", 3, *FIX, cwd=recorded, env=environment)
    assert (done.returncode, done.stdout.isascii()) == (0, True)
    assert "   ` ~ amount  12.5 -> 3" in done.stdout


# -- which step ----------------------------------------------------------------------------------------------------


def test_the_step_of_the_failure_is_found() -> None:
    """The call that failed is what a run is taken up from; why stands beside it."""
    text = output("rerun", "run1", "--from-failure", *FIX)
    assert text.startswith("run1  again from step 3, call 3.1 failed: Rejected: 12.5 is too much\n")


def test_where_nothing_failed_the_step_is_to_be_said() -> None:
    """Of a run that is completed; one that was stopped is taken up where that was."""
    output("run", "shop.py:own_loop")
    result = invoke("rerun", "run2", "--from-failure")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "run2 is completed, and no call of it failed: say from which step, --step N" in result.stderr
    output("run", "shop.py:approved")
    assert output("rerun", "run3", "--from-failure").startswith("run3  again from step 2, the last one\n")


def test_code_that_records_nothing_is_wrong_usage() -> None:
    """It is no failure of an agent: there was none."""
    result = invoke("rerun", "run1", "--step", 3, "--app", "os:getcwd")
    assert (result.exit_code, "the code came to its end without a run of 'shop'" in result.stderr) == (2, True)


def test_steps_count_from_the_end_too() -> None:
    """-1 is the last."""
    assert output("rerun", "run1", "--step", -1, *FIX).startswith("run1  again from step 3\n")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "say from which step: --step N, or --from-failure"),
        (["--step", 3, "--from-failure"], "say from which step: --step N, or --from-failure"),
        (["--step", 4], "there is no step 4"),
        (["--step", 0], "step 0 is its start"),
        (["--step", 3, "--set", "/a/b/c=1"], "/a/b/c cannot be set: the payload has nothing at 'a' on the way there"),
        (["--step", 3, "--set", "novalue"], "expected PATH=JSON, not 'novalue'"),
        (["--step", 3, "--set", "/a={1"], "--set /a: this is no JSON"),
        (["--step", 3, "--set", "/a=1", "--set", "/a=2"], "/a is given twice"),
        (["--step", 3, "--set", "a[=1"], "cannot read the path 'a['"),
        (["--step", 3, "--set", "/a=@none.json"], "cannot read none.json"),
        (["--step", 3, "--tool-result", "2.1=1"], "step 3 of run1 has no call 2.1; it has 3.1"),
        (["--step", 3, "--model-response", "3.1=1"], "call 3.1 is a tool call (pay), not one of a model"),
        (["--step", 3, "--skip", "9.9"], "step 3 of run1 has no call 9.9"),
        (["--step", 3, "--secret", "/key=value"], "a secret is read from a variable"),
        (["--step", 3, "--secret", "/key=env:NOT_SET"], "the variable NOT_SET"),
        (["--step", 3, "--patch", "shop.py"], "this is no JSON"),
        (["--step", 3, "--param", "x"], "expected NAME=VALUE"),
        (["--step", 3, "--edit", "--set", "/a=1"], "--edit excludes --set"),
        (["--step", 3, "--set", "/a/b=1", "--set", "/a=1"], "set /a/b has no effect, since set /a comes after it"),
        (["--step", 3, "--set", "/a=1", "--set", "a=2"], "given twice for one place, as '/a' and as 'a'"),
        (["--step", 3, "--tool-result", "3.1=1", "--skip", "3.1"], "3.1 is given both a tool result and to be skipped"),
        (["--step", 3, "--input", "1", "--input", "2"], "it is given twice"),
        (["--step", 3, "--param", "a=1", "--param", "a=2"], "a is given twice"),
        (["--step", 3, "--patch", "none.json", "--patch", "other.json"], "it is given twice"),
        (["--step", 3, "--secret", "/amount=env:PATH"], "there is no token at /amount"),
        (["--step", 3, "--set", "/a=" + "[" * 3000 + "]" * 3000], "--set /a: this is no JSON: it is nested too deeply"),
        (["--step", 3, "--set", "/a=NaN"], 'NaN is no JSON; write {"$type": "float", "value": "nan"}'),
        (["--step", 3, "--set", "/a=1e999"], "1e999 is beyond all numbers"),
        (["--step", 3, "--set", '/a={"b": 1, "b": 2}'], '"b" stands twice in one object'),
        (["--step", 3, "--set", '/a={"$type": "decimal", "value": "x"}'], "it is damaged"),
        (["--step", 3, "--set", "/a=@"], "expected the name of a file after @"),
        (
            ["--step", 3, "--tool-result", "run2:1.1=1"],
            "A call of a child run is edited in a re-run of that: rerun",
        ),
        (
            ["--step", 3, "--patch", "unfit.json"],
            "the patch does not fit run1 at step 3: json-patch: operation 0",
        ),
        (["--step", 3, "--max-rounds", "2"], "it goes on in step 3: give at least that, not 2"),
        (["--step", 3, "--prefix", "guess"], "'guess' is not one of"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(args: list[object], says: str) -> None:
    """Exit code 2, the option and what is wrong with it; no call, and no new run."""
    Path("unfit.json").write_text('[{"op": "remove", "path": "/nothing"}]', encoding="utf-8")
    result = invoke("rerun", "run1", *args)
    assert (result.exit_code, result.stdout, says in result.stderr) == (2, "", True), result.stderr
    assert "executing" not in result.stderr
    assert calls_made() == []
    assert len(json_of("ls")) == 1


@pytest.mark.parametrize("more", [["--dry-run"], []])
def test_a_tool_that_nobody_knows_is_told_of(more: list[str]) -> None:
    """Its name allows nothing; what the run has called is named, once, and what is not called but declared is known."""
    result = invoke("rerun", "run1", "--step", 3, "--set", "/amount=3", "--allow", "pya", *more)
    note = "note: run1 has called no tool named pya, and the code declares none; it has called find, pay\n"
    assert result.stderr.count(note) == 1
    assert result.exit_code == (0 if more else 1)
    assert "note:" not in invoke("rerun", "run1", "--step", 3, "--allow", "find", "--allow", "pay", *more).stderr


def test_a_value_that_is_shown_as_a_secret_is_not(recorded: Path) -> None:
    """The value of --secret does not stand in a message about the option."""
    assert "hunter2" not in invoke("rerun", "run1", "--step", 3, "--secret", "/key=hunter2").stderr


# -- edits ---------------------------------------------------------------------------------------------------------


def test_values_are_json_words_or_tagged() -> None:
    """A word is taken as a text, and that is noted; a tag is what it stands for; @FILE is read."""
    Path("value.json").write_text('{"deep": [1, 2]}', encoding="utf-8")
    result = invoke(
        *["rerun", "run1", "--step", 3, "--allow", "pay"],
        *["--set", "/amount=3", "--set", "name=Ada", "--set", '/price={"$type": "decimal", "value": "1.50"}'],
        *["--set", "/file=@value.json", "--set", "/none=null", "--set", '/quoted="3"'],
    )
    assert result.exit_code == 0, result.stderr
    assert result.stderr.startswith('note: --set name: taken as the text "Ada"\nexecuting')
    payload = json_of("state", "run2", "--step", 3)
    assert payload["name"] == "Ada"
    assert payload["price"] == {"$type": "decimal", "value": "1.50"}
    assert (payload["file"], payload["none"], payload["quoted"]) == ({"deep": [1, 2]}, None, "3")


def test_a_patch_is_read_from_a_file() -> None:
    """A JSON Patch, its values in stored form; from standard input, too."""
    patch = [{"op": "replace", "path": "/amount", "value": 4}, {"op": "remove", "path": "/plan"}]
    Path("edit.json").write_text(json.dumps(patch), encoding="utf-8")
    output("rerun", "run1", "--step", 3, "--patch", "edit.json", "--allow", "pay")
    assert json_of("state", "run2") == {"amount": 4, "tip": 0}
    result = invoke("rerun", "run1", "--step", 3, "--patch", "-", "--allow", "pay", input=json.dumps(patch))
    assert result.exit_code == 0
    assert json_of("state", "run3") == {"amount": 4, "tip": 0}
    Path("edit.json").write_text('{"amount": 4}', encoding="utf-8")
    assert "edit.json holds no JSON Patch" in invoke("rerun", "run1", "--step", 3, "--patch", "edit.json").stderr


def test_answers_are_given_in_the_place_of_calls() -> None:
    """A tool's result and a model's response; neither is called, and so neither needs to be allowed."""
    output("rerun", "run1", "--step", 3, "--tool-result", "3.1=by hand")
    output("rerun", "run1", "--step", 2, "--model-response", '2.1={"content": "wait"}', "--set", "/amount=1", code=1)
    assert calls_made() == []
    assert json_of("state", "run3", "--step", 2)["plan"] == "wait"
    output("rerun", "run1", "--step", 3, "--skip", "3.1")
    assert calls_made() == []


def test_parameters_input_and_messages_are_edited() -> None:
    """They are what the live steps see."""
    output(
        *["rerun", "run1", "--step", 3, *FIX, "--param", "tone=kind", "--param", "limit=3", "--input", "null"],
        *["--add-message", '{"role": "user", "content": "hurry"}'],
    )
    state = json_of("state", "run2", "--all")
    assert state["messages"][-1] == {"role": "user", "content": "hurry"}
    assert [edit["edit"] for edit in edits_of("run2")] == ["set", "message", "param", "param", "input"]
    store = open_store(None, create=False)
    finished = list(store.events("run2"))[-1]
    assert finished.data.value["params"] == {"tone": "kind", "limit": 3}


def test_the_payload_is_edited_in_an_editor() -> None:
    """What was changed in it is shown and done, and nothing else is touched."""
    editor("""sed -i 's/"amount": 12.5/"amount": 3/' "$1" """)
    text = output("rerun", "run1", "--step", 3, "--edit", "--allow", "pay")
    assert text.startswith("~ amount  12.5 → 3\n1 change: 1 replaced\nrun1  again from step 3\n")
    assert edits_of("run2") == [{"edit": "patch", "patch": [{"op": "replace", "path": "/amount", "value": 3}]}]


def test_an_editor_that_changes_nothing_does_nothing() -> None:
    """No run, exit code 0, and a word about it."""
    editor("true")
    result = invoke("rerun", "run1", "--step", 3, "--edit", "--allow", "pay")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "the payload was not changed, so nothing was done\n"
    assert len(json_of("ls")) == 1


def test_what_was_edited_is_not_lost() -> None:
    """Text that is no JSON is kept, and can be given whole once it is put right."""
    editor("""echo '{"amount": 3,' > "$1" """)
    result = invoke("rerun", "run1", "--step", 3, "--edit", "--allow", "pay")
    assert result.exit_code == 2
    assert "what was edited is no JSON" in result.stderr
    kept = Path(result.stderr.rpartition("--set '=@")[2].rstrip("'\n"))
    assert kept.read_text(encoding="utf-8") == '{"amount": 3,\n'
    assert kept.stat().st_mode & 0o077 == 0
    kept.write_text('{"amount": 3}', encoding="utf-8")
    output("rerun", "run1", "--step", 3, "--set", f"=@{kept}", "--allow", "pay")
    kept.unlink()
    assert json_of("state", "run2") == {"amount": 3}


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("exit 3", "the editor gave nothing back, so nothing was done"),
        ('rm "$1"', "the editor gave nothing back, so nothing was done"),
        (': > "$1"', "the editor left nothing, so nothing was done"),
    ],
)
def test_an_editor_that_fails_changes_nothing(script: str, says: str) -> None:
    """Whatever it was that went wrong: exit code 2, and no new run."""
    editor(script)
    result = invoke("rerun", "run1", "--step", 3, "--edit", "--allow", "pay")
    assert (result.exit_code, result.stdout, says in result.stderr) == (2, "", True), result.stderr
    assert len(json_of("ls")) == 1


def test_what_is_not_touched_in_the_editor_stays_as_it_is() -> None:
    """Also what JSON cannot say, which stands there as its tag."""
    output("rerun", "run1", "--step", 3, "--set", '/amount={"$type": "decimal", "value": "3.50"}', "--allow", "pay")
    editor("""sed -i 's/"tip": 0/"tip": 9007199254740993/' "$1" """)
    output("rerun", "run2", "--step", 3, "--edit", "--allow", "pay")
    patch = [{"op": "replace", "path": "/tip", "value": {"$type": "int", "value": "9007199254740993"}}]
    assert [edit for edit in edits_of_last() if edit["edit"] == "patch"] == [{"edit": "patch", "patch": patch}]
    assert json_of("state", "run3")["amount"] == {"$type": "decimal", "value": "3.50"}


def edits_of_last() -> list[dict[str, Any]]:
    store = open_store(None, create=False)
    *_, forked = [event for event in store.events("@last") if event.kind == "run.forked"]
    edits: list[dict[str, Any]] = forked.data.edits
    return edits


def test_an_edit_that_was_never_asked_for_is_an_error() -> None:
    """The run is there, and the exit code says that what was meant did not happen."""
    change_shop("receipt = pay(amount=context.payload[", "receipt = str([")
    change_shop('"amount"])\n    except', '"amount"])\n    except')
    result = invoke("rerun", "run1", "--step", 3, "--tool-result", "3.1=1")
    assert result.exit_code == 2
    assert "run2 ended without asking for 3.1" in result.stderr


KEEPER = """
import agentreplay as ar

@ar.tool(safety="pure")
def knock(key):
    return "open" if key == "hunter2-hunter2" else "shut"

@ar.agent
def keeper(round_index, context):
    if round_index == 1:
        context.change(new={"api_key": "hunter2-hunter2"})
        return ar.Continue()
    return ar.Complete(knock(key=context.payload["api_key"]))
"""


def test_a_secret_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token is not sent in the place of a secret; the secret is given by a variable, and is recorded nowhere."""
    Path("keeper.py").write_text(KEEPER, encoding="utf-8")
    output("run", "keeper.py:keeper")
    refused = invoke("rerun", "run2", "--step", 2, "--prefix=fold")
    assert refused.exit_code == 1
    assert "knock would be called with a token in place of a secret" in refused.stderr
    monkeypatch.setenv("THE_KEY", "hunter2-hunter2")
    text = output("rerun", "run2", "--step", 2, "--prefix=fold", "--secret", "/api_key=env:THE_KEY")
    assert "  edited  secret /api_key\n" in text
    assert 'run4  keeper  completed  2 rounds   "open"\n' in text
    assert "hunter2" not in text
    store = open_store(None, create=False)
    bodies = [row.body or b"" for info in store.runs() for row in store.rows(info)]
    assert b"[redacted:" in b"".join(bodies)
    assert b"hunter2" not in b"".join(bodies)


# -- the steps before ----------------------------------------------------------------------------------------------


def test_code_that_parts_before_the_step_says_so_and_offers_to_fold() -> None:
    """Nothing is recorded; the command that does without them is the one that was typed, with one option more."""
    change_shop('"tip": 0', '"tip": 1')
    result = invoke("rerun", "run1", "--step", 3, *FIX)
    assert (result.exit_code, calls_made()) == (1, [])
    assert "step 1: another payload\n" in result.stdout
    assert "Nothing was recorded: the code parts from run1 before step 3.\n" in result.stdout
    offered = result.stdout.splitlines()[-1].split()
    assert offered == [
        "agentreplay",
        "rerun",
        "run1",
        "--step",
        "3",
        "--set",
        "/amount=3",
        "--allow",
        "pay",
        "--prefix=fold",
    ]
    assert len(json_of("ls")) == 1
    output(*offered[1:])
    assert json_of("state", "run2") == {"amount": 3, "plan": "pay it", "tip": 0}


def test_a_divergence_is_told_to_programs() -> None:
    """There is no run then, and the status says why."""
    change_shop('"tip": 0', '"tip": 1')
    told = json_of("rerun", "run1", "--step", 3, *FIX, code=1)
    assert (told["run"], told["parent"], told["step"], told["status"]) == (None, "run1", 3, "diverged")
    assert [one["path"] for one in told["divergences"]] == ["/tip"]


def test_the_offered_command_names_the_store_once(recorded: Path) -> None:
    """With a store of its own, wherever it was typed."""
    output("run", "shop.py:step", "--store", "other.db", code=1)
    change_shop('"tip": 0', '"tip": 1')
    result = invoke("rerun", "run1", "--store", "other.db", "--step", 3, *FIX)
    offered = result.stdout.splitlines()[-1].strip()
    assert offered.endswith("--set /amount=3 --allow pay --prefix=fold --store other.db")
    assert offered.count("--store") == 1


def test_recorded_answers_are_used_again() -> None:
    """With --reuse, what asks the same is answered as it was."""
    output("rerun", "run1", "--step", 2, "--reuse", *FIX)
    assert calls_made() == ["pay"]


# -- edits inside of what the agent made -----------------------------------------------------------------------------


WITH_ORDER = ('"amount": order.total,', '"amount": 1, "order": order, "seats": {1: (5, 12.5)},')
PAYS_ORDER = ('pay(amount=context.payload["amount"])', 'pay(amount=context.payload["order"].total)')


def test_the_path_that_diff_prints_is_one_to_set() -> None:
    """A field of an instance, whose class nobody has registered: the agent has an object of that class again."""
    change_shop(*WITH_ORDER)
    change_shop(*PAYS_ORDER)
    output("run", "shop.py:step", code=1)
    calls_made()
    text = output("rerun", "run2", "--step", 3, "--set", "order.total=3", "--allow", "pay", "--dry-run")
    assert "~ order.total  12.5 → 3" in text
    text = output("rerun", "run2", "--step", 3, "--set", "/order/total=3", "--allow", "pay")
    assert 'run3  shop  completed  3 rounds   {"receipt": "paid 3"' in text
    assert calls_made() == ["pay"]
    assert "~ order.total  12.5 → 3" in output("diff", "run2", "run3", "--step", 3)
    output("replay", "run3")
    assert calls_made() == []


def test_items_of_tuples_and_keys_that_are_no_texts_are_set() -> None:
    """What they are in stays a tuple in a dict with a number for a key; and a fork of the fork has it, too."""
    change_shop(*WITH_ORDER)
    change_shop('pay(amount=context.payload["amount"])', 'pay(amount=context.payload["seats"][1][1])')
    output("run", "shop.py:step", code=1)
    output("rerun", "run2", "--step", 3, "--set", "/seats/1/1=2.5", "--allow", "pay")
    assert json_of("state", "run3", "--step", 3)["seats"] == {
        "$type": "dict",
        "items": [[1, {"$type": "tuple", "items": [5, 2.5]}]],
    }
    output("rerun", "run3", "--step", 3, "--set", "/tip=1", "--allow", "pay")
    assert '"receipt": "paid 2.5"' in output("show", "run4")


def test_a_place_inside_that_there_is_not_says_what_there_is() -> None:
    """Before any code is executed."""
    change_shop(*WITH_ORDER)
    output("run", "shop.py:step")
    calls_made()
    result = invoke("rerun", "run2", "--step", 3, "--set", "/order/totl=3")
    assert result.exit_code == 2
    assert "/order/totl cannot be set: Order(" in result.stderr
    assert "at order has no such field; it has id, total" in result.stderr
    assert calls_made() == []
