"""What a run's record says of the code and the machine."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from agentreplay.recorder.environment import (
    code_name,
    code_of,
    code_version,
    folder_of,
    name_of,
    process_identity,
    process_start,
    python_versions,
)


def git(folder: Path, *args: str) -> str:
    settings = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *settings, *args], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_commit_and_whether_files_differ_from_it(tmp_path: Path) -> None:
    """Untracked files do not count; outside of a checkout nothing is known."""
    code_version.cache_clear()
    assert code_version(str(tmp_path)) == {}
    git(tmp_path, "init")
    (tmp_path / "agent.py").write_text("1")
    code_version.cache_clear()
    assert code_version(str(tmp_path)) == {"commit": "(initial)", "dirty": False}
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    (tmp_path / "notes.txt").write_text("untracked")
    code_version.cache_clear()
    assert code_version(str(tmp_path)) == {"commit": git(tmp_path, "rev-parse", "HEAD"), "dirty": False}
    (tmp_path / "agent.py").write_text("2")
    code_version.cache_clear()
    assert code_version(str(tmp_path))["dirty"] is True


def test_without_git_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that lacks it records all the same."""
    monkeypatch.setenv("PATH", str(tmp_path))
    code_version.cache_clear()
    assert code_version(str(tmp_path)) == {}
    code_version.cache_clear()


def test_versions_are_read_without_asking_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that import more when they are looked at, and things that are no modules, are left alone."""

    class Lazy(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"asked for {name}")

    lazy = Lazy("lazy")
    ModuleType.__setattr__(lazy, "__version__", "1.2")
    monkeypatch.setitem(sys.modules, "lazy", lazy)
    monkeypatch.setitem(sys.modules, "no_module", 3)  # type: ignore[arg-type]  # some programs do
    monkeypatch.setitem(sys.modules, "none", None)  # type: ignore[arg-type]  # blocks an import
    found = python_versions()
    assert found["packages"]["lazy"] == "1.2"
    assert found["packages"]["pytest"] == pytest.__version__
    assert found["version"] == ".".join(map(str, sys.version_info[:3]))
    assert not {"sys", "json", "no_module", "none"} & set(found["packages"])


def test_a_process_is_told_from_every_other() -> None:
    """By its start, a process is not taken for a later one of the same number."""
    me = process_identity()
    assert (me["pid"], me["start"]) == (os.getpid(), process_start(os.getpid()))
    assert process_start(1) != me["start"]
    assert process_start(2**22 + 1) is None
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        started = process_start(other.pid)
        assert started is not None
        assert started >= me["start"]
        other.communicate(b"\n")
    assert process_start(other.pid) is None


class Named:
    def __call__(self) -> None: ...


def test_code_has_a_name_and_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of functions, decorated and partial ones, and objects that can be called."""

    @functools.wraps(git)
    def decorated() -> None: ...

    here = str(Path(__file__).parent)
    monkeypatch.chdir(here)
    assert code_name(code_of(git)) == "test_environment.py:git"
    assert code_name(code_of(functools.partial(decorated))) == "test_environment.py:git"
    assert code_name(code_of(Named())) == "test_environment.py:Named.__call__"
    assert code_of(len) is None
    assert code_name(None) is None
    assert folder_of(code_of(git)) == here
    assert folder_of(None) == here
    assert [name_of(git), name_of(functools.partial(git)), name_of(Named())] == ["git", "git", "Named"]
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert folder_of(None) == os.curdir
    assert code_name(code_of(git)) == f"{here}/test_environment.py:git"
    monkeypatch.chdir(here)
