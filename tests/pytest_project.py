"""A project with an agent and tests of recorded runs, for the tests of the pytest plugin: pytest is run in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

AGENT = '''
import pathlib
import agentreplay as ar

LIVE = pathlib.Path(__file__).with_name("live.txt")


def live(what):
    """Leave a trace in the world: a real call was made."""
    with LIVE.open("a") as file:
        file.write(what + " ")


@ar.tool(safety="pure")
def find(order_id: str, limit: int) -> dict:
    live("find")
    return {"id": order_id, "total": 12.5}


@ar.model
def ask(messages: list[dict]) -> dict:
    live("ask")
    return {"role": "assistant", "content": "refund it"}


@ar.agent("refunds")
def step(round_index: int, context: ar.Context):
    if round_index == 1:
        context.change(new={"order": find(order_id=context.payload["order_id"], limit=5)}, reason="found")
        return ar.Continue()
    answer = ask(messages=[{"role": "system", "content": "You are kind."}])
    return ar.Complete(answer["content"])


@ar.agent("refunds")
async def astep(round_index: int, context: ar.Context):
    return step(round_index, context)


def own_loop():
    with ar.record("loop", payload={"n": 1}) as run:
        with run.round() as r:
            r.change(new={"order": find(order_id="C-3", limit=1)})
'''

HEAD = "import pytest\nimport agentreplay as ar\nfrom agent import *\n"
RECORDED: dict[tuple[str, str], bytes] = {}
"""What was recorded already: the agent and the code that runs it → the cassette."""

MARKED = '@pytest.mark.agentreplay("fixtures/refund.jsonl"'


class Project:
    """A folder with an agent, its tests and their cassettes, in which pytest is run as a program."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.folder = pytester.path
        self.live = self.folder / "live.txt"
        self.cassettes = self.folder / "tests" / "fixtures"
        self.cassettes.mkdir(parents=True)
        (self.folder / "agent.py").write_text(AGENT, encoding="utf-8")
        self.ini("")

    def ini(self, more: str) -> None:
        """Configure pytest there."""
        text = f"[pytest]\npythonpath = .\naddopts = --strict-markers --strict-config\n{more}"
        (self.folder / "pytest.ini").write_text(text, encoding="utf-8")

    def tests(self, text: str, name: str = "test_refund.py") -> None:
        """Write a file of tests."""
        (self.folder / "tests" / name).write_text(HEAD + text, encoding="utf-8")

    def change(self, old: str, new: str) -> None:
        """Change the agent's code; `old` must be there."""
        text = (self.folder / "agent.py").read_text(encoding="utf-8")
        assert old in text
        (self.folder / "agent.py").write_text(text.replace(old, new), encoding="utf-8")

    def record(self, name: str = "refund.jsonl", code: str = 'step.run({"order_id": "A-17"}, store=store)') -> Path:
        """Record the agent, as a person would, into a cassette; the same code once for all tests."""
        path, key = self.cassettes / name, ((self.folder / "agent.py").read_text(encoding="utf-8"), code)
        if key not in RECORDED:
            program = (
                f"import agentreplay as ar\nfrom agent import *\nstore = ar.open_store('elsewhere.db')\n{code}\n"
                f"ar.export_run('@last', {str(path)!r}, store=store)\n"
            )
            subprocess.run([sys.executable, "-c", program], cwd=self.folder, check=True)
            for made in [*self.folder.glob("elsewhere.db*"), self.live]:
                made.unlink()
            RECORDED[key] = path.read_bytes()
        path.write_bytes(RECORDED[key])
        return path

    def pytest(self, *options: str, plugins: tuple[str, ...] = (), **expected: int) -> str:
        """Run pytest, in a process of its own: whatever it imports is forgotten with it. Return what it printed."""
        loaded = [word for plugin in ("agentreplay.pytest_plugin", *plugins) for word in ("-p", plugin)]
        result = self.pytester.runpytest_subprocess(*loaded, *options)
        if expected:
            result.assert_outcomes(**expected)
        self.code = result.ret
        return result.stdout.str() + result.stderr.str()

    def calls(self) -> list[str]:
        """What was really called since the last look."""
        made = self.live.read_text().split() if self.live.exists() else []
        self.live.unlink(missing_ok=True)
        return made


FORMS = {
    "fixture": f"{MARKED})\ndef test_it(agentreplay):\n    agentreplay.replay(step)\n",
    "app": f"{MARKED}, app=step)\ndef test_it():\n    pass\n",
    "body": f'{MARKED})\ndef test_it():\n    assert step.run({{"order_id": "A-17"}}).value == "refund it"\n',
    "path": 'def test_it(agentreplay):\n    agentreplay.replay(step, "fixtures/refund.jsonl")\n',
    "function": 'def test_it():\n    ar.assert_replays("tests/fixtures/refund.jsonl", step)\n',
    "method": f"class TestIt:\n    {MARKED})\n    def test_it(self, agentreplay):\n        agentreplay.replay(step)\n",
    "module": 'pytestmark = pytest.mark.agentreplay("fixtures/refund.jsonl", app=step)\ndef test_it():\n    pass\n',
    "unittest": f"import unittest\nclass TestIt(unittest.TestCase):\n    {MARKED}, app=step)\n"
    "    def test_it(self):\n        self.assertTrue(True)\n",
}


def project_in(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project whose tests are run with this plugin and no other, and not in continuous integration."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in ("CI", "AGENTREPLAY_STORE", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    return Project(pytester)
