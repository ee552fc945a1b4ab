"""The checks that guard the project do find what they are there to find."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import agentreplay
import pytest

TREE = Path(__file__).parent.parent
SCRIPTS = Path(sysconfig.get_path("scripts"))

SKIPS = """
import pytest

def test_skips_inside():
    pytest.skip("no database here")

@pytest.mark.skip(reason="too slow")
def test_skips_by_mark():
    pass
"""


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the dependency rule on the copy of the package in `folder`."""
    command = [SCRIPTS / "lint-imports", "--no-cache", TREE / "pyproject.toml"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def run_pytest(folder: Path, *options: str, ci: str) -> str:
    """Run the tests in `folder` under our conftest and return what pytest printed."""
    shutil.copy(TREE / "tests" / "conftest.py", folder)
    environment = {**os.environ, "CI": ci}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, folder]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True).stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy the installed package into a folder of its own; the copy is what is imported there."""
    shutil.copytree(Path(agentreplay.__file__).parent, tmp_path / "agentreplay")
    return tmp_path


@pytest.mark.parametrize(
    ("module", "statement"),
    [
        ("recorder/planted.py", "import agentreplay"),
        ("recorder/planted.py", "from .. import __version__"),
        ("recorder/planted.py", "from ..cli import main"),
        ("recorder/payload/planted.py", "from ...replay import state"),
        ("recorder/planted.py", "def late() -> None:\n    from ..replay import state"),
        ("replay/planted.py", "from .. import webui"),
        ("replay/planted.py", "import agentreplay as ar"),
        ("webui/planted.py", "import agentreplay.cli"),
        ("webui/planted.py", "from .. import __version__"),
        ("planted.py", ""),
        ("recorder/payload/planted.py", "import time"),
        ("recorder/payload/planted.py", "from ..locate import open_store"),
        ("replay/planted.py", "import sqlalchemy"),
        ("recorder/planted.py", "from duckdb import connect"),
        ("recorder/planted.py", "import deepdiff"),
        ("replay/planted.py", "import click"),
        ("cli/planted.py", "import flask"),
    ],
)
def test_import_that_breaks_the_dependency_rule_is_found(copy: Path, module: str, statement: str) -> None:
    """A module that points up, belongs to no layer or uses what is not for it fails the lint by its name."""
    (copy / "agentreplay" / module).write_text(statement + "\n", encoding="utf-8")
    result = lint_imports(copy)
    assert result.returncode == 1
    assert "planted" in result.stdout


def test_package_obeys_the_dependency_rule(copy: Path) -> None:
    """Nothing in the package points up; what is planted above is therefore what was found."""
    result = lint_imports(copy)
    assert (result.returncode, "0 broken" in result.stdout) == (0, True), result.stdout


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_skipped_test_fails_in_continuous_integration(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Where CI is set a test that does not run is a failure, with one process and with several."""
    (tmp_path / "test_some.py").write_text(SKIPS, encoding="utf-8")
    output = run_pytest(tmp_path, *options, ci="true")
    assert "1 failed, 1 error" in output
    assert "no database here" in output
    assert "too slow" in output


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_skipped_module_fails_in_continuous_integration(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Where CI is set a module that skips itself is a failure, with one process and with several."""
    (tmp_path / "test_some.py").write_text('import pytest\npytest.importorskip("no_such_module")\n', encoding="utf-8")
    assert "no_such_module" in run_pytest(tmp_path, *options, ci="true").split("short test summary")[1]


def test_skipped_test_is_a_skip_on_a_desk(tmp_path: Path) -> None:
    """Where CI is not set a skip stays a skip."""
    (tmp_path / "test_some.py").write_text(SKIPS, encoding="utf-8")
    assert "2 skipped" in run_pytest(tmp_path, ci="")


def test_browser_tests_without_a_browser_fail_and_say_what_to_install(tmp_path: Path) -> None:
    """Wherever they run: a missing Chromium is never a skip."""
    folder = tmp_path / "browser"
    shutil.copytree(TREE / "tests" / "browser", folder)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", folder / "test_browser_compare.py", "-x"]
    environment = {**os.environ, "CI": "", "PATH": str(tmp_path)}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert result.returncode == 1
    assert "1 error" in result.stdout
    assert "On Debian: apt-get install chromium" in result.stdout
