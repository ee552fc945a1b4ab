"""A secret that a stream brings in pieces is not stored in pieces either."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.redaction import Redactor
from agentreplay.recorder.stream_redaction import redact_stream
from agentreplay.recorder.values import decode, encode
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


@pytest.mark.parametrize("size", [1, 3, 7, 25])
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


# -- streams in bytes and lines ----------------------------------------------------------------------------------------

PASSWORD = "Zq7Xk2-Lm9Pw4"
WIRES: dict[str, Any] = {
    "events": lambda said: f"data: {json.dumps(said)}\n\n",
    "named events": lambda said: f"event: delta\r\ndata:{json.dumps(said)}\r\n\r\n",
    "lines of JSON": lambda said: json.dumps(said, separators=(",", ":")) + "\n",
    "letters of their own": lambda said: json.dumps(said, ensure_ascii=False) + "\n",
    "parts with names": lambda said: f"0:{json.dumps(said)}\n",
}


def said_on(wire: str) -> list[Any]:
    """What the lines of a wire say."""
    starts = ("data: ", "data:", "0:")
    lines = [line for line in wire.splitlines() if "{" in line]
    return [json.loads(next((line[len(at) :] for at in starts if line.startswith(at)), line)) for line in lines]


def as_bytes(chunks: list[bytes]) -> list[Any]:
    return [encode(chunk).stored for chunk in chunks]


def of_bytes(chunks: list[Any]) -> list[bytes]:
    return [decode(chunk) for chunk in chunks]


@given(st.text("ab é\n", max_size=8), st.text("ab é\n", max_size=8), st.lists(st.integers(0, 80), max_size=6))
def test_however_a_secret_is_cut_in_bytes_it_is_replaced(before: str, after: str, cuts: list[int]) -> None:
    """Also where a letter is cut; chunks of bytes stay chunks of bytes, as many as they were."""
    whole = f"{before} {SECRET} {after}".encode()
    places = sorted({0, len(whole), *(cut % len(whole) for cut in cuts)})
    chunks = [whole[start:stop] for start, stop in pairwise(places)]
    made = of_bytes(redact_stream(as_bytes(chunks), REDACTOR))
    assert b"".join(made) == REDACTOR.redact_text(whole.decode()).encode()
    assert len(made) == len(chunks)


def test_a_secret_whose_letter_is_cut_is_replaced() -> None:
    """What is known by its name is found in bytes as it is in a text."""
    redactor = Redactor(b"k" * 32)
    redactor.learn("password", "Zq7é-Lm9ü-Pw4Rt8")
    whole = "it is Zq7é-Lm9ü-Pw4Rt8, he says".encode()
    for cut in range(1, len(whole)):
        made = of_bytes(redact_stream(as_bytes([whole[:cut], whole[cut:]]), redactor))
        assert b"".join(made) == redactor.redact_text(whole.decode()).encode()


@pytest.mark.parametrize("in_bytes", [True, False])
@pytest.mark.parametrize("wire", WIRES)
@given(st.integers(1, 40), st.integers(1, 3), st.lists(st.integers(0, 2000), max_size=12), st.booleans())
@settings(max_examples=15)
def test_a_secret_is_replaced_on_the_wire(
    wire: str, in_bytes: bool, size: int, count: int, cuts: list[int], whole: bool
) -> None:
    """However a provider sends it: a delta on each line, several answers by turns, the lines cut anywhere or not."""
    texts = [f"é a {SECRET[:-1]}{number} z" if number != 1 else "it is fine today, is it" for number in range(count)]
    said, owners = interleaved("choices", texts, size, [])
    lines = [WIRES[wire](item) for item in said]
    sent = "".join(lines)
    data = sent.encode()
    chunks: list[Any] = [line.encode() for line in lines]
    if not whole:
        places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
        chunks = [data[start:stop] for start, stop in pairwise(places)]
    if not in_bytes:
        chunks = lines if whole else [sent[: len(sent) // 3], sent[len(sent) // 3 :]]
    # A chunk by itself, which a text may be whole in, is redacted like any value.
    made = REDACTOR.redact(redact_stream(as_bytes(chunks) if in_bytes else chunks, REDACTOR))
    assert len(made) == len(chunks)
    together_again = b"".join(of_bytes(made)).decode() if in_bytes else "".join(made)
    for number, text in enumerate(texts):
        assert together(said_on(together_again), owners, number) == REDACTOR.redact_text(text)
    assert len(said_on(together_again)) == len(said)
    assert redact_stream(made, REDACTOR) == made


@pytest.mark.parametrize("size", [1, 3, 8, 30])
@pytest.mark.parametrize("form", ["tool calls", "blocks of json"])
@pytest.mark.parametrize("in_lines", [True, False])
def test_arguments_in_parts_are_read_as_what_they_say(in_lines: bool, form: str, size: int) -> None:
    """What stands under a secret name is secret in JSON that comes in parts of a text, too."""
    texts = [json.dumps({"host": "db", "password": PASSWORD + str(number), "note": 'a "b"'}) for number in range(2)]
    said, owners = interleaved(form, texts, size, [])
    chunks: list[Any] = [f"data: {json.dumps(item)}\n\n" for item in said] if in_lines else said
    made = redact_stream(chunks, REDACTOR)
    again = said_on("".join(made)) if in_lines else made
    for number, text in enumerate(texts):
        arguments = together(again, owners, number)
        assert arguments == REDACTOR.redact_text(text)
        assert json.loads(arguments)["password"] != PASSWORD + str(number)


def test_lines_without_ends_are_lines() -> None:
    """What reads a response line by line gives them so; and plain texts may be sent as data, too."""
    deltas = [json.dumps({"text": SECRET[at : at + 7]}) for at in range(0, len(SECRET), 7)]
    made = redact_stream([f"data: {delta}" for delta in deltas], REDACTOR)
    assert "".join(json.loads(line[6:])["text"] for line in made) == REDACTOR.redact_text(SECRET)
    made = redact_stream(deltas, REDACTOR)
    assert "".join(json.loads(line)["text"] for line in made) == REDACTOR.redact_text(SECRET)
    made = redact_stream([f"data: {SECRET[:9]}\n\ndata: {SECRET[9:]}\n\n", "data: [DONE]\n\n"], REDACTOR)
    assert made == [f"data: {REDACTOR.redact_text(SECRET)}\n\ndata: \n\n", "data: [DONE]\n\n"]


def test_items_of_an_array_that_is_sent_in_parts_are_chunks() -> None:
    """As of a response that is one JSON document, however it is cut."""
    items = [{"text": SECRET[at : at + 7], "n": at} for at in range(0, len(SECRET), 7)]
    sent = json.dumps(items, indent=1).encode()
    made = of_bytes(redact_stream(as_bytes([sent[:50], sent[50:90], sent[90:]]), REDACTOR))
    again = json.loads(b"".join(made))
    assert "".join(item["text"] for item in again) == REDACTOR.redact_text(SECRET)
    assert [item["n"] for item in again] == [item["n"] for item in items]


def test_odd_lines_are_no_obstacle() -> None:
    """A key twice, half a character, a `$type`: what is around them is redacted, and nothing raises."""
    odd = [
        '{"a": 1, "a": 2, "text": "%s"}',
        '{"é": "\\ud800", "text": "%s"}',
        '{"$type": "tuple", "text": "%s"}',
        '{"text": "%s"',
        '["%s"]',
    ]
    for form in odd:
        lines = [f"{form % part}\n".encode() for part in ("use ", SECRET[:9], SECRET[9:])]
        made = b"".join(of_bytes(redact_stream(as_bytes([*lines, b"\xff\xfe"]), REDACTOR)))
        assert made.endswith(b"\xff\xfe")
        assert (SECRET[9:].encode() in made) == (form == '{"text": "%s"')


def test_a_wire_without_secrets_stays_as_it_is() -> None:
    """The very same chunks are kept."""
    chunks = as_bytes([b'data: {"delta": {"text": "hello"}}\n', b'data: {"delta": {"text": " there"}}\n', b"\xff"])
    assert redact_stream(chunks, REDACTOR) is chunks


def test_a_recorded_stream_of_bytes_holds_no_secret() -> None:
    """From the agent to the log; and a secret beside half of another does not hide the other half."""
    store = MemoryStore()
    other = SECRET[:-1] + "7"
    sent = f"data: {json.dumps({'text': SECRET + ' ' + other[:12]})}\n\ndata: {json.dumps({'text': other[12:]})}\n\n"

    def stream(prompt: str) -> Any:
        yield sent[:60].encode()
        yield sent[60:110].encode()
        yield sent[110:].encode()

    with ar.record("streams", store=store) as run, run.round() as r:
        assert b"".join(r.model("m", {"prompt": "?"}, stream)).decode() == sent
    (event,) = [event for event in store.events("run1") if event.kind == "model.returned"]
    kept = b"".join(decode(event.data.stream)).decode()
    text = "".join(item["text"] for item in said_on(kept))
    redacted = store.redactor.redact_text(f"{SECRET} {other}")
    assert text == redacted
    assert SECRET not in text
    assert other[12:] not in text
