"""What becomes of the file of a store, and of the key in it: deleted, replaced, write-protected, damaged."""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import agentreplay as ar
import pytest
from agentreplay.recorder.databases import Sqlite
from agentreplay.recorder.errors import CorruptLog, StoreError
from agentreplay.recorder.heartbeat import heartbeat
from agentreplay.recorder.migrations import with_check
from agentreplay.recorder.sql_store import SqlStore
from cli_runs import invoke, json_of
from store_contract import started, tool_called


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqlStore]:
    store = SqlStore(f"sqlite:///{path}")
    yield store
    store.close()


# -- deleted or replaced under a run ---------------------------------------------------------------------------------


def delete(path: Path) -> None:
    path.unlink()


def delete_with_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def replace(path: Path) -> None:
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    copy.rename(path)


LOSSES = [delete, delete_with_folder, replace]


def lost_in_a_round(store: SqlStore, lose: Callable[[], None], looked: Callable[[], object]) -> list[str]:
    """Record rounds, and lose the store in the second; what was done until the recording stopped."""
    done: list[str] = []

    def record() -> None:
        with ar.record("a", store=store) as run:
            for number in range(4):
                with run.round() as r:
                    r.tool("look", {}, lambda n=number: done.append(f"looked {n}"))
                    if number == 1:
                        lose()
                        looked()
                    r.tool("pay", {}, lambda n=number: done.append(f"paid {n}"))

    with pytest.raises(ar.RecordingFailed, match="deleted, moved or replaced"):
        record()
    return done


@pytest.mark.parametrize("lose", LOSSES)
def test_a_store_that_is_lost_is_noticed_at_the_end_of_the_round(
    lose: Callable[[Path], None], store: SqlStore, path: Path
) -> None:
    """No run goes on for long, or ends well, whose events nobody will find."""
    done = lost_in_a_round(store, lambda: lose(path), lambda: None)
    assert done == ["looked 0", "paid 0", "looked 1", "paid 1"]


@pytest.mark.parametrize("lose", LOSSES)
def test_a_store_that_is_lost_is_noticed_in_the_middle_of_a_round(
    lose: Callable[[Path], None], store: SqlStore, path: Path
) -> None:
    """Once a heartbeat has looked, no further call is made, since nothing would tell of it."""
    done = lost_in_a_round(store, lambda: lose(path), heartbeat.beat)
    assert done == ["looked 0", "paid 0", "looked 1"]


def test_an_agent_goes_on_without_its_store_where_that_is_the_policy(store: SqlStore, path: Path) -> None:
    """With one warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with ar.record("a", store=store, on_store_error="warn") as run:
            delete(path)
            heartbeat.beat()
            assert [run.tool("add", {"n": n}, lambda n: n + 1) for n in range(3)] == [1, 2, 3]
    assert [("goes on unrecorded" in str(warning.message)) for warning in caught] == [True]


def test_a_lost_store_is_not_made_again_in_silence(store: SqlStore, path: Path) -> None:
    """Also not by a forked child, which connects anew."""
    delete(path)
    child = os.fork()
    if child == 0:
        try:
            store.runs()
        except StoreError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert not path.exists()
    ar.open_store(path).close()
    assert path.exists()


def test_a_file_at_which_nobody_may_look_is_not_lost(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is claimed that is not known."""

    def refuse(path: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "stat", refuse)
    store.keep_heartbeats([])
    monkeypatch.undo()
    store.create_run("a")


def test_a_store_by_a_relative_path_is_the_same_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program may change its working folder."""
    monkeypatch.chdir(tmp_path)
    database = Sqlite(Path("some.db"))
    Path("some.db").touch()
    database.opened()
    Path("below").mkdir()
    monkeypatch.chdir("below")
    assert not database.was_replaced()
    Path("../some.db").unlink()
    assert database.was_replaced()


# -- write-protected -------------------------------------------------------------------------------------------------

# Root may write anywhere, so it becomes another user; once everything is imported that may be needed, since that user
# may not be able to read our code.
AS_ANOTHER = """
import json, os, pathlib, sys, tempfile
from click.testing import CliRunner
from agentreplay.cli import main
import agentreplay as ar

def ask(path):
    asked = ["ls"], ["show", "run1"], ["state", "run1"], ["diff", "run1", "--step", "2"], ["verify"]
    results = [CliRunner().invoke(main, [*args, "--json", "--store", str(path)]) for args in asked]
    assert [result.exit_code for result in results] == [0] * 5, [result.output for result in results]
    return [json.loads(result.stdout) for result in results]

def record(path):
    with ar.record("a", {"n": 0}, store=str(path)) as run:
        for n in (1, 2):
            with run.round() as r:
                r.change(update={"n": n})

def become_another():
    if os.geteuid() == 0:
        os.setgroups([])
        os.setegid(65534)
        os.seteuid(65534)

with tempfile.TemporaryDirectory() as scratch:
    record(scratch + "/store.db")
    ask(scratch + "/store.db")
    ar.open_store(scratch + "/store.db").close()
path = pathlib.Path(sys.argv[1]) / "store.db"
"""

READ = """
before = ask(path)
ar.open_store(path).close()
files = sorted(os.listdir(path.parent))
for name in sys.argv[2].split(","):
    (path.parent / name).chmod(0o555 if name == "." else 0o444)
become_another()
assert ask(path) == before
if sys.argv[2] != "store.db":
    assert sorted(os.listdir(path.parent)) == files
try:
    record(path)
except ar.StoreError as error:
    print(error)
ar.open_store(path).close()
assert ask(path) == before
"""

FOLLOW = """
become_another()
store = ar.open_store(path, create=False)
print(len(store.runs()), flush=True)
input()
print(len(store.runs()), store.verify())
"""


def as_another(code: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start code on the store in a folder."""
    command = [sys.executable, "-c", AS_ANOTHER + code, str(folder), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=folder)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may look into."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder
        folder.chmod(0o777)


def record_two_rounds(path: Path) -> None:
    store = SqlStore(f"sqlite:///{path}")
    with ar.record("a", {"n": 0}, store=store) as run:
        for n in (1, 2):
            with run.round() as r:
                r.change(update={"n": n})
    store.close()
    path.chmod(0o666)


@pytest.mark.parametrize("protected", [".", "store.db", ".,store.db"])
def test_a_store_that_may_only_be_read_is_read(protected: str, open_folder: Path) -> None:
    """A read-only file, in a read-only folder or not: reading verbs say what they always say; writing says why not."""
    record_two_rounds(open_folder / "store.db")
    process = as_another(READ, open_folder, protected)
    said, failed = process.communicate()
    assert (process.returncode, failed) == (0, "")
    assert said.startswith(f"cannot write to the store sqlite:///{open_folder}/store.db: ")
    assert "write-protected" in said
    assert "AGENTREPLAY_STORE" in said


def test_what_a_write_ahead_log_holds_is_never_left_out(open_folder: Path) -> None:
    """A copy of a store that was in use, on a medium that is read-only: it is refused rather than read without it."""
    path = open_folder / "live" / "store.db"
    path.parent.mkdir()
    store = SqlStore(f"sqlite:///{path}")
    store.append(store.create_run("a"), -1, [started()])
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", open_folder)
    store.close()
    open_folder.chmod(0o555)
    process = as_another(FOLLOW, open_folder)
    said, failed = process.communicate()
    assert (process.returncode, said) == (1, "")
    assert "what store.db-wal holds is not in it yet. Copy both files to where you may write" in failed


def test_a_reader_sees_what_others_write_to_a_file_it_may_not_write(open_folder: Path) -> None:
    """It had taken it for one that nobody changes; what was appended since is seen all the same."""
    record_two_rounds(open_folder / "store.db")
    open_folder.chmod(0o555)
    process = as_another(FOLLOW, open_folder)
    assert process.stdout is not None
    said = process.stdout.readline()
    open_folder.chmod(0o777)
    store = SqlStore(f"sqlite:///{open_folder}/store.db")
    store.append(store.create_run("more"), -1, [started()])
    assert (said, *process.communicate("\n")) == ("1\n", "2 []\n", "")
    store.append("run2", 0, [tool_called(1)])
    store.close()


# -- the redaction key -----------------------------------------------------------------------------------------------


def execute(path: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(path) as connection:
        assert connection.execute(statement, values).rowcount == 1
    connection.close()


@pytest.fixture
def recorded(path: Path) -> Path:
    """A store with a run."""
    record_two_rounds(path)
    return path


KEY = "name = 'redaction_key'"


@pytest.mark.parametrize("damage", ["flipped", "short", "random", "text", "null", "gone"])
def test_a_damaged_redaction_key_is_named(damage: str, recorded: Path) -> None:
    """By `verify`; and nothing is recorded with it, since a secret would get another token than before."""
    with closing(sqlite3.connect(recorded)) as connection:
        (key,) = connection.execute(f"SELECT value FROM meta WHERE {KEY}").fetchone()
    if damage == "gone":
        execute(recorded, f"DELETE FROM meta WHERE {KEY}")
    else:
        values = {
            "flipped": bytes([key[0] ^ 1]) + key[1:],
            "short": key[:32],
            "random": secrets.token_bytes(len(key)),
            "text": "k" * len(key),
            "null": None,
        }
        execute(recorded, f"UPDATE meta SET value = ? WHERE {KEY}", values[damage])
    (problem,) = json_of("verify", "--store", recorded, code=1)["problems"]
    assert (problem["run"], problem["seq"]) == (None, None)
    assert "has lost its redaction key, or it was changed" in problem["what"]
    assert "redaction key" in invoke("verify", "--store", recorded).stdout
    assert json_of("state", "--store", recorded) == {"n": 2}
    with closing(SqlStore(f"sqlite:///{recorded}")) as store:
        with pytest.raises(CorruptLog, match="redaction key"):
            store.create_run("more")
        assert len(store.runs()) == 1


def test_a_redaction_key_that_was_replaced_is_named(recorded: Path, tmp_path: Path) -> None:
    """By a sound one, of another store: each run that was recorded here says which key it was written with.

    Runs that came from elsewhere have tokens of another key, which is as it should be.
    """
    elsewhere = tmp_path / "elsewhere.db"
    record_two_rounds(elsewhere)
    with closing(SqlStore(f"sqlite:///{elsewhere}")) as store:
        ar.export_run("run1", tmp_path / "run.jsonl", store=store)
    with closing(SqlStore(f"sqlite:///{recorded}")) as store:
        ar.import_file(tmp_path / "run.jsonl", store=store)
        assert store.verify() == []
    execute(recorded, f"UPDATE meta SET value = ? WHERE {KEY}", with_check(b"k" * 32))
    (problem,) = json_of("verify", "--store", recorded, code=1)["problems"]
    assert (problem["run"], problem["seq"]) == ("run1", 0)
    assert "redaction key is another one" in problem["what"]
