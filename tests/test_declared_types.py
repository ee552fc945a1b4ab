"""What code says of itself declares the classes that its answers may become."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
import threading
from collections.abc import Awaitable, Callable, Coroutine
from http import HTTPStatus
from types import SimpleNamespace
from typing import (  # noqa: UP035  # of old code too
    Annotated,
    Any,
    List,
    Literal,
    NewType,
    Optional,
    TypedDict,
    TypeVar,
    Union,
    get_type_hints,
)
from unittest.mock import Mock

import pytest
import typing_extensions
from agentreplay.recorder.calls import Effect
from agentreplay.recorder.decorators import model, tool, wrap
from agentreplay.recorder.errors import UnknownType
from agentreplay.recorder.values import TypeRegistry
from agentreplay.replay.answers import AnswerTypes
from answered import (
    Box,
    Client,
    Color,
    Found,
    Item,
    Key,
    Leaf,
    Order,
    Orders,
    Page,
    Pair,
    Refused,
    Special,
    answers,
    defined_in,
    of,
    stored,
)
from pydantic import RootModel
from value_examples import assert_same

OrderId = NewType("OrderId", "Key")  # type: ignore[valid-newtype]  # a text that is resolved later
Tree = dict[str, "Tree | Leaf"]
Json: Any = "dict[str, Json] | list[Json] | Leaf"
ORDER = Order([Item("a", Color.RED)], {Key("k"): Item("b")})


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Order, ORDER),
        (Optional[Order], ORDER),  # noqa: UP045
        (Union[int, Order], ORDER),  # noqa: UP007
        (Order | None, ORDER),
        (list[Order], [ORDER]),
        (List[Order], [ORDER]),  # noqa: UP006
        (dict[Key, Order], {Key("k"): ORDER}),
        (tuple[Order, ...], (ORDER,)),
        (Annotated[Order, "a note"], ORDER),
        (Annotated[list["Order"], "Missing"], [ORDER]),
        (Literal[Color.RED, "red"], Color.RED),
        (Found, {"key": Key("k"), "item": Item("a")}),
        (Pair, Pair(Key("k"), 1)),
        (OrderId, Key("k")),
        (Box[Order], Box(ORDER)),
        (Box[Box[Key]], Box(Box(Key("k")))),
        (Awaitable[Order], ORDER),
        (Coroutine[Any, Any, Order], ORDER),
        (Callable[[Key], Order], [Key("k"), ORDER]),
        (type[Order], Order),
        (Orders, Orders([ORDER])),
        (Tree, {"a": {"b": Leaf(1)}}),
        (Page[Order], Page[Order](rows=[ORDER])),
        (Page[Order], Page(rows=[ORDER])),
        (RootModel[list[Key]], RootModel[list[Key]]([Key("k")])),
        (HTTPStatus, HTTPStatus.NOT_FOUND),
        (Exception | None, Refused(1, key=Key("k"))),
        ((Key, Item), [Key("k"), Item("a")]),
        ("list[Order]", [ORDER]),
        (TypeVar("Bound", bound=Order), ORDER),
        (TypeVar("Either", Key, Item), Item("a")),
        (typing_extensions.TypeAliasType("Alias", "list[Order]"), [ORDER]),
        (asyncio.Future[Order], ORDER),
    ],
    ids=str,
)
def test_an_annotation_declares_all_that_it_reaches(annotation: Any, value: Any) -> None:
    """Generics, unions, fields, bounds and texts are followed as deep as they go."""

    def look() -> Any: ...

    look.__annotations__["return"] = annotation
    assert_same(value, of(look).value(stored(value), "call c1"))
    assert_same(value, of(tool(returns=annotation)(lambda: None)).value(stored(value), "call c1"))


@dataclasses.dataclass
class Shape:
    @classmethod
    def known(cls) -> Key:
        return Key("k")

    @staticmethod
    def fixed() -> Key:
        return Key("k")

    def own(self) -> Key:
        return Key("k")


def traced(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return call


async def fetched() -> Key:
    return Key("k")


def looked() -> Key:
    return Key("k")


@pytest.mark.parametrize(
    "fn",
    [
        Shape.known,
        Shape.__dict__["known"],
        Shape.fixed,
        Shape.__dict__["fixed"],
        Shape().own,
        Shape.own,
        looked,
        fetched,
        tool(looked),
        model(fetched),
        traced(looked),
        functools.partial(looked),
        functools.partial(traced(functools.partial(traced(looked)))),
        traced(Client(Key("k"), Leaf())),
        Client(Key("k"), Leaf()),
        wrap(Client(Key("k"), Leaf()), kind="tool"),
        wrap(Key, kind="tool"),
        Key,
    ],
    ids=lambda fn: type(fn).__name__,
)
def test_any_callable_tells_what_it_returns(fn: Any) -> None:
    """Methods, partials, decorated functions, callable objects; a class returns its own instances."""
    assert of(fn).value(stored(Key("k")), "call c1") == Key("k")


@pytest.mark.parametrize(
    "fn", [None, len, print, "no callable", SimpleNamespace(), 3, [].append, dict.get, Mock()], ids=type
)
def test_what_tells_nothing_declares_nothing(fn: Any) -> None:
    """A callable without annotations is no error; what it returns is unknown."""
    types = AnswerTypes.of(Effect("tool", "look"), fn, TypeRegistry())
    assert types.value({"a": 1}, "call c1") == {"a": 1}
    with pytest.raises(UnknownType):
        types.value(stored(Key("k")), "call c1")


def test_a_decorators_annotation_counts_beside_that_of_what_it_decorates() -> None:
    """Which of the two is true is not known, so both are."""

    def inner() -> Key: ...

    @functools.wraps(inner)
    def outer() -> Any: ...

    outer.__annotations__ = {"return": Item}
    assert of(outer).value(stored([Key("k"), Item("a")]), "call c1") == [Key("k"), Item("a")]


# -- names in annotations ----------------------------------------------------------------------------------------------


def test_classes_of_a_function_are_found_where_it_can_see_them() -> None:
    """A text in an annotation may name what the function closes over."""

    @dataclasses.dataclass
    class Local:
        held: Inner

    @dataclasses.dataclass
    class Inner:
        size: int

    def look() -> Local:
        return Local(Inner(1))

    assert of(look).value(stored(look()), "call c1") == look()


def test_a_name_that_is_missing_hides_no_other() -> None:
    """An annotation half of which exists for type checkers only still declares the other half."""

    def look() -> Order | Missing | None: ...  # type: ignore[name-defined]  # noqa: F821

    assert of(look).value(stored(ORDER), "call c1") == ORDER
    with pytest.raises(UnknownType) as caught:
        of(look).value(stored(Leaf()), "call c1")
    assert caught.value.wanted == "answered:Leaf"


def test_an_annotation_that_is_no_annotation_declares_nothing() -> None:
    """Whatever stands there, asking never fails."""
    for written in ("list[", "1/0", "", "Missing.Order[int]", "Json", 3, ..., [1, "x"], {"a": 1}, len, object()):

        def look() -> Any: ...

        look.__annotations__["return"] = written
        with pytest.raises(UnknownType):
            of(look).value(stored(Key("k")), "call c1")


def test_a_text_may_stand_for_itself() -> None:
    """A recursive alias is followed once."""

    def look() -> Json: ...

    value = {"a": [Leaf(1), {"b": Leaf(2)}]}
    assert of(look).value(stored(value), "call c1") == value


def test_a_class_that_is_defined_later_is_found_then() -> None:
    """A name that did not exist when the effect was first asked is tried again when a class is missed."""
    scope: dict[str, Any] = {}
    exec("def look() -> list[Later]: ...", scope)
    types = of(scope["look"])
    tree = [{"$type": "dataclass", "class": "notebook:Later", "fields": {"size": 1}}]
    with pytest.raises(UnknownType, match=r"could not be resolved: 'list\[Later\]'"):
        types.value(tree, "call c1")
    scope["Later"] = defined_in("notebook", "Later")
    assert types.value(tree, "call c1") == [scope["Later"](1)]


def test_asking_leaves_annotations_as_they_are() -> None:
    """Nothing is remembered in the program's own annotations: they resolve afterwards as they would have."""
    scope: dict[str, Any] = {"__name__": "shop", "List": list}
    exec("def look() -> List['Soon']: ...", scope)
    with pytest.raises(UnknownType):
        of(scope["look"]).value(stored(Key("k")), "call c1")
    scope["Soon"] = Key
    assert get_type_hints(scope["look"]) == {"return": list[Key]}


def test_inherited_typed_dicts_are_followed() -> None:
    """The texts in a typed dict belong to the module that defined it."""

    class Base(TypedDict):
        key: Key

    class Derived(Base):
        item: Item

    assert answers(Derived).value(stored([Key("k"), Item("a")]), "call c1") == [Key("k"), Item("a")]


def test_members_of_an_enum_come_back_whatever_their_values_are() -> None:
    """A member is known by its name, even one whose value could not be stored."""

    class Action(enum.Enum):
        RUN = (threading.Lock(), 1)
        KEY = Key("k")

    value = [Action.RUN, {"a": Action.KEY}]
    assert answers(list[Action]).value(stored(value), "call c1") == value


def test_subclasses_of_what_is_declared_come_back() -> None:
    """An annotation admits instances of subclasses, also of such as were defined after the effect was asked."""
    types = answers(Order)
    assert types.value(stored(Special([Item("a")])), "call c1") == Special([Item("a")])

    @dataclasses.dataclass(slots=True)
    class Later(Order):
        leaf: Leaf | None = None

    back = types.value(stored(Later([], leaf=Leaf(1))), "call c1")
    assert_same(back, Later([], leaf=Leaf(1)))


def test_what_is_registered_is_read_as_it_was_written() -> None:
    """A registered name and its own `decode` hold for a declared class too."""
    types = TypeRegistry()
    types.register(Key, encode=lambda key: key.name, decode=lambda data: Key(data.upper()))
    types.register(Client, name="client")
    tree = stored([Key("k"), Client(Key("a"), Leaf(1))], types)
    key, client = answers((Key, Leaf), types=types).value(tree, "call c1")
    assert key == Key("K")
    assert (type(client), client.key, client.leaf) == (Client, Key("A"), Leaf(1))


def test_the_constructor_of_a_plain_class_tells_what_it_holds() -> None:
    """A class that keeps its state in attributes is declared with what its `__init__` takes."""
    types = TypeRegistry()
    types.register(Client)
    tree = stored(Client(Key("a"), Leaf(1)), types)
    back = answers(Client).value(tree, "call c1")
    assert (type(back), back.key, back.leaf) == (Client, Key("a"), Leaf(1))
