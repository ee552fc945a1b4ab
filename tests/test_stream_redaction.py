"""A secret that a stream brings in pieces is not stored in pieces either."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.redaction import Redactor
from agentreplay.recorder.stream_redaction import redact_stream
from hypothesis import given, settings
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


# -- streams in a stream -----------------------------------------------------------------------------------------------

FORMS: dict[str, Any] = {
    "choices": lambda k, n, text: {"id": "c", "choices": [{"index": k, "delta": {"content": text}}]},
    "tool calls": lambda k, n, text: {
        "choices": [
            {
                "index": 0,
                "delta": {
                    "tool_calls": [
                        {"index": k, "id": f"call{k}" if n == 0 else None, "function": {"arguments": text}},
                    ]
                },
            }
        ]
    },
    "blocks of text": lambda k, n, text: {"type": "content_block_delta", "index": k, "delta": {"text": text}},
    "blocks of json": lambda k, n, text: {"type": "content_block_delta", "index": k, "delta": {"partial_json": text}},
    "items": lambda k, n, text: {
        "type": "response.output_text.delta",
        "event_id": f"event-{k}-{n}",
        "item_id": f"item{k // 2}",
        "output_index": k // 2,
        "content_index": k % 2,
        "delta": text,
    },
    "ids only": lambda k, n, text: {"type": "text-delta", "id": f"t{k}", "delta": text},
    "types only": lambda k, n, text: {"type": f"kind{k}", "delta": text},
    "objects": lambda k, n, text: {
        "$type": "model",
        "class": "shop:Chunk",
        "fields": {
            "choices": [
                {"$type": "dataclass", "class": "shop:Choice", "fields": {"index": k, "delta": {"content": text}}}
            ]
        },
    },
}
"""Of the streams in a stream: the chunk of stream k that is its nth, with a text."""


def texts_in(node: Any) -> list[str]:
    """The texts of a chunk that are part of an answer."""
    if isinstance(node, list):
        return [text for item in node for text in texts_in(item)]
    if not isinstance(node, dict):
        return []
    own = [node[key] for key in ("content", "arguments", "text", "partial_json", "delta") if type(node.get(key)) is str]
    return own + [text for item in node.values() for text in texts_in(item)]


def interleaved(form: str, texts: list[str], size: int, order: list[int]) -> tuple[list[Any], list[int]]:
    """The chunks, and of which stream each is: as the order says, then what is left in turn."""
    left = [[text[at : at + size] for at in range(0, len(text), size)] for text in texts]
    counts = [0] * len(texts)
    chunks, owners = [], []
    for wanted in [*order, *list(range(len(texts))) * (max(map(len, left)) + 1)]:
        owner = wanted % len(texts)
        if counts[owner] < len(left[owner]):
            chunks.append(FORMS[form](owner, counts[owner], left[owner][counts[owner]]))
            owners.append(owner)
            counts[owner] += 1
    return chunks, owners


def together(chunks: list[Any], owners: list[int], stream: int) -> str:
    return "".join(
        text for chunk, owner in zip(chunks, owners, strict=True) if owner == stream for text in texts_in(chunk)
    )


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("form", FORMS)
@given(st.integers(1, 5), st.lists(st.integers(0, 4), max_size=60))
@settings(max_examples=15)
def test_streams_in_a_stream_are_read_apart(form: str, size: int, count: int, order: list[int]) -> None:
    """However their chunks alternate, each text is redacted as if it had come alone; a second time changes nothing."""
    texts = [f"a {SECRET[:-1]}{number} z" if number % 2 == 0 else "it is fine today, is it" for number in range(count)]
    chunks, owners = interleaved(form, texts, size, order)

    made = redact_stream(chunks, REDACTOR)

    assert [together(made, owners, number) for number in range(count)] == [REDACTOR.redact_text(text) for text in texts]
    assert len(made) == len(chunks)
    assert redact_stream(made, REDACTOR) is made


def test_a_choice_may_stand_anywhere_in_the_list_of_choices() -> None:
    """It is known by the index it says, also where chunks bring several choices or change their order."""
    first, second = SECRET[:9], SECRET[9:]
    chunks = [
        {"choices": [{"index": 0, "text": "fine "}, {"index": 1, "text": first}]},
        {"choices": [{"index": 1, "text": second}, {"index": 0, "text": "today"}]},
    ]

    made = redact_stream(chunks, REDACTOR)

    assert made[0]["choices"] == [{"index": 0, "text": "fine "}, {"index": 1, "text": REDACTOR.redact_text(SECRET)}]
    assert made[1]["choices"] == [{"index": 1, "text": ""}, {"index": 0, "text": "today"}]


def test_a_number_on_each_chunk_marks_no_stream() -> None:
    """An index that only counts the chunks does not keep them apart."""
    chunks = [{"index": number, "text": letter} for number, letter in enumerate(SECRET)]

    made = redact_stream(chunks, REDACTOR)

    assert "".join(chunk["text"] for chunk in made) == REDACTOR.redact_text(SECRET)
