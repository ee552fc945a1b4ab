"""Agents in files, for the tests of what executes code against a recording from the command line.

Each test that uses them works in a folder of its own (`at_work`), where `shop.py` holds them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SHOP = '''
import dataclasses, os, pathlib
import agentreplay as ar

WORLD = pathlib.Path(__file__).with_name("world.txt")


def done(what):
    """Leave a trace in the world: a real call was made."""
    with WORLD.open("a") as file:
        file.write(what + "\\\\n")


@dataclasses.dataclass
class Order:
    id: str
    total: float


class Rejected(Exception):
    """The bank does not like it."""


@ar.tool(safety="pure")
def find(order_id: str) -> Order:
    done("find")
    return Order(order_id, 12.5)


@ar.tool(safety="irreversible", raises=(Rejected,))
def pay(amount: float) -> str:
    done("pay")
    if os.environ.get("DIE"):
        os._exit(9)
    if amount > 10:
        raise Rejected(f"{amount} is too much")
    return f"paid {amount}"


@ar.model
def ask(messages: list[dict]) -> dict:
    done("ask")
    return {"role": "assistant", "content": "pay it"}


@ar.agent("shop")
def step(round_index: int, context: ar.Context):
    if round_index == 1:
        order = find(order_id="A-17")
        context.change(new={"amount": order.total, "tip": EXTRA}, reason="found")
        return ar.Continue()
    if round_index == 2:
        context.messages.append({"role": "user", "content": "what now?"})
        answer = ask(messages=list(context.messages))
        context.change(new={"plan": answer["content"]}, reason="asked")
        return ar.Continue()
    try:
        receipt = pay(amount=context.payload["amount"])
    except Rejected as error:
        return ar.NextStep(step="Failed", errorMessage=str(error), reasoning="the bank refused")
    return ar.Complete({"receipt": receipt, "params": context.params, "input": context.input})


@ar.agent("approved")
def approved(round_index: int, context: ar.Context):
    if round_index == 1:
        find(order_id="B-2")
        return ar.Continue()
    context.change(new={"yes": context.interrupt("approve", {"amount": 3})})
    return ar.Complete(context.payload["yes"])


def own_loop():
    with ar.record("loop", payload={"n": 1}) as run:
        for _ in range(2):
            with run.round() as r:
                r.change(update={"n": run.payload["n"] + find(order_id="C-3").total})
        run.complete(run.payload["n"])


def with_payload(payload, input=None):
    with ar.record("given", payload=payload) as run:
        with run.round():
            find(order_id=payload["order"])


def nothing_captured(round_index: int, context: ar.Context):
    return ar.Complete("fine")


if __name__ == "__main__":
    done("main")
    step.run({"n": 1})
'''.replace("EXTRA", "0").replace("\\\\n", "\\n")

PROGRAM = """
import agentreplay as ar
import shop

with ar.record("program", payload={"n": 1}) as run:
    with run.round() as r:
        r.change(update={"n": shop.find(order_id="D-4").total})
"""


@contextmanager
def at_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Work in a folder that holds shop.py and program.py; what is loaded from there is forgotten again."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.path", [*sys.path])
    (folder / "shop.py").write_text(SHOP, encoding="utf-8")
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    yield folder
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(str(folder)):
            del sys.modules[name]


def change_shop(old: str, new: str) -> None:
    """Change the code of the agents; `old` must be there."""
    text = Path("shop.py").read_text(encoding="utf-8")
    assert old in text
    Path("shop.py").write_text(text.replace(old, new), encoding="utf-8")


def calls_made() -> list[str]:
    """What was really called since the last look, in order."""
    world = Path("world.txt")
    made = world.read_text().split() if world.exists() else []
    world.unlink(missing_ok=True)
    return made
