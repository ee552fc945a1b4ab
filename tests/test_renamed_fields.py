"""Fields that were renamed since they were recorded: what logs call them is said where the class is registered."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import agentreplay as ar
import pytest
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.values import TypeRegistry, decode
from agentreplay.recorder.values import encode as encoded
from pydantic import BaseModel


@dataclass
class Data:
    amount: float
    lines: list[int] = field(default_factory=list)


class Model(BaseModel):
    amount: float
    currency: str = "EUR"


class Row(NamedTuple):
    amount: float
    sku: str


class Plain:
    def __init__(self, amount: float) -> None:
        self.amount = amount

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and self.amount == other.amount


class Slotted:
    __slots__ = ("amount",)

    def __init__(self, amount: Any) -> None:
        self.amount = amount

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and self.amount == other.amount


INSTANCES = [Data(1.5, [1, 2]), Model(amount=1.5), Row(1.5, "LAMP-2"), Plain(1.5), Slotted((1, {2}))]


def encode(value: Any, types: TypeRegistry) -> Any:
    return encoded(value, types).stored


def renaming(cls: type) -> TypeRegistry:
    types = TypeRegistry()
    types.register(cls, name="shop:Thing", fields={"amount": "total"})
    return types


@pytest.mark.parametrize("instance", INSTANCES, ids=lambda instance: type(instance).__name__)
def test_a_renamed_field_keeps_its_name_in_logs(instance: Any) -> None:
    """It is written under the name that it had, wherever its value stands, and read back under today's."""
    types = renaming(type(instance))
    stored = encode([instance, {"again": instance}], types)
    assert "total" in str(stored)
    assert "amount" not in str(stored)
    assert decode(stored, types) == [instance, {"again": instance}]
    assert type(decode(stored, types)[0]) is type(instance)


def test_what_was_written_before_is_read_and_written_alike() -> None:
    """A log has one name for a field, so what code gives today equals what was recorded."""

    @dataclass
    class Thing:
        total: float
        lines: list[int] = field(default_factory=list)

    before = TypeRegistry()
    before.register(Thing, name="shop:Thing")
    stored = encode(Thing(1.5, [1, 2]), before)
    today = renaming(Data)
    assert decode(stored, today) == Data(1.5, [1, 2])
    assert encode(Data(1.5, [1, 2]), today) == stored


def test_the_fields_that_a_model_was_given_are_known_by_their_names() -> None:
    """A default that nobody set stays one."""
    types = renaming(Model)
    read = decode(encode(Model(amount=2.0), types), types)
    assert (read.model_fields_set, read.model_dump(exclude_unset=True)) == ({"amount"}, {"amount": 2.0})


@pytest.mark.parametrize("instance", INSTANCES[:2], ids=lambda instance: type(instance).__name__)
def test_a_class_whose_field_was_renamed_is_not_built_without_it(instance: Any) -> None:
    """An instance that lacks a field would fail somewhere in the agent; the warning says what to declare."""
    stored = encode(instance, renaming(type(instance)))
    unaware = TypeRegistry()
    unaware.register(type(instance), name="shop:Thing")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        plain = decode(stored, unaware)
    assert plain["total"] == 1.5
    assert "fields={'amount': 'total'}" in str(told[0].message)


def test_a_field_that_was_added_or_dropped_is_no_renamed_one() -> None:
    """A new field has its default, and one that is gone stays with the instance, as before."""

    @dataclass
    class Thing:
        total: float
        gone: int = 3

    before = TypeRegistry()
    before.register(Thing, name="shop:Thing")

    @dataclass
    class Today:
        total: float
        added: str = "new"

    today = TypeRegistry()
    today.register(Today, name="shop:Thing")
    read = decode(encode(Thing(1.5), before), today)
    assert (read.total, read.added, read.gone) == (1.5, "new", 3)


@pytest.mark.parametrize(
    "options",
    [
        {"fields": {"a": "x"}, "encode": lambda value: 1, "decode": lambda value: Data(1.0)},
        {"fields": {"a": "x", "b": "x"}},
    ],
)
def test_names_that_cannot_be_meant_are_refused(options: dict[str, Any]) -> None:
    """A class with its own encode= has no fields in logs, and two fields cannot share a name there."""
    with pytest.raises(UsageError):
        TypeRegistry().register(Data, **options)
    with pytest.raises(UsageError):
        ar.register_type(Data, **options)
