"""Cassettes of version 1 replay: redacted ones, after names changed in the code, and from older shapes of events."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.examples import refunds
from agentreplay.recorder import upcasters
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.values import default_types

FOLDER = Path(__file__).resolve().parent.parent / "fixtures" / "cassettes" / "version_1"
COMPLETED = FOLDER / "shop.completed.jsonl"
OLDER_SHAPES = FOLDER / "shop.older_shapes.jsonl"
SOURCE = (FOLDER / "shop.py").read_text(encoding="utf-8")

REGISTERED = "@ar.register_type\n@dataclass"


def registered(options: str) -> tuple[str, str]:
    """The change with which the class of orders is registered otherwise."""
    return REGISTERED, f"@lambda cls: ar.register_type(cls, {options})\n@dataclass"


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is forgotten after it."""
    for held in ("_by_class", "_by_name"):
        monkeypatch.setattr(default_types, held, {})


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes the module that was recorded, with changes of its text and under a name."""

    def load(*changes: tuple[str, str], name: str = "shop") -> Any:
        source = SOURCE
        for old, new in changes:
            assert old in source
            source = source.replace(old, new)
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(source, f"{name}.py", "exec"), vars(module))
        return module

    return load


def replayed(agent: Any, path: Path = COMPLETED) -> ar.ReplayResult:
    result = ar.assert_replays(path, agent)
    coverage = result.coverage
    assert (result.verdict, coverage.recorded, coverage.live, coverage.unused) == ("identical", 6, 0, 0)
    return result


# -- redacted ----------------------------------------------------------------------------------------------------------


def test_a_redacted_cassette_of_version_1_replays(shop: Any) -> None:
    """The code has the secrets, the file has tokens of a key that is nowhere any more; they are compared by kind."""
    held = COMPLETED.read_text(encoding="utf-8")
    assert held.count("[redacted:password:") == 1
    assert held.count("[redacted:openai-key:") + held.count("[redacted:api-key:") == 1
    assert "horse-battery" not in held
    assert replayed(shop().step).coverage.notes == []


def test_another_secret_of_the_same_kind_is_none_of_its_business(shop: Any) -> None:
    """Of a token from elsewhere only the kind is known; a text that is no secret is a difference."""
    replayed(shop(('"correct-" + "horse-battery-9"', '"another-" + "long-password-7"')).step)
    with pytest.raises(ar.Divergence) as raised:
        replayed(shop(('log_in("ada"', 'log_in("eve"')).step)
    assert (raised.value.step, raised.value.kind, raised.value.path) == (3, "other arguments", "/user")


# -- renamed -----------------------------------------------------------------------------------------------------------

ORDER_KNOWN = registered('name="shop:Order"')
ERROR_KNOWN = ("class SoldOut", '@lambda cls: ar.register_type(cls, name="shop:SoldOut")\nclass SoldOut')
RENAMED: dict[str, tuple[tuple[str, str], ...]] = {
    "the step": (("def step", "def handle"),),
    "the agent": (('ar.agent("shop"', 'ar.agent("orders"'),),
    "the function of a sub-agent": (("def clerk", "def helper"), ("run_agent(clerk", "run_agent(helper")),
    "a sub-agent": (
        ('ar.agent("clerk"', 'ar.agent("helper"'),
        ('{"order": context.payload["order"]}', '{"order": context.payload["order"]}, name="clerk"'),
    ),
    "a tool": (
        ("find_order", "look_up"),
        ('@ar.tool(safety="pure")\ndef look_up', '@ar.tool(name="find_order", safety="pure")\ndef look_up'),
    ),
    "a model": (("ask(", "inquire("), ("@ar.model(", '@ar.model(name="ask", ')),
    "a class": (("Order", "Purchase"), (REGISTERED, ORDER_KNOWN[1])),
    "a field": (("total", "amount"), registered('name="shop:Order", fields={"amount": "total"}')),
    "an error": (("SoldOut", "NothingLeft"), ("class Nothing", ERROR_KNOWN[1].removesuffix("SoldOut") + "Nothing")),
}


@pytest.mark.parametrize("what", RENAMED)
def test_a_cassette_replays_after_something_was_renamed(what: str, shop: Any) -> None:
    """Some names no recording depends on; of the others the code says what they are called in recordings."""
    module = shop(*RENAMED[what])
    result = replayed(getattr(module, "handle", None) or module.step)
    told = ["run1 is a run of 'shop'; the agent that is executed is 'orders'"] if what == "the agent" else []
    assert result.coverage.notes == told


def test_a_cassette_replays_after_its_module_was_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recording names the module of its code; classes of the module that is executed go by that name."""
    (tmp_path / "stores").mkdir()
    (tmp_path / "stores" / "checkout.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("stores.checkout")
    monkeypatch.delitem(sys.modules, "stores.checkout")
    monkeypatch.setitem(sys.modules, "stores.checkout", module)
    assert replayed(module.step).coverage.notes == []


def test_a_cassette_replays_after_its_classes_were_moved_to_another_module(shop: Any) -> None:
    """They say that they are those which the recording names."""
    assert replayed(shop(ORDER_KNOWN, ERROR_KNOWN, name="stores").step).coverage.notes == []


def test_a_cassette_replays_under_another_name(shop: Any, tmp_path: Path) -> None:
    """Nothing in it says what its file is called."""
    renamed = tmp_path / "what we saw on Monday.txt"
    shutil.copy(COMPLETED, renamed)
    replayed(shop().step, renamed)


UNDECLARED = {
    "a tool": ((("find_order", "look_up"),), 1, "another call", ""),
    "a sub-agent": ((('ar.agent("clerk"', 'ar.agent("helper"'),), 2, "another call", ""),
    "a parameter": (
        (
            ("reserve(article: str", "reserve(item: str"),
            ("article ==", "item =="),
            ("SoldOut(article)", "SoldOut(item)"),
        ),
        1,
        "other arguments",
        "/item",
    ),
    "a key of the payload": ((('"said"', '"answer"'),), 3, "another payload", "/answer"),
    "an error": ((("SoldOut", "NothingLeft"),), 1, "another error", ""),
}


@pytest.mark.parametrize("what", UNDECLARED)
def test_what_was_renamed_and_not_declared_is_told(what: str, shop: Any) -> None:
    """A recording cannot know that two names mean the same; the place where they differ is named."""
    changes, step, kind, path = UNDECLARED[what]
    with pytest.raises(ar.Divergence) as raised:
        replayed(shop(*changes).step)
    assert (raised.value.step, raised.value.kind, raised.value.path) == (step, kind, path)


def test_a_field_that_was_renamed_and_not_declared_is_told(shop: Any) -> None:
    """An order without the field would break the agent somewhere else; the message says what to declare."""
    with pytest.raises(ar.UnknownType) as raised:
        replayed(shop(("total", "amount")).step)
    assert "agentreplay.register_type(Order, fields={'amount': 'total'})" in str(raised.value)


@pytest.mark.parametrize("outcome", ["completed", "failed"])
def test_earlier_recordings_of_the_demo_replay(outcome: str) -> None:
    """They were made while it was the module `refunds`, of which they do not say that it is the demo's."""
    ar.register_type(refunds.RefundRejected, name="refunds:RefundRejected")
    result = ar.assert_replays(FOLDER / f"refunds.{outcome}.jsonl", refunds.step)
    assert (result.verdict, result.coverage.live, result.coverage.unused) == ("identical", 0, 0)


# -- upcast ------------------------------------------------------------------------------------------------------------


def calls_in_their_first_shape(data: dict[str, Any]) -> dict[str, Any]:
    """A shape that calls never had: their arguments were called `args`."""
    return {"arguments" if name == "args" else name: value for name, value in data.items()}


def reads_in_their_first_shape(data: dict[str, Any]) -> dict[str, Any]:
    """A shape that reads never had: the clock was the source "time"."""
    return {**data, "source": {"time": "clock"}.get(data["source"], data["source"])}


@pytest.fixture
def shapes_have_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kinds are at version 2, and what brings version 1 there is known."""
    for kind, upcaster in {
        "tool.called": calls_in_their_first_shape,
        "value.read": reads_in_their_first_shape,
    }.items():
        monkeypatch.setitem(upcasters.CURRENT, kind, 2)
        monkeypatch.setitem(upcasters.UPCASTERS, (kind, 1), upcaster)


@pytest.mark.usefixtures("shapes_have_changed")
def test_events_in_an_older_shape_replay(shop: Any) -> None:
    """They are brought to today's shape where they are read, from a file as from a store."""
    assert replayed(shop().step, OLDER_SHAPES).coverage.notes == []


@pytest.mark.usefixtures("shapes_have_changed")
def test_a_run_of_older_events_goes_on_in_todays_shape(shop: Any, tmp_path: Path) -> None:
    """A fork shares the older events and adds its own; both verify, fold and replay, and go round through a file."""
    store, agent = MemoryStore(), shop().step
    ar.import_file(OLDER_SHAPES, store=store)
    assert store.verify() == []
    assert ar.state_at("run1", store=store).payload["found"].total == 129.5
    fork = ar.rerun("run1", agent, 3, allow=["log_in"], store=store).run
    assert ar.replay(fork.id, agent, store=store).verdict == "identical"
    versions = [row.version for row in store.rows(fork.uid) if row.kind == "tool.called"]
    assert versions == [1, 2]
    there = MemoryStore()
    ar.import_file(ar.export_run(fork.uid, tmp_path / "fork.jsonl", store=store), store=there)
    assert (there.verify(), ar.replay(fork.uid, agent, store=there).verdict) == ([], "identical")


def test_without_an_upcaster_an_older_shape_is_told(shop: Any) -> None:
    """What the file holds is nothing that the code of today does: the test above stands on its upcasters."""
    with pytest.raises(ar.Divergence) as raised:
        replayed(shop().step, OLDER_SHAPES)
    assert (raised.value.step, raised.value.kind) == (1, "other arguments")
