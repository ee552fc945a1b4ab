"""A project of somebody else's, from the wheel to a red test and back to a green one.

It has a virtual environment of its own, in which the wheel is installed and nothing else. Where its dependencies are
installed already, which is beside these tests, they are found by a path; so nothing is downloaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path

import pytest

TREE = Path(__file__).parent.parent

AGENT = """
import agentreplay as ar


@ar.tool(safety="pure")
def find_order(order_id: str, limit: int) -> dict:
    return {"id": order_id, "total": 12.5}


@ar.model
def ask(messages: list[dict]) -> dict:
    return {"role": "assistant", "content": f"refund it, as {messages[0]['content']!r} says"}


@ar.agent("refunds")
def step(round_index: int, context: ar.Context):
    if round_index == 1:
        order = find_order(order_id=context.payload["order_id"], limit=5)
        context.change(new={"order": order}, reason="needed for the policy check")
        return ar.Continue()
    answer = ask(messages=[{"role": "system", "content": "Be kind."}, {"role": "user", "content": "A lamp is broken."}])
    return ar.Complete(answer["content"])
"""

TEST = """
import pytest
from agent import step


@pytest.mark.agentreplay("fixtures/refund.jsonl")
def test_refund(agentreplay):
    agentreplay.replay(step)
"""

OTHERS = ("anyio", "asyncio", "hypothesispytest", "playwright", "schemathesis", "xdist")
"""Plugins of ours that the project would not have; loading them takes longer than its tests."""

OPTIONS = ["--strict-markers", *[word for name in OTHERS for word in ("-p", f"no:{name}")]]
PROJECT = f'[tool.pytest.ini_options]\npythonpath = ["."]\naddopts = {OPTIONS}\n'


class Sample:
    """The project, and the environment that it has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.environment = folder / "venv"
        (self.folder / "tests" / "fixtures").mkdir(parents=True)
        self.write("agent.py", AGENT)
        self.write("tests/test_refund.py", TEST)
        self.write("pyproject.toml", PROJECT)
        self.write(".gitignore", "__pycache__\n.pytest_cache\n")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def change(self, old: str, new: str) -> None:
        """Change the agent's code; `old` must be there."""
        text = (self.folder / "agent.py").read_text(encoding="utf-8")
        assert old in text
        self.write("agent.py", text.replace(old, new))

    def run(self, *command: str, code: int = 0) -> str:
        """Run a program of the environment in the project; gives what it printed."""
        program = self.environment / "bin" / command[0]
        mine = ("CI", "PYTHONPATH", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "AGENTREPLAY_STORE", "VIRTUAL_ENV")
        variables = {name: value for name, value in os.environ.items() if name not in mine}
        done = subprocess.run(
            [program, *command[1:]], cwd=self.folder, env=variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def pytest(self, *options: str, code: int = 0) -> str:
        return self.run("python", "-m", "pytest", *options, code=code)

    def git(self, *words: str) -> str:
        who = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org", "-c", "init.defaultBranch=main"]
        command = ["git", *who, *words]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    """A project with an agent, in whose environment the wheel is installed."""
    tree, out = tmp_path / "tree", tmp_path / "dist"
    tree.mkdir()
    pyproject = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))
    folders = dict.fromkeys(folder.split("/")[0] for folder in pyproject["tool"]["setuptools"]["package-dir"].values())
    subprocess.run(["cp", "-R", "pyproject.toml", "README.md", "LICENSE", *folders, tree], cwd=TREE, check=True)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(tree)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = out.glob("*.whl")
    project = Sample(tmp_path)
    venv.create(project.environment, symlinks=True)
    python = project.environment / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet", wheel]
    subprocess.run(install, check=True, capture_output=True)
    (packages,) = (project.environment / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    assert project.run("python", "-c", "import agentreplay; print(agentreplay.__file__)").startswith(str(packages))
    return project


def test_a_recorded_run_is_a_test_of_a_project_of_its_own(sample: Sample) -> None:
    """Recorded and committed, green; another prompt is red and says where, another tool call, too; updated, green."""
    sample.run("agentreplay", "run", "agent.py:step", "--payload", '{"order_id": "A-17"}')
    sample.run("agentreplay", "export", "run1", "tests/fixtures/refund.jsonl")
    sample.git("init", "--quiet")
    sample.git("add", "--all")
    sample.git("commit", "--quiet", "--message", "Add a test of a recorded run")
    assert "tests/fixtures/refund.jsonl" in sample.git("ls-files")
    assert ".agentreplay" not in sample.git("ls-files")

    assert "1 passed" in sample.pytest()
    assert sample.git("status", "--porcelain") == ""
    assert "'agentreplay' not found in `markers`" in sample.pytest("-p", "no:agentreplay", code=2)

    sample.change("Be kind.", "Be strict.")
    red = sample.pytest(code=1)
    for line in (
        "E   tests/fixtures/refund.jsonl does not replay",
        "E   step 2, call 2.1: other arguments",
        "E     path      /messages/0/content",
        'E   - expected  "Be kind."',
        'E   + actual    "Be strict."',
    ):
        assert f"\n{line}\n" in red
    assert sample.git("status", "--porcelain") == " M agent.py\n"

    told = sample.pytest("--agentreplay-update")
    assert "1 passed" in told
    assert "re-recorded tests/fixtures/refund.jsonl  2 rounds, completed  (step 2, call 2.1: other arguments" in told
    assert sample.git("status", "--porcelain") == " M agent.py\n M tests/fixtures/refund.jsonl\n"
    assert "1 passed" in sample.pytest()

    sample.change("limit=5", "limit=10")
    red = sample.pytest(code=1)
    for line in (
        "E   step 1, call 1.1: other arguments",
        "E     path      /limit",
        "E   - expected  5",
        "E   + actual    10",
    ):
        assert f"\n{line}\n" in red
    sample.pytest("--agentreplay-update")
    assert "1 passed" in sample.pytest()
