"""The page about Strands is run: its code works as it stands there, with a model that needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "strands.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.S)
MODEL = """
import sys
sys.path.insert(0, {tests!r})
import strands.agent.agent
from strands_scripted import Use, World

world = World()
strands.agent.agent.BedrockModel = lambda: world.model([Use("forecast", {{"city": "Ghent"}})], ["an umbrella it is"])
"""


def run(code: str, folder: Path) -> str:
    program = MODEL.format(tests=str(ROOT / "tests")) + code
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def agentreplay(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "agentreplay", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_works_as_it_stands(tmp_path: Path) -> None:
    """Its agent is recorded and shown; it replays and is re-run, in Python as on the page."""
    module, use = PYTHON
    (tmp_path / "weather.py").write_text(module)
    run("import runpy; runpy.run_path('weather.py', run_name='__main__')", tmp_path)
    assert "tool forecast  returned" in agentreplay(tmp_path, "show", "run1")
    made = run(use, tmp_path)
    assert "run2 an umbrella it is" in made
    assert "sun in Ghent" in agentreplay(tmp_path, "show", "run2")


def test_the_page_names_every_parameter_of_the_recorder() -> None:
    """A new parameter is on the page, or this fails."""
    code = "import inspect, agentreplay as ar; print(*list(inspect.signature(ar.strands.Recorder).parameters))"
    names = run(code, ROOT).split()
    signature = re.search(r"`Recorder\((.*?)\)`", PAGE, re.S)
    assert signature is not None
    assert re.findall(r"\w+(?==None)|(?<=, )\w+", signature[1]) == names


def test_the_package_does_not_load_the_sdk_before_it_is_asked_for(tmp_path: Path) -> None:
    """`import agentreplay` costs no extra; without the extra, the error says what to install."""
    code = (
        "import sys, agentreplay; print('strands' in sys.modules); agentreplay.strands; print('strands' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
    without = """
import sys
sys.modules["strands"] = None
import agentreplay
try:
    agentreplay.strands
except agentreplay.UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", without], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "pip install 'strands-agents>=1.62'" in done.stdout
