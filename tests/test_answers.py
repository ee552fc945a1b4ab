"""Recorded answers come back as the objects that the agent got, and nothing else ever does."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import urllib.error
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterable, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Annotated, Any

import agentreplay
import pytest
import value_examples
from agentreplay.recorder.calls import Effect
from agentreplay.recorder.decorators import model, tool
from agentreplay.recorder.effects import effect_of
from agentreplay.recorder.errors import AgentReplayError, LossyAnswer, RecordedError, UnknownType
from agentreplay.recorder.events import ErrorInfo
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.values import TypeRegistry
from agentreplay.replay.answers import AnswerTypes
from agentreplay.replay.declared_types import DeclaredTypes
from answered import (
    Batch,
    Call,
    Client,
    Color,
    Forbidden,
    Item,
    Key,
    Leaf,
    Order,
    Pair,
    Refused,
    Response,
    Text,
    Usage,
    answers,
    defined_in,
    of,
    recorded,
    stored,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from recorded import one
from value_examples import assert_same

# -- values that come back ---------------------------------------------------------------------------------------------

DECLARED = tuple(
    cls
    for cls in vars(value_examples).values()
    if isinstance(cls, type) and value_examples.types.of(cls) is not None and cls is not value_examples.Celsius
)


@settings(max_examples=300, deadline=None)
@given(value_examples.values)
def test_every_value_comes_back_exactly_through_a_declared_effect(value: Any) -> None:
    """Whatever an agent can get comes back with its type, where the effect declares the classes in it."""
    registered = TypeRegistry()
    registered.register(
        value_examples.Celsius,
        name="celsius",
        encode=lambda value: [value.degrees],
        decode=lambda data: value_examples.Celsius(data[0]),
    )
    back = answers(DECLARED, types=registered).value(stored(value, value_examples.types), "call c1")
    assert_same(value, back)


@given(value_examples.plain_values)
def test_plain_answers_are_handed_out_as_they_are(value: Any) -> None:
    """Plain JSON costs no copy: the stored tree is the answer."""
    assert answers().value(value, "call c1") is value


ORDER = Order([Item("a", Color.RED)], {Key("k"): Item("b")})


def test_nested_models_come_back_inside_a_list_inside_a_dataclass() -> None:
    """Fields set, extra fields, private attributes and what is in them: all as it was, though no validator runs."""
    first = Response(content=[Text(text="a"), Call(arguments={"x": (1, 2)}, at=Decimal("1.50"))], more=Decimal("2"))
    first._leaf = Leaf(7)
    second = Response.model_construct(content=[], even=3, usage=Usage(tokens=4))
    value = Batch([first, second])
    back = answers(Batch).value(stored(value), "call c1")
    assert_same(value, back)
    assert back.responses[0]._leaf == Leaf(7)
    assert back.responses[0].model_fields_set == {"content", "more"}
    assert back.responses[1].even == 3


def test_no_constructor_runs_again() -> None:
    """What `__post_init__` did while recording is not done a second time."""
    kept = stored(ORDER)
    Item.made.clear()
    assert answers(Order).value(kept, "call c1") == ORDER
    assert Item.made == []


@pytest.mark.parametrize(
    "annotation",
    [
        Iterator[Item],
        Iterable[Item],
        AsyncIterator[Item],
        Generator[Item, None, Key],
        AsyncGenerator[Item, None],
        Annotated[Iterator[Item], "streamed"],
        Iterator["Item"],
    ],
    ids=str,
)
def test_chunks_have_the_type_of_a_streams_items(annotation: Any) -> None:
    """The element type of an iterator or a generator is that of the recorded chunks, in a list that is the caller's."""

    def look() -> Any: ...

    look.__annotations__["return"] = annotation
    assert of(look).chunks(stored([Item("a"), Item("b")]), "call c1") == [Item("a"), Item("b")]
    plain = ["a", "b"]
    back = of(look).chunks(plain, "call c1")
    assert back == plain
    assert back is not plain


def test_the_value_of_a_generator_is_declared_too() -> None:
    """`Generator[Item, None, Key]` returns a Key when it ends."""
    assert answers(Generator[Item, None, Key]).value(stored(Key("k")), "call c1") == Key("k")


def test_an_undeclared_chunk_keeps_all_of_them_back() -> None:
    """The pointer starts with the chunk's number."""
    with pytest.raises(UnknownType) as caught:
        answers(Iterator[Item]).chunks(stored([Item("a"), [Key("k")]]), "call c1")
    assert (caught.value.pointer, caught.value.wanted) == ("/1/0", "answered:Key")


def test_what_a_run_records_comes_back_from_its_events() -> None:
    """From the agent's call, through a store, to the object that the agent got; so with a stream and with an error."""

    @tool
    def look() -> Batch:
        return Batch([Response(content=[Text(text="a")])])

    @model
    def ask() -> Iterator[Item]:
        yield Item("a")
        yield Item("b")

    @tool(raises=(Refused,))
    def fail() -> None:
        raise Refused(7, key=Key("k"))

    store = MemoryStore()
    with agentreplay.record("a", store=store):
        value, chunks = look(), list(ask())
        with pytest.raises(Refused) as caught:
            fail()
    assert_same(value, of(look).value(one(store, "tool.returned").data.result, "run1"))
    assert of(ask).chunks(one(store, "model.returned").data.stream, "run1") == chunks
    assert_same(caught.value, of(fail).error(one(store, "tool.failed").data.error, "run1"))


# -- values that do not ------------------------------------------------------------------------------------------------


def test_an_undeclared_dataclass_stops_the_replay_and_names_the_declaration() -> None:
    """The message says where, which class, and the three ways to declare it."""
    with pytest.raises(UnknownType) as caught:
        answers(list[Item]).value(stored({"orders": [Item("a"), Key("k")]}), "run7, step 3, call c2")
    error = caught.value
    assert isinstance(error, AgentReplayError)
    assert (error.effect, error.pointer, error.wanted) == ("look", "/orders/1", "answered:Key")
    assert str(error) == (
        "run7, step 3, call c2: the recorded answer of the tool look has a answered:Key at '/orders/1', and only "
        "classes that the code declares come back. Annotate that look returns it, or give @ar.tool(returns=Key), or "
        "call ar.register_type(Key) beforehand."
    )


def test_all_that_is_undeclared_is_named_at_once() -> None:
    """Who declares one class after the other should need one round."""
    with pytest.raises(UnknownType, match=r"So with a answered:Leaf at '/a/fields/b/1'\.") as caught:
        answers(kind="model").value(
            {"a": {"$type": "dataclass", "class": "x:Y", "fields": {"b": [0, stored(Leaf())]}}}, "c1"
        )
    assert (caught.value.pointer, caught.value.wanted) == ("/a", "x:Y")
    assert "@ar.model(returns=Y)" in str(caught.value)


def test_an_undeclared_class_within_a_declared_one_stops_the_replay() -> None:
    """A field that says Any declares nothing."""
    with pytest.raises(UnknownType) as caught:
        answers(Pair).value(stored(Pair(Key("k"), (Leaf(1),))), "call c1")
    assert (caught.value.pointer, caught.value.wanted) == ("/fields/value/items/0", "answered:Leaf")


def test_two_declared_classes_of_one_name_are_not_told_apart_by_chance() -> None:
    """Neither is taken, until one is registered."""
    one, two = defined_in("shop", "Twin"), defined_in("shop", "Twin")
    types = TypeRegistry()
    with pytest.raises(UnknownType, match="two classes of that name"):
        answers((one, two), types=types).value(stored(one(1)), "call c1")
    types.register(two)
    assert type(answers((one, two), types=types).value(stored(one(1)), "call c1")) is two


def test_a_class_stored_by_its_own_encode_needs_its_decode() -> None:
    """An annotation does not tell how to read what `encode=` wrote."""
    types = TypeRegistry()
    types.register(Client, name="client", encode=lambda client: 1, decode=lambda data: Client(Key("k"), Leaf()))
    tree = stored(Client(Key("k"), Leaf()), types)
    with pytest.raises(UnknownType, match=r"encode= of an ar\.register_type") as caught:
        answers(Client).value(tree, "call c1")
    assert caught.value.wanted == "client"


def test_a_class_that_has_changed_stops_the_replay() -> None:
    """What was recorded does not fit the class of today: nothing is made up."""
    tree = {"$type": "namedtuple", "class": "answered:Pair", "fields": {"key": 1, "gone": 2}}
    with pytest.raises(UnknownType, match="cannot be built") as caught:
        answers(Pair).value([tree], "call c1")
    assert (caught.value.pointer, caught.value.wanted) == ("/0", "answered:Pair")


@pytest.mark.parametrize(
    ("value", "pointer", "wanted"),
    [
        ({"a": [threading.Lock()]}, "/a/0", "_thread:lock"),
        (Pair(Key("k"), (x for x in ())), "/fields/value", "builtins:generator"),
        (Item("a", threading.Lock()), "/fields/color", "_thread:lock"),  # type: ignore[arg-type]
        (Client(Key("k"), Leaf()), "", "answered:Client"),
    ],
    ids=["item", "generator", "field", "whole"],
)
def test_what_was_not_stored_exactly_is_not_handed_out(value: Any, pointer: str, wanted: str) -> None:
    """A description is not what the agent got."""
    with pytest.raises(LossyAnswer) as caught:
        answers((Pair, Item, Client)).value(stored(value), "run7, call c2")
    error = caught.value
    assert (error.effect, error.pointer, error.wanted) == ("look", pointer, wanted)
    assert str(error).startswith("run7, call c2: the recorded answer of the tool look was not stored exactly")
    assert "ar.register_type(" in str(error)


def test_a_value_of_which_a_part_was_lost_is_not_handed_out() -> None:
    """A defaultdict came back without its factory would raise where it did not."""
    with pytest.raises(LossyAnswer, match="and 1 more") as caught:
        answers().value(stored([defaultdict(lambda: 1, a=2), object()]), "call c1")
    assert (caught.value.pointer, caught.value.wanted) == ("/0", "defaultdict")


@pytest.mark.parametrize(
    ("tag", "why"),
    [
        ({"$type": "bytes", "base64": "?"}, "it is damaged"),
        ({"$type": "decimal"}, "it is damaged"),
        ({"$type": "hologram", "value": 1}, "this version does not know stored values of type 'hologram'"),
        ({"$type": []}, "this version does not know"),
        ({"$type": None}, "this version does not know"),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_not_handed_out(tag: Any, why: str) -> None:
    """A damaged tag, and one of a newer version, stop the replay where they stand."""
    with pytest.raises(LossyAnswer) as caught:
        answers().value({"a": [tag]}, "call c1")
    assert caught.value.pointer == "/a/0"
    assert why in str(caught.value)


def test_nothing_of_an_answer_is_made_when_a_part_is_lossy() -> None:
    """Not even a registered `decode` runs."""
    types = TypeRegistry()
    decoded: list[Any] = []
    types.register(Client, encode=lambda client: 1, decode=decoded.append)
    tree = stored([Client(Key("k"), Leaf()), object()], types)
    with pytest.raises(LossyAnswer):
        answers(types=types).value(tree, "call c1")
    assert decoded == []


def test_deep_answers_need_no_stack() -> None:
    """What is stored in pieces comes back in one, and an error within it has a pointer."""
    value: Any = Leaf(1)
    for _ in range(5000):
        value = [value]
    back = answers(Leaf).value(stored(value), "call c1")
    for _ in range(5000):
        back = back[0]
    assert back == Leaf(1)
    with pytest.raises(UnknownType) as caught:
        answers().value(stored(value), "call c1")
    assert caught.value.wanted == "answered:Leaf"


# -- errors ------------------------------------------------------------------------------------------------------------


def with_notes(error: BaseException, *notes: str, cause: BaseException | None = None) -> BaseException:
    for note in notes:
        error.add_note(note)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no", 1, (2,)),
        KeyError("a"),
        OSError("only text"),
        FileNotFoundError(2, "No such file", "a.txt"),
        OSError(18, "Cross-device link", "a", None, "b"),
        ConnectionResetError(104, "reset"),
        TimeoutError("late"),
        TimeoutError(),
        asyncio.QueueFull("full"),
        UnicodeDecodeError("utf-8", b"ab", 0, 1, "why"),
        StopIteration(3),
        SystemExit(2),
        ImportError("no", name="n", path="/x"),
        json.JSONDecodeError("bad", "{", 1),
        subprocess.CalledProcessError(2, ["ls"], b"out", b"err"),
        socket.gaierror(-2, "Name or service not known"),
        urllib.error.URLError("refused"),
        with_notes(ValueError("a"), "first", "second", cause=KeyError("b")),
        ExceptionGroup("two", [ValueError("a"), ExceptionGroup("in", [TypeError("b")])]),
    ],
    ids=repr,
)
def test_exceptions_of_python_come_back_without_a_declaration(error: BaseException) -> None:
    """Built-in ones and those of the standard library: class, arguments, attributes, notes and cause."""
    back = answers().error(recorded(error), "call c1")
    assert_same(error, back)
    assert str(back) == str(error)
    assert getattr(back, "__notes__", None) == getattr(error, "__notes__", None)


@settings(max_examples=150, deadline=None)
@given(value_examples.exceptions(value_examples.scalars))
def test_every_exception_comes_back_exactly_where_it_is_declared(error: BaseException) -> None:
    """Whatever its arguments, attributes and cause are."""
    assume("Celsius" not in repr((error, vars(error), error.__cause__)))  # the one class that is not declared
    types = TypeRegistry()
    info = ErrorInfo(type="x", message="y", value=stored(error, value_examples.types))
    assert_same(error, answers(raises=DECLARED, types=types).error(info, "call c1"))


def test_a_custom_exception_comes_back_where_it_is_declared() -> None:
    """Its constructor is not called: what it takes is not what the exception holds."""
    error = with_notes(Refused(7, key=Key("k")), "a note")
    for types in (answers(raises=(Refused,)), answers(raises=Refused), AnswerTypes.of(*declared_by_a_tool())):
        back = types.error(recorded(error), "call c1")
        assert_same(error, back)
        assert (str(back), back.code, back.key, back.__notes__) == ("refused with 7", 7, Key("k"), ["a note"])


def declared_by_a_tool() -> tuple[Effect, Any]:
    @tool(raises=(Refused,))
    def look() -> None: ...

    effect = effect_of(look)
    assert effect is not None
    return effect, look


def test_a_registered_exception_comes_back() -> None:
    """`register_type` declares for all effects."""
    types = TypeRegistry()
    types.register(Refused, name="refused")
    types.register(Key)
    error = Refused(7, key=Key("k"))
    assert_same(error, answers(types=types).error(recorded(error, types), "call c1"))
    types.register(Refused, encode=lambda error: error.code, decode=lambda code: Refused(code, key=Key("new")))
    back = answers(types=types).error(recorded(error, types), "call c1")
    assert (type(back), back.args, back.key) == (Refused, ("refused with 7",), Key("new"))


def test_a_subclass_of_a_declared_exception_comes_back() -> None:
    """Code that declares a base catches all of the family."""
    back = answers(raises=(Refused,)).error(recorded(Forbidden(3, key=Key("k"))), "call c1")
    assert (type(back), back.code) == (Forbidden, 3)


def test_each_time_an_error_is_asked_for_it_is_a_new_one() -> None:
    """Raising changes an exception, so it is not shared."""
    info = recorded(ValueError("a"))
    types = answers()
    assert types.error(info, "call c1") is not types.error(info, "call c1")


def test_an_exception_of_a_class_that_is_not_there_is_a_recorded_error() -> None:
    """It has the type, the text and the traceback; what else it held is not asked for."""
    try:
        raise Refused(7, key=threading.Lock())  # type: ignore[arg-type]
    except Refused as error:
        info = recorded(error)
    assert isinstance(info.value, dict)
    gone = info.model_copy(update={"type": "answered.Gone", "value": {**info.value, "class": "answered:Gone"}})
    back = answers().error(gone, "call c1")
    assert type(back) is RecordedError
    assert not isinstance(back, AgentReplayError)
    assert (back.type, back.message) == ("answered.Gone", "refused with 7")
    assert str(back) == "Gone: refused with 7"
    assert back.traceback is not None
    assert back.traceback.startswith("Traceback")
    assert agentreplay.RecordedError is RecordedError


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        ["$type"],
        {"$type": "opaque", "class": "shop:Gone", "repr": "Gone()"},
        {"$type": "registered", "class": "shop:Gone", "value": 1},
        {"$type": "dataclass", "class": "builtins:ValueError", "fields": {}},
        {"$type": "exception", "class": 3, "args": []},
        {"$type": "exception"},
        {"$type": []},
        {"$type": "tuple", "items": []},
    ],
    ids=str,
)
def test_an_error_of_which_little_is_stored_is_a_recorded_error(value: Any) -> None:
    """An imported or damaged error has its text."""
    back = answers().error(ErrorInfo(type="ValueError", message="no", value=value), "call c1")
    assert (type(back), str(back)) == (RecordedError, "ValueError: no")
    assert str(RecordedError("ValueError", "")) == "ValueError"


def renamed(stored_tree: Any, before: str, after: str) -> Any:
    return json.loads(json.dumps(stored_tree).replace(before, after))


def test_unknown_exceptions_within_a_known_one_are_recorded_errors() -> None:
    """A cause, and a member of a group, is treated as the error itself would be."""
    error = with_notes(
        ExceptionGroup("two", [ValueError("a"), Refused(1, key=Key("k"))]), cause=Refused(2, key=Key("k"))
    )
    info = recorded(error)
    gone = info.model_copy(update={"value": renamed(info.value, "answered:Refused", "answered:Gone")})
    back: Any = answers().error(gone, "call c1")
    assert type(back) is ExceptionGroup
    assert type(back.exceptions[0]) is ValueError
    assert [(type(one), one.type, one.message) for one in (back.exceptions[1], back.__cause__)] == [
        (RecordedError, "answered.Gone", "refused with 1"),
        (RecordedError, "answered.Gone", "refused with 2"),
    ]
    odd = [recorded(with_notes(ValueError(), cause=type("Odd", (Exception,), {})(*args))) for args in (("a", 1), ())]
    several, none = (
        answers().error(info.model_copy(update={"value": renamed(info.value, ":Odd", ":Gone")}), "c1") for info in odd
    )
    assert [error.__cause__.message for error in (several, none)] == ["('a', 1)", ""]  # type: ignore[union-attr]


def test_a_recorded_error_comes_back_as_itself() -> None:
    """A re-run records what was raised in it; replaying that needs no declaration."""
    error = RecordedError("shop.Gone", "no", "Traceback …")
    back = answers().error(recorded(error), "call c1")
    assert_same(error, back)
    assert str(back) == "Gone: no"


@pytest.mark.parametrize("cls", [KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
def test_what_came_from_outside_does_not_come_again(cls: Any) -> None:
    """Neither alone nor in a group, nor where it is declared."""
    for types in (answers(), answers(raises=(BaseException,)), answers(raises=cls)):
        assert type(types.error(recorded(cls()), "call c1")) is RecordedError
        back: Any = types.error(recorded(BaseExceptionGroup("g", [ValueError(), cls()])), "call c1")
        assert [type(one) for one in back.exceptions] == [ValueError, RecordedError]


def test_a_known_error_that_was_not_stored_exactly_is_not_raised() -> None:
    """An attribute that is a description only would be used as what it was."""
    error = Refused(7, key=threading.Lock())  # type: ignore[arg-type]
    with pytest.raises(LossyAnswer) as caught:
        answers(raises=(Refused,)).error(recorded(error), "run7, call c2")
    assert (caught.value.pointer, caught.value.wanted) == ("/state/key", "_thread:lock")
    assert str(caught.value).startswith("run7, call c2: the recorded error of the tool look was not stored exactly")


def test_a_known_error_with_an_undeclared_value_is_not_raised() -> None:
    """Plain data would stand where the agent had an object."""
    with pytest.raises(UnknownType) as caught:
        answers().error(recorded(ValueError(Key("k"))), "call c1")
    assert (caught.value.pointer, caught.value.wanted) == ("/args/0", "answered:Key")


def test_exceptions_among_results_need_their_class() -> None:
    """As a value, an exception is data like any other: no stand-in takes its place."""
    value = [ValueError("a"), subprocess.CalledProcessError(1, "x"), KeyboardInterrupt()]
    assert_same(value, answers().value(stored(value), "call c1"))
    with pytest.raises(UnknownType):
        answers().value(stored([Refused(1, key=Key("k"))]), "call c1")


# -- what a file may not do --------------------------------------------------------------------------------------------

KINDS = ("enum", "dataclass", "model", "exception", "object", "registered", "class", "subclass", "namedtuple")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["os:system", "subprocess:Popen", "builtins:eval", "antigravity:Thing", "socket:socket"]
)
def test_a_file_chooses_neither_an_import_nor_a_call(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that the code does not declare is never looked for, whatever the tag says it is."""
    monkeypatch.delitem(sys.modules, "antigravity", raising=False)
    called: list[Any] = []
    monkeypatch.setattr("os.system", called.append)
    monkeypatch.setattr("subprocess.Popen.__init__", lambda *args, **kwargs: called.append(args))
    monkeypatch.setattr("builtins.eval", called.append)
    tag = {
        "$type": kind,
        "class": name,
        "name": "a",
        "value": "x",
        "fields": {},
        "fields_set": [],
        "state": {},
        "args": ["true"],
    }
    types = answers(Order, raises=(Exception,))
    with pytest.raises(UnknownType) as caught:
        types.value([tag], "call c1")
    assert caught.value.wanted == name
    back = types.error(ErrorInfo(type=name, message="m", value=tag), "call c1")
    assert type(back) is RecordedError
    assert called == []
    assert "antigravity" not in sys.modules


def test_an_exception_of_a_module_that_is_not_loaded_is_not_loaded_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the standard library, too, only what the program has imported is known."""
    monkeypatch.delitem(sys.modules, "nntplib", raising=False)
    tag = {"$type": "exception", "class": "nntplib:NNTPError", "args": []}
    assert type(answers().error(ErrorInfo(type="nntplib.NNTPError", message="", value=tag), "c1")) is RecordedError
    assert "nntplib" not in sys.modules


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3) | st.sampled_from(["answered:Order", "builtins:ValueError"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["$type", "class", "items", "fields", "args", "value", "name", "state", "parts", "index"]
                ),
                inner | st.sampled_from([*KINDS, "tuple", "set", "deep", "part", "dict", "opaque"]),
                max_size=5,
            )
        ),
        max_leaves=12,
    )
)
def test_no_stored_tree_gives_another_error_than_the_two(tree: Any) -> None:
    """Whatever a file holds is an answer, an UnknownType or a LossyAnswer; an error, at the worst, a RecordedError."""
    types = answers(Order, raises=(Refused,))
    for ask in (
        lambda: types.value(tree, "call c1"),
        lambda: types.error(ErrorInfo(type="x", message="m", value=tree), "call c1"),
    ):
        with suppress(UnknownType, LossyAnswer):
            ask()


# -- memory ------------------------------------------------------------------------------------------------------------


def test_the_annotations_of_an_effect_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the effect is described anew for each call, and where a method is bound anew."""
    looks: list[Any] = []

    class Counted(DeclaredTypes):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            looks.append(args)
            super().__init__(*args, **kwargs)

    monkeypatch.setattr("agentreplay.replay.answers.DeclaredTypes", Counted)
    client, types = Client(Key("k"), Leaf()), TypeRegistry()
    for _ in range(3):
        AnswerTypes.of(Effect("tool", "ask"), client.ask, types)
    assert len(looks) == 1
    AnswerTypes.of(Effect("tool", "ask", returns=Key), client.ask, types)
    AnswerTypes.of(Effect("tool", "ask"), client.ask, TypeRegistry())
    assert len(looks) == 3
