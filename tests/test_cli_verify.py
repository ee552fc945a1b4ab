"""`verify` names whatever was changed, lost or cut off in a store."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.sql_store import SqlStore
from cli_runs import invoke, json_of, output

SEQ_BITS = 32
LARGE = "0123456789abcdef" * 8_000


@ar.model
def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {"content": f"after {len(messages)} messages"}


@ar.tool
def fetch(document: str) -> dict[str, Any]:
    return {"length": len(document)}


@ar.agent("reader")
def reader(round_index: int, context: ar.Context) -> ar.Continue | ar.Complete[str]:
    """Use every table: messages that are repeated, a large value, changes."""
    context.messages.append({"role": "user", "content": f"message {round_index} " + "of some length " * 30})
    ask(messages=list(context.messages))
    fetch(document=LARGE if round_index == 1 else "short")
    context.change(new={f"key{round_index}": round_index}, reason="counting")
    return ar.Complete("read") if round_index == 3 else ar.Continue()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two runs, all of it in one file."""
    path = tmp_path_factory.mktemp("sound") / "store.db"
    store = SqlStore(f"sqlite:///{path}")
    for payload in ({"run": 1}, {"run": 2}):
        reader.run(payload, store=store)
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
    return path


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(sound, tmp_path / "store.db"))


def execute(path: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement, values)
        connection.commit()


def rows_of(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


def problems(path: Path) -> list[dict[str, Any]]:
    """What `verify` finds; it must find something, and say so with its exit code."""
    report = json_of("verify", "--store", path, code=1)
    assert report["ok"] is False
    found: list[dict[str, Any]] = report["problems"]
    return found


def flipped(value: Any, at: int) -> Any:
    """The value with one bit of its byte `at` turned over; something in place of nothing."""
    if value is None:
        return b"\x01"
    if isinstance(value, int):
        return value ^ 1
    data = bytearray(value.encode() if isinstance(value, str) else value)
    data[at % len(data)] ^= 1
    return data.decode() if isinstance(value, str) else bytes(data)


# -- what is sound -------------------------------------------------------------------------------------------------


def test_a_sound_store_has_no_problems(sound: Path) -> None:
    """Nothing is found where nothing was changed, in all runs or in those that are named."""
    assert json_of("verify", "--store", sound) == {"ok": True, "problems": []}
    assert json_of("verify", "run2", "--store", sound) == {"ok": True, "problems": []}
    events = rows_of(sound, "SELECT count(*) FROM event WHERE kind != ''")[0][0]
    assert output("verify", "--store", sound) == f"✓ 2 runs, {events} events: nothing was changed, lost or cut off\n"


def test_an_unknown_run_cannot_be_verified(sound: Path) -> None:
    """A run that is not there is missing data, not a sound run."""
    assert invoke("verify", "run9", "--store", sound).exit_code == 3


# -- one byte ------------------------------------------------------------------------------------------------------


def columns_of(path: Path, table: str) -> list[str]:
    """The columns of a table but for its key, which other tests are about."""
    return [name for _, name, *_ in rows_of(path, f"PRAGMA table_info({table})") if name not in ("key", "id")]


def test_one_changed_byte_in_any_column_of_an_event_is_named(copy: Path) -> None:
    """Whatever is changed of an event, verifying names it: the first event that is not what it was."""
    store = SqlStore(f"sqlite:///{copy}")
    for column in columns_of(copy, "event"):
        rows = rows_of(copy, f"SELECT key, {column} FROM event WHERE kind != '' AND key >> 32 = 1 ORDER BY key")
        assert rows
        for number, (key, value) in enumerate(rows):
            execute(copy, f"UPDATE event SET {column} = ? WHERE key = ?", flipped(value, number * 7), key)
            found = store.verify()
            assert {problem.run for problem in found} == {"run1"}
            assert found[0].seq == key & ((1 << SEQ_BITS) - 1), (column, value, found)
            execute(copy, f"UPDATE event SET {column} = ? WHERE key = ?", value, key)
    assert store.verify() == []
    store.close()


def test_an_event_that_was_moved_is_named(copy: Path) -> None:
    """An event under another number leaves a gap, and is itself in the wrong place."""
    execute(copy, "UPDATE event SET key = key + 1000 WHERE key = ?", (1 << SEQ_BITS) + 4)
    assert problems(copy)[0] == {"run": "run1", "seq": 4, "what": "event 4 is missing"}


@pytest.mark.parametrize(("table", "key"), [("message", "id"), ("blob", "hash")])
def test_one_changed_byte_of_a_message_or_large_value_is_named(
    table: str, key: str, sound: Path, tmp_path: Path
) -> None:
    """What events refer to is checked with them; each event that refers to it is named."""
    for column in columns_of(sound, table):
        rows = rows_of(sound, f"SELECT {key}, {column} FROM {table}")
        assert rows
        for number, (name, value) in enumerate(rows):
            path = Path(shutil.copy(sound, tmp_path / f"{column}{number}.db"))
            execute(path, f"UPDATE {table} SET {column} = ? WHERE {key} = ?", flipped(value, 11), name)
            assert all(problem["seq"] is not None for problem in problems(path))


def test_a_message_under_another_number_is_named(copy: Path) -> None:
    """Events refer to messages by a number of the store's own."""
    execute(copy, "UPDATE message SET id = 1000 WHERE id = 2")
    assert problems(copy)


def test_a_message_that_is_gone_is_named(copy: Path) -> None:
    """A message that events refer to and nobody has is a problem of these events."""
    execute(copy, "DELETE FROM message WHERE id = 2")
    referring = rows_of(copy, "SELECT key FROM event WHERE conversations IS NOT NULL AND key >> 32 = 1 ORDER BY key")
    seqs = [key & ((1 << SEQ_BITS) - 1) for (key,) in referring]
    assert {problem["seq"] for problem in problems(copy) if problem["run"] == "run1"} == set(seqs[1:])


def test_a_body_that_was_exchanged_with_its_hash_is_named(copy: Path) -> None:
    """Whoever writes the old hash beside a new body is found too."""
    ((body, digest),) = rows_of(copy, "SELECT body, hash FROM event WHERE kind = 'run.started' LIMIT 1")
    execute(
        copy,
        "UPDATE event SET body = ?, body_hash = ? WHERE hash = ?",
        body.replace(b'"reader"', b'"writer"'),
        sha256(body).digest(),
        digest,
    )
    (problem,) = problems(copy)
    assert (problem["run"], problem["seq"]) == ("run1", 0)
    assert "the body was changed" in problem["what"]


def test_one_flipped_bit_in_the_file_itself_is_named(sound: Path, tmp_path: Path) -> None:
    """A disk that gives back another byte of a stored event is found, whichever the event."""
    data = sound.read_bytes()
    rows = rows_of(sound, "SELECT key, body FROM event WHERE kind != '' AND length(body) > 20 ORDER BY key")
    tried = 0
    for key, body in rows:
        place = data.find(body)
        if place < 0 or data.find(body, place + 1) >= 0:
            continue
        damaged = bytearray(data)
        damaged[place + len(body) // 2] ^= 0x10
        path = tmp_path / f"{key}.db"
        path.write_bytes(damaged)
        run, seq = f"run{key >> SEQ_BITS}", key & ((1 << SEQ_BITS) - 1)
        assert (run, seq) in [(problem["run"], problem["seq"]) for problem in problems(path)]
        tried += 1
    assert tried >= 15, "of the events, some are as long as nothing else in the file"


@pytest.mark.parametrize("seed", range(4))
def test_no_damage_to_the_file_is_a_bug(seed: int, sound: Path, tmp_path: Path) -> None:
    """Wherever a bit is flipped, every reading verb shows what there is or says what is wrong."""
    chance, data = Random(seed), sound.read_bytes()
    for number in range(12):
        damaged = bytearray(data)
        used = [at for at in range(chance.randrange(997), len(data), 997) if data[at]]
        damaged[chance.choice(used)] ^= 1 << chance.randrange(8)
        path = tmp_path / f"{number}.db"
        path.write_bytes(damaged)
        for verb in (["ls"], ["show", "run1"], ["state", "run1"], ["diff", "run1", "--step", "2"], ["verify"]):
            result = invoke(*verb, "--store", path)
            # 2: the step that is asked for is gone, since it is no longer said that it started.
            assert result.exit_code in (0, 1, 2, 3), result.stderr
            assert (result.exit_code in (2, 3)) is (result.stderr != "")


# -- what is missing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_a_tail_that_was_cut_off_is_named(lost: int, copy: Path) -> None:
    """A log that ends before its end is named at the first event that is gone; the other run is sound."""
    (last,) = rows_of(copy, f"SELECT max(key) FROM event WHERE kind != '' AND key >> {SEQ_BITS} = 1")[0]
    execute(copy, f"DELETE FROM event WHERE key > ? AND key >> {SEQ_BITS} = 1", last - lost)
    (problem,) = problems(copy)
    assert (problem["run"], problem["seq"]) == ("run1", (last & ((1 << SEQ_BITS) - 1)) - lost + 1)
    assert "cut off" in problem["what"]
    assert json_of("verify", "run2", "--store", copy) == {"ok": True, "problems": []}


def test_a_tail_that_was_cut_off_behind_a_new_end_is_named(copy: Path) -> None:
    """Whoever moves the end of the log to where it was cut is found as well: the end has the hash of the last event."""
    (last,) = rows_of(copy, f"SELECT max(key) FROM event WHERE kind != '' AND key >> {SEQ_BITS} = 1")[0]
    execute(copy, "DELETE FROM event WHERE key = ?", last)
    execute(copy, "UPDATE event SET key = ? WHERE key = ? AND kind = ''", last, last + 1)
    assert problems(copy)


def test_an_event_that_is_gone_from_the_middle_is_named(copy: Path) -> None:
    """A gap is named by the event that is missing."""
    execute(copy, "DELETE FROM event WHERE key = ?", (1 << SEQ_BITS) + 5)
    found = problems(copy)
    assert found[0] == {"run": "run1", "seq": 5, "what": "event 5 is missing"}


def test_two_runs_that_changed_places_are_named(copy: Path) -> None:
    """An event hash covers the run's uid: the log of another run is not this one's."""
    first, second = [uid for (uid,) in rows_of(copy, "SELECT uid FROM run ORDER BY number")]
    execute(copy, "UPDATE run SET uid = 'x' WHERE number = 1")
    execute(copy, "UPDATE run SET uid = ? WHERE number = 2", first)
    execute(copy, "UPDATE run SET uid = ? WHERE number = 1", second)
    assert {problem["run"] for problem in problems(copy)} == {"run1", "run2"}


# -- how it is said ------------------------------------------------------------------------------------------------


def test_people_read_which_event_is_damaged(copy: Path) -> None:
    """A line per problem, and a last one that counts them."""
    execute(copy, "UPDATE event SET task = '9' WHERE key = ?", (1 << SEQ_BITS) + 3)
    result = invoke("verify", "--store", copy)
    assert result.exit_code == 1
    first, *_, last = result.stdout.splitlines()
    assert first.startswith("✗ run1, event 3: ")
    assert "1 problem in 1 of 2 runs" in last


def test_a_damaged_event_is_named_by_readers_too(copy: Path) -> None:
    """A verb that meets a damaged event says which, and what to do."""
    execute(copy, "UPDATE event SET body = X'7B' WHERE key = ?", (1 << SEQ_BITS) + 4)
    result = invoke("show", "run1", "--store", copy)
    assert result.exit_code == 3
    assert "run1, event 4" in result.stderr
    assert "agentreplay verify run1" in result.stderr
