"""The wheel as a user installs it: everything of ours, nothing else, under one name."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution, version
from pathlib import Path

import agentreplay
import pytest

TREE = Path(__file__).parent.parent
PROJECT = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))
FOLDERS: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]
SHIPPED_SUFFIXES = {".py", ".typed", ".html", ".css", ".js", ".svg", ".ico", ".png"}


def files_of_the_tree() -> Iterator[str]:
    """Name every file of the package folders as it is called once installed."""
    for package, folder in FOLDERS.items():
        for file in (TREE / folder).rglob("*"):
            if file.suffix in SHIPPED_SUFFIXES:
                yield f"{package.replace('.', '/')}/{file.relative_to(TREE / folder).as_posix()}"


def installed_files() -> set[str]:
    """Name what the installed distribution put into site-packages, its own metadata aside."""
    names = {file.as_posix() for file in distribution("agentreplay-debugger").files or ()}
    return {name for name in names if ".dist-info/" not in name and "__pycache__" not in name}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the two files of a release, the wheel from the source distribution."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    subprocess.run(
        ["cp", "-R", "pyproject.toml", "README.md", "LICENSE", *FOLDERS.values(), tree],
        cwd=TREE,
        check=True,
    )
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, tree],
        check=True,
        capture_output=True,
    )
    return out


def test_tests_import_the_installed_wheel() -> None:
    """What the tests exercise comes from site-packages, never from the folders of the tree (use `make test`)."""
    purelib = Path(sysconfig.get_path("purelib")).resolve()
    assert Path(agentreplay.__file__).resolve() == purelib / "agentreplay" / "__init__.py"


def test_wheel_ships_every_file_of_the_packages() -> None:
    """Each module, template, static file and py.typed of the tree is installed, and no file that the tree lacks."""
    scripts = {name for name in installed_files() if name.startswith("../")}
    assert {Path(name).name for name in scripts} == {"agentreplay"}
    assert installed_files() - scripts == set(files_of_the_tree())


def test_wheel_is_marked_as_typed() -> None:
    """A user's type checker reads our annotations."""
    assert "agentreplay/py.typed" in installed_files()


def test_wheel_owns_one_name() -> None:
    """No generic top-level name lands in site-packages, so a user's own recorder.py is never shadowed."""
    assert {name.split("/")[0] for name in installed_files() if not name.startswith("../")} == {"agentreplay"}


def test_source_distribution_builds_the_same_wheel(release: Path) -> None:
    """A wheel built from the source distribution holds what the installed one holds."""
    (wheel,) = release.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == {name for name in installed_files() if not name.startswith("../")}


def test_release_carries_the_licence(release: Path) -> None:
    """Both files of a release hold the text of the licence they are under."""
    (wheel,) = release.glob("*.whl")
    (source,) = release.glob("*.tar.gz")
    assert "agentreplay_debugger-0.1.0.dist-info/licenses/LICENSE" in zipfile.ZipFile(wheel).namelist()
    with tarfile.open(source) as archive:
        assert "agentreplay_debugger-0.1.0/LICENSE" in archive.getnames()


def test_version_is_the_same_everywhere() -> None:
    """The package, its metadata and pyproject.toml agree on the version, and the changelog has an entry for it."""
    assert agentreplay.__version__ == version("agentreplay-debugger") == PROJECT["project"]["version"]
    assert f"## [{agentreplay.__version__}]" in (TREE / "CHANGELOG.md").read_text(encoding="utf-8")


def test_module_and_script_are_the_same_program() -> None:
    """`python -m agentreplay` and `agentreplay` print the same help, each under its own name."""
    script = Path(sysconfig.get_path("scripts")) / "agentreplay"
    as_script = subprocess.run([script, "--help"], check=True, capture_output=True, text=True).stdout
    as_module = subprocess.run(
        [sys.executable, "-m", "agentreplay", "--help"], check=True, capture_output=True, text=True
    ).stdout
    assert as_script.startswith("Usage: agentreplay ")
    assert as_module == as_script.replace("Usage: agentreplay ", "Usage: python -m agentreplay ")
