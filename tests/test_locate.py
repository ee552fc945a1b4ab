"""Which store is meant, and how it comes to be."""

from __future__ import annotations

import gc
import os
import shutil
import stat
import threading
from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.locate import find_store, open_store, resolve_store
from agentreplay.recorder.memory_store import MemoryStore


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with no store above it."""
    monkeypatch.delenv("AGENTREPLAY_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(folder: Path) -> Path:
    """A file where a store would be."""
    (folder / ".agentreplay").mkdir(parents=True)
    path = folder / ".agentreplay" / "store.db"
    path.touch()
    return path


def test_the_order_of_precedence(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is named, then the environment, then the nearest upwards, then a new one here; looking creates nothing."""
    assert find_store() == f"sqlite:///{here}/.agentreplay/store.db"
    far, near, deep = make(here), make(here / "a"), here / "a" / "b" / "c"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert find_store() == f"sqlite:///{near}"
    near.unlink()
    assert find_store() == f"sqlite:///{far}"
    monkeypatch.setenv("AGENTREPLAY_STORE", "elsewhere.db")
    assert find_store() == f"sqlite:///{deep}/elsewhere.db"
    assert find_store("named.db") == f"sqlite:///{deep}/named.db"
    monkeypatch.setenv("AGENTREPLAY_STORE", "")
    assert find_store("") == f"sqlite:///{far}"
    assert not (deep / ".agentreplay").exists()


@pytest.mark.parametrize(
    ("named", "url"),
    [
        ("memory:", "memory:"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("sqlite://", "sqlite://"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("sqlite:///x.db?timeout=3", "sqlite:///x.db?timeout=3"),
        ("sqlite:///x.db", "sqlite:///{here}/x.db"),
        ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
        ("x.db", "sqlite:///{here}/x.db"),
        (".", "sqlite:///{here}/store.db"),
        ("~/x.db", "sqlite:///{home}/x.db"),
        (Path("x.db"), "sqlite:///{here}/x.db"),
    ],
)
def test_what_may_name_a_store(here: Path, monkeypatch: pytest.MonkeyPatch, named: Any, url: str) -> None:
    """URLs, files, folders; what is relative is relative to here."""
    monkeypatch.setenv("HOME", str(here / "home"))
    assert find_store(named) == url.format(here=here, home=here / "home")


def test_a_new_store_is_private(here: Path) -> None:
    """Its folder is the user's own, and nothing in it goes into git."""
    store = open_store()
    folder = here / ".agentreplay"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / ".gitignore").read_text() == "*\n"
    assert (folder / "store.db").is_file()
    store.close()


def test_a_store_elsewhere_gets_its_folder(here: Path) -> None:
    """A folder that the user names is made, and gets nothing of ours beside the store."""
    store = open_store("deep/er/my.db")
    assert sorted(path.name for path in (here / "deep" / "er").iterdir() if path.name != "my.db") in (
        [],
        ["my.db-shm", "my.db-wal"],
    )
    store.close()


def test_a_reader_creates_nothing(here: Path) -> None:
    """It says what is missing, and how to get it."""
    for named in (None, "x.db"):
        with pytest.raises(ar.StoreError, match="Record a run first"):
            open_store(named, create=False)
    assert list(here.iterdir()) == []


def test_a_store_is_opened_once(here: Path) -> None:
    """Whoever opens it in this process, in whatever thread, gets the same object; a closed one is opened anew."""
    found: list[Any] = []
    barrier = threading.Barrier(4)

    def open_it() -> None:
        barrier.wait()
        found.append(open_store())

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(store) for store in found}) == 1
    assert open_store(here / ".agentreplay") is found[0]
    found[0].close()
    again = open_store()
    assert again is not found[0]
    again.close()
    assert open_store("memory:") is not open_store("memory:")


def test_a_store_is_opened_with_rules_of_your_own(here: Path) -> None:
    """What they call a secret is one in all that is recorded there, and the run says by which rules."""
    rules = ar.RedactionRules(keys=("iban",), patterns=(ar.SecretPattern("badge", r"BDG-[0-9]{6}", ("BDG-",)),))
    store = ar.open_store(redaction=rules)
    assert ar.open_store() is store
    assert ar.open_store(redaction=ar.RedactionRules(keys=["iban"], patterns=rules.patterns)) is store

    with ar.record("refund", payload={"iban": "DE02 1203"}) as run, run.round() as r:
        r.change(new={"note": "badge BDG-123456"})

    recorded = [event.data for event in store.events("run1")]
    assert recorded[0].redaction["own_names"] == ["iban"]
    payload = ar.state_at("run1", -1).payload
    assert payload["iban"].startswith("[redacted:iban:")
    assert payload["note"].startswith("badge [redacted:badge:")


def test_a_store_is_not_given_other_rules_while_it_is_open(here: Path) -> None:
    """Neither rule is dropped in silence."""
    store = ar.open_store()
    with pytest.raises(ar.UsageError, match="open in this process with other redaction rules"):
        ar.open_store(redaction=ar.RedactionRules.off())
    store.close()
    again = ar.open_store(redaction=ar.RedactionRules.off())
    assert not again.rules.enabled
    assert not ar.open_store("memory:", redaction=ar.RedactionRules.off()).rules.enabled


def test_the_store_is_looked_up_at_each_call(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that changes its folder or its environment records where it says now."""
    urls = []
    for folder in ("one", "two"):
        (here / folder).mkdir()
        monkeypatch.chdir(here / folder)
        with ar.record("a"):
            pass
        urls.append(open_store().url)
    monkeypatch.setenv("AGENTREPLAY_STORE", str(here / "three.db"))
    with ar.record("a") as run:
        assert run.id == "run1"
    urls.append(open_store().url)
    assert urls == [
        f"sqlite:///{here}/one/.agentreplay/store.db",
        f"sqlite:///{here}/two/.agentreplay/store.db",
        f"sqlite:///{here}/three.db",
    ]
    for url in urls:
        assert [info.id for info in open_store(url).runs()] == ["run1"]
        open_store(url).close()


def test_a_store_that_was_deleted_is_made_anew(here: Path) -> None:
    """Nothing is written into a file that is no longer there."""
    with ar.record("a"):
        pass
    shutil.rmtree(here / ".agentreplay")
    with ar.record("b"):
        pass
    assert [info.agent for info in open_store(create=False).runs()] == ["b"]
    open_store().close()
    gc.collect()


def test_a_path_that_looks_like_a_query_is_a_path(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question mark in the name of a folder belongs to the name."""
    odd = here / "what?x=1 50%"
    odd.mkdir()
    monkeypatch.chdir(odd)
    with ar.record("a"):
        pass
    assert (odd / ".agentreplay" / "store.db").is_file()
    assert [info.agent for info in open_store(create=False).runs()] == ["a"]
    open_store().close()
    assert [path.name for path in here.iterdir()] == ["what?x=1 50%"]


def test_a_folder_that_cannot_be_made_is_named(here: Path) -> None:
    """A file where the folder would be."""
    (here / "taken").write_text("")
    with pytest.raises(ar.StoreError, match="cannot create the folder"):
        open_store("taken/x/store.db")
    (here / ".agentreplay").write_text("")
    with pytest.raises(ar.StoreError, match="cannot create the folder"):
        open_store()


def test_a_working_folder_that_is_gone_is_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says so, instead of a bare FileNotFoundError."""
    gone = here / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ar.StoreError, match="working folder is gone"):
        open_store()
    monkeypatch.chdir(here)


def test_a_store_stands_for_itself() -> None:
    """A `store=` argument may be one."""
    store = MemoryStore()
    assert resolve_store(store) is store


def test_a_forked_child_opens_the_store_by_itself(here: Path) -> None:
    """Also where a thread of the parent was opening one when it forked."""
    from agentreplay.recorder import locate

    parents = open_store()
    with locate._lock:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                with ar.record("child"):
                    pass
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with ar.record("parent") as run:
        assert run.id == "run2"
    assert [(info.agent, info.status) for info in parents.runs()] == [("child", "completed"), ("parent", "completed")]
    assert parents.verify() == []
    parents.close()
