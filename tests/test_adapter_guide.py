"""The guide to adapters is true: its adapter passes the contract, and a careless one does not."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from agentreplay.adapter_contract import AdapterContract, Script
from agentreplay.recorder.store import EventStore

PAGE = (Path(__file__).parent.parent / "docs" / "adapters.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"```python\n# (\w+)\.py[^\n]*\n(.*?)```", PAGE, re.S))


def loaded(name: str, code: str) -> ModuleType:
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(code, f"docs/adapters.md:{name}", "exec"), module.__dict__)
    return module


def contract_of(adapter: str) -> AdapterContract:
    """The contract of the guide, over its framework, and an adapter."""
    loaded("tiny", BLOCKS["tiny"])
    loaded("tiny_adapter", adapter)
    contract: AdapterContract = loaded("test_tiny_adapter", BLOCKS["test_tiny_adapter"]).TestTiny()
    return contract


class TestGuide(AdapterContract):
    """The adapter of the guide, word for word."""

    runs_tools_side_by_side = False

    def app(self, script: Script, store: EventStore | None) -> Callable[[], Any]:
        return contract_of(BLOCKS["tiny_adapter"]).app(script, store)


CARELESS = {
    "records no tools": (
        'call = ar.wrap(lambda **arguments: fn(state, **arguments), kind="tool", name=name, raises=(ValueError,))',
        "call = lambda **arguments: fn(state, **arguments)",
        ("one_run_holds", "requests_and_results", "a_replay_reaches", "a_tool_that_raises"),
    ),
    "records no model": (
        'agent.model = ar.wrap(lambda messages: model(messages), kind="model", name="model", raises=(Exception,))',
        "agent.model = model",
        ("one_run_holds", "requests_and_results", "a_replay_reaches", "a_model_that_raises"),
    ),
    "keeps the state to itself": (
        "agent.state = State(block)",
        "agent.state = dict(state)",
        ("states_are_rebuilt",),
    ),
    "names tools by number": (
        'kind="tool", name=name,',
        'kind="tool", name=str(id(fn)),',
        ("one_run_holds", "a_replay_reaches"),
    ),
    "changes what the model is asked": (
        "lambda messages: model(messages)",
        'lambda messages: model([*messages, {"role": "system", "content": "recorded"}])',
        ("the_recorder_changes_nothing",),
    ),
    "swallows what a model raises": (
        "                text = run(prompt)\n",
        "                try:\n                    text = run(prompt)\n                except Exception:\n"
        "                    text = ''\n",
        ("a_model_that_raises",),
    ),
    "makes a result of an error": (
        "    return lambda _, **arguments: call(**arguments)\n",
        "\n    def careless(_, **arguments):\n        try:\n            return call(**arguments)\n"
        "        except ValueError as error:\n            return str(error)\n\n    return careless\n",
        ("a_tool_that_raises",),
    ),
    "records no input": (
        ", input=prompt,",
        ",",
        ("what_a_run_was_asked",),
    ),
}
"""What is careless about an adapter → what stands in the guide, what would stand there, and the laws that say so."""


@pytest.mark.parametrize("careless", CARELESS)
def test_a_careless_adapter_fails_the_laws_that_are_about_that(careless: str, tmp_path: Path) -> None:
    """So the contract notices; each law that is named fails, and not one by one only."""
    old, new, laws = CARELESS[careless]
    assert old in BLOCKS["tiny_adapter"]
    contract = contract_of(BLOCKS["tiny_adapter"].replace(old, new))
    for law in laws:
        (name,) = [name for name in dir(contract) if name.startswith(f"test_{law}")]
        folder = tmp_path / law
        folder.mkdir()
        with pytest.raises(Exception, match=r"(?s).*"):
            getattr(contract, name)(folder)


def test_the_guide_can_be_read_in_ten_minutes() -> None:
    """At two hundred words a minute, code included."""
    assert len(PAGE.split()) < 2_000
