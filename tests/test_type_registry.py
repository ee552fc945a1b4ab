"""A registry decides which classes may come out of a log, and under which names."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.values import TypeRegistry, decode, default_types, encode, register_type


@dataclasses.dataclass
class Order:
    sku: str


class Other:
    def __init__(self, a: int) -> None:
        self.a = a


def defined_in(module: str, name: str = "Order") -> Any:
    return dataclasses.dataclass(type(name, (), {"__module__": module, "__annotations__": {"sku": str}}))


def test_a_registered_class_comes_back_as_itself() -> None:
    """Registration is what it takes; it returns the class, so it serves as a decorator too."""
    types = TypeRegistry()
    assert types.register(Order) is Order
    assert decode(encode(Order("a"), types).stored, types) == Order("a")


def test_register_type_fills_the_registry_of_the_process() -> None:
    """Without a registry of its own, reading uses the types of `register_type`."""
    cls = register_type(defined_in("shop", "Registered"))
    assert default_types.of(cls) is not None
    assert decode(encode(cls("a")).stored) == cls("a")


def test_a_registry_adds_to_its_parent() -> None:
    """The types of one agent are known beside those of the process, and only there."""
    parent = TypeRegistry()
    parent.register(Order)
    child = TypeRegistry(parent)
    child.register(Other)
    assert child.of(Order) is not None
    assert child.find("test_type_registry:Order") is parent.of(Order)
    assert parent.of(Other) is None
    back = decode(encode([Order("a"), Other(3)], child).stored, child)
    assert (back[0], back[1].a) == (Order("a"), 3)


def test_instances_of_any_registered_class_keep_their_attributes() -> None:
    """A class of a user's own, neither dataclass nor model, is stored by its attributes once it is registered."""
    types = TypeRegistry()
    assert encode(Other(3), types).lossy == ("",)
    types.register(Other)
    stored, lossy = encode(Other(3), types)
    assert stored == {"$type": "object", "class": "test_type_registry:Other", "state": {"a": 3}}
    assert lossy == ()
    assert decode(stored, types).a == 3


def test_a_name_of_its_own_survives_moving_the_class() -> None:
    """Logs that were written under either name are read under both."""
    types = TypeRegistry()
    types.register(Order, name="order")
    stored = encode(Order("a"), types).stored
    assert stored["class"] == "order"
    assert decode(stored, types) == Order("a")
    assert decode({**stored, "class": "test_type_registry:Order"}, types) == Order("a")


def test_an_encode_of_its_own_is_what_is_stored() -> None:
    """`encode` may return any value that can be recorded; `decode` gets the same back."""
    types = TypeRegistry()
    types.register(Other, name="other", encode=lambda value: (value.a, {1: b"x"}), decode=lambda data: Other(data[0]))
    stored, lossy = encode({"o": Other(3)}, types)
    assert lossy == ()
    assert stored["o"]["value"]["items"][0] == 3
    assert decode(stored, types)["o"].a == 3


def test_a_class_of_a_script_is_found_when_it_was_imported() -> None:
    """`__main__:Order` of a script and `shop:Order` of its import are the same class, unless two could be meant."""
    types = TypeRegistry()
    imported = types.register(defined_in("shop"))
    stored = {"$type": "dataclass", "class": "__main__:Order", "fields": {"sku": "a"}}
    assert decode(stored, types) == imported("a")
    types.register(defined_in("warehouse"))
    assert types.find("__main__:Order") is None
    script = TypeRegistry()
    main = script.register(defined_in("__main__"))
    assert decode({**stored, "class": "shop:Order"}, script) == main("a")
    assert script.find("shop:Invoice") is None
    assert types.find("bakery:Order") is None


def test_a_class_that_is_defined_again_takes_its_name_over() -> None:
    """A reloaded module or a notebook cell that runs twice registers a new class under the old name."""
    types = TypeRegistry()
    old, new = types.register(defined_in("shop")), types.register(defined_in("shop"))
    assert type(decode(encode(old("a"), types).stored, types)) is new
    types.register(old, name="order")
    types.register(new, name="order")
    assert type(decode(encode(old("a"), types).stored, types)) is new


def test_subclasses_are_not_registered_along() -> None:
    """Registering a class admits that class, not others that derive from it."""
    types = TypeRegistry()
    types.register(Order)

    @dataclasses.dataclass
    class Special(Order):
        pass

    assert types.of(Special) is None


def test_metaclasses_with_opinions_can_be_registered() -> None:
    """Neither equality nor hash of a class is asked."""

    class Meta(enum.EnumMeta):
        __hash__ = None  # that is the point

    class Odd(enum.Enum, metaclass=Meta):
        A = 1

    types = TypeRegistry()
    types.register(Odd)
    assert decode(encode([Odd.A], types).stored, types) == [Odd.A]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cls": Order("a")}, "takes a class"),
        ({"cls": Order, "encode": str}, "both encode and decode"),
        ({"cls": Order, "decode": str}, "both encode and decode"),
        ({"cls": Order, "name": "taken"}, "is taken by"),
    ],
    ids=["value", "no decode", "no encode", "name"],
)
def test_what_cannot_be_meant_is_refused(arguments: dict[str, Any], message: str) -> None:
    """A value instead of a class, half a pair, a name of another class: the error says what to do."""
    types = TypeRegistry()
    types.register(Other, name="taken")
    with pytest.raises(UsageError, match=message):
        types.register(arguments.pop("cls"), **arguments)
