"""Runs with secrets replay from their redacted record, in the store that made the tokens and in any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789AB"


@ar.tool(safety="pure")
def login(password: str, user: str) -> dict[str, Any]:
    """A tool that is given a secret and gives one."""
    return {"token": "tk_live_9f8e7d6c5b4a3f2e1d", "user": user}


@ar.model
def ask(messages: list[dict[str, Any]], api_key: str) -> dict[str, Any]:
    """A model that says a secret."""
    return {"text": f"the key is {KEY}"}


def secretive(user: str = "bob") -> Any:
    """An agent with secrets in its payload, its arguments, its messages and its answers."""

    @ar.agent("secretive")
    def step(i: int, context: ar.Context) -> ar.Complete[str]:
        session = login("hunter2-very-long-1!", user)
        answer = ask([{"role": "user", "content": f"use {session['token']}"}], api_key=KEY)
        context.change(update={"token": session["token"], "said": answer["text"]})
        return ar.Complete("done")

    return step


def test_a_run_with_secrets_replays_where_it_was_recorded(tmp_path: Path) -> None:
    """Tokens stand for the same secrets there."""
    store = str(tmp_path / "store.db")
    secretive().run({"token": "", "said": "", "password": "first-9384-one!"}, store=store)
    assert ar.replay("run1", secretive(), store=store).verdict == "identical"


def test_tokens_of_another_store_are_compared_by_kind(tmp_path: Path) -> None:
    """A cassette holds tokens that nobody else can make again; what is not secret is compared as ever."""
    here, there, cassette = (str(tmp_path / name) for name in ("here.db", "there.db", "run.jsonl"))
    secretive().run({"token": "", "said": "", "password": "first-9384-one!"}, store=here)
    ar.export_run("run1", cassette, store=here)
    assert KEY not in Path(cassette).read_text()
    ar.import_file(cassette, store=there)
    assert ar.replay("run1", secretive(), store=there).verdict == "identical"
    with pytest.raises(ar.Divergence) as raised:
        ar.replay("run1", secretive("eve"), store=there)
    difference = raised.value.difference
    assert (difference.kind, difference.path) == ("other arguments", "/user")
