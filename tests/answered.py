"""Classes that answers are of, declared in every way that code has, and short ways to ask for answers."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Required,
    TypedDict,
    TypeVar,
)

from agentreplay.recorder.calls import Effect
from agentreplay.recorder.effects import effect_of
from agentreplay.recorder.error_info import error_info
from agentreplay.recorder.events import ErrorInfo
from agentreplay.recorder.values import TypeRegistry, encode_bytes, loads
from agentreplay.replay.answers import AnswerTypes
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Key:
    name: str


@dataclasses.dataclass
class Leaf:
    size: int = 0


@dataclasses.dataclass
class Item:
    sku: str
    color: Color | None = None
    made: ClassVar[list[str]] = []

    def __post_init__(self) -> None:
        self.made.append(self.sku)


@dataclasses.dataclass
class Order:
    items: list[Item]
    by_key: dict[Key, Item] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Box(Generic[T]):
    held: T


class Special(Order):
    pass


class Usage(BaseModel):
    tokens: int


class Text(BaseModel):
    kind: Literal["text"] = "text"
    text: str


class Call(BaseModel):
    kind: Literal["call"] = "call"
    arguments: dict[str, Any]
    at: Decimal


class Response(BaseModel):
    model_config = ConfigDict(extra="allow")

    content: list[Annotated[Text | Call, Field(discriminator="kind")]]
    usage: Usage | None = None
    even: int = 2
    _leaf: Leaf = PrivateAttr(default_factory=Leaf)

    @field_validator("even")
    @classmethod
    def _must_be_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("odd")
        return value


class Page(BaseModel, Generic[T]):
    rows: list[T]


@dataclasses.dataclass
class Batch:
    responses: list[Response]


class Pair(NamedTuple):
    key: Key
    value: Any


class Found(TypedDict, total=False):
    key: Required[Key]
    item: Item


class Orders(list[Order]):
    pass


class Client:
    """Neither a dataclass nor a model: stored once it is registered."""

    def __init__(self, key: Key, leaf: Leaf) -> None:
        self.key = key
        self.leaf = leaf

    def ask(self) -> Order:
        return Order([])

    def __call__(self) -> Key:
        return self.key


class Refused(Exception):
    def __init__(self, code: int, *, key: Key) -> None:
        super().__init__(f"refused with {code}")
        self.code = code
        self.key = key


class Forbidden(Refused):
    pass


def defined_in(module: str, name: str) -> Any:
    return dataclasses.dataclass(type(name, (), {"__module__": module, "__annotations__": {"size": int}}))


def answers(
    returns: Any = None, *, raises: Any = (), types: TypeRegistry | None = None, kind: Any = "tool"
) -> AnswerTypes:
    return AnswerTypes.of(Effect(kind, "look", returns=returns, raises=raises), None, types or TypeRegistry())


def of(fn: Callable[..., Any]) -> AnswerTypes:
    return AnswerTypes.of(effect_of(fn) or Effect("tool", "look"), fn, TypeRegistry())


def stored(value: Any, types: TypeRegistry | None = None) -> Any:
    """A value as it stands in a log that was written and read."""
    return loads(encode_bytes(value, types)[0])


def recorded(error: BaseException, types: TypeRegistry | None = None) -> ErrorInfo:
    """An exception as it stands in a log that was written and read."""
    info = error_info(error)
    return ErrorInfo(type=info.type, message=info.message, traceback=info.traceback, value=stored(error, types))
