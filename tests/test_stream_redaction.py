"""A secret that a stream brings in pieces is not stored in pieces either."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.redaction import Redactor
from agentreplay.recorder.stream_redaction import redact_stream
from hypothesis import given
from hypothesis import strategies as st

SECRET = "sk-" + "proj-" + "U0096Zq7Xk2Lm9Pw4Rt8Vb3Nc6"
REDACTOR = Redactor(b"k" * 32)


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % len(text) for cut in cuts)})
    return [text[start:stop] for start, stop in pairwise(places)]


@given(st.text("ab \n", max_size=8), st.text("ab \n", max_size=8), st.lists(st.integers(0, 60), max_size=6))
def test_however_a_secret_is_cut_it_is_replaced(before: str, after: str, cuts: list[int]) -> None:
    """The chunks together are what redacting the whole text gives, and there are as many as before."""
    whole = f"{before} {SECRET} {after}"
    chunks = pieces(whole, cuts)
    made = redact_stream(chunks, REDACTOR)
    if len(chunks) > 1:
        assert "".join(made) == REDACTOR.redact_text(whole)
        assert len(made) == len(chunks)


@given(st.lists(st.text("ab \n", max_size=5), max_size=6))
def test_a_stream_without_secrets_stays_as_it_is(chunks: list[str]) -> None:
    """Nothing is copied for nothing."""
    assert redact_stream(chunks, REDACTOR) is chunks


def test_deltas_of_models_are_read_as_one_text() -> None:
    """The texts at the same place of each chunk belong together."""
    chunks: list[Any] = [
        {"choices": [{"delta": {"content": part}, "index": 0}], "id": "c"}
        for part in ("use ", SECRET[:9], SECRET[9:], " ok")
    ]
    made = redact_stream(chunks, REDACTOR)
    text = "".join(chunk["choices"][0]["delta"]["content"] for chunk in made)
    assert text == REDACTOR.redact_text(f"use {SECRET} ok")
    assert chunks[1]["choices"][0]["delta"]["content"] == SECRET[:9]


@pytest.mark.parametrize("cut", [1, 4, 12, 20])
def test_a_recorded_stream_holds_no_secret(cut: int) -> None:
    """From the agent to the log: what the stream gave is not in it, in pieces or whole."""
    store = MemoryStore()

    def stream(prompt: str) -> Any:
        yield "the key is "
        yield SECRET[:cut]
        yield SECRET[cut:]

    with ar.record("streams", store=store) as run, run.round() as r:
        assert "".join(r.model("m", {"prompt": "?"}, stream)) == f"the key is {SECRET}"
    stored = "".join(str(event.data) for event in store.events("run1"))
    assert SECRET[cut:] not in stored
