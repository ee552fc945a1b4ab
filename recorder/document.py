"""A document: a model of a contract that other programs write and read too.

Decisions and results travel as JSON between programs of different ages. So a document is read leniently and written
faithfully: attributes are snake_case, the contract's camelCase is accepted beside it and always written; a field that
this version does not know stays where it stood; a field that was not given is not written, and one given as null is.

Values are never parsed, copied or coerced: what was put in is what comes out, the same object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, PrivateAttr, model_validator

from .introspection import isinstance_of
from .values import decode, encode

if TYPE_CHECKING:
    from .values import TypeRegistry


def camel_case(name: str) -> str:
    """The contract's spelling of an attribute: `retry_reason` → `retryReason`, `while_` → `while`."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


class Document(BaseModel):
    """A frozen, open model that is written in camelCase, in the order in which it was given."""

    model_config = ConfigDict(
        frozen=True, extra="allow", alias_generator=camel_case, populate_by_name=True, protected_namespaces=()
    )

    _given: tuple[str, ...] = PrivateAttr(())

    @model_validator(mode="wrap")
    @classmethod
    def _remember_order(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        made = handler(data)
        if made is not data:
            made._given = tuple(data)
        return made

    def document(self) -> dict[str, Any]:
        """The fields that were given, by their camelCase names, holding the very values that were put in."""
        out: dict[str, Any] = {}
        aliases, fields = _names_of(type(self))
        extra = self.__pydantic_extra__ or {}
        # What a copy was updated with (`model_copy`) comes after what was given first.
        for key in (*self._given, *(name for name in aliases if name in self.model_fields_set), *extra):
            name = fields.get(key, key)
            if name in aliases:
                out[aliases[name]] = _as_document(getattr(self, name))
            elif key in extra:
                out[key] = _as_document(extra[key])
        return out

    def to_json(self) -> dict[str, Any]:
        """The document as JSON data: `json.dumps` takes it.

        Plain values are shared with this object. Others (bytes, Decimal, …) stand in their tagged form.
        """
        stored: dict[str, Any] = encode(self.document()).stored
        return stored

    @classmethod
    def from_json(cls, document: Mapping[str, Any], types: TypeRegistry | None = None) -> Self:
        """Read back what `to_json` gave; tagged values get their types again.

        Raises:
            pydantic.ValidationError: a field that the contract requires is missing.
        """
        return cls.model_validate(decode(document, types))

    def __eq__(self, other: object) -> bool:
        """Documents are equal when they say the same; the order of their fields says nothing."""
        if type(self) is not type(other) or not isinstance(other, Document):
            return NotImplemented
        return self.document() == other.document()

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        _, fields = _names_of(type(self))
        return [(fields.get(key, key), value) for key, value in self.document().items()]

    def __hash__(self) -> int:
        """Equal documents have equal hashes; unhashable values play no part."""
        return hash((type(self), frozenset(self.document())))


@cache
def _names_of(cls: type[Document]) -> tuple[dict[str, str], dict[str, str]]:
    """The camelCase name of each field, and the field of each camelCase name."""
    names = {name: info.alias or name for name, info in cls.model_fields.items()}
    return names, {alias: name for name, alias in names.items()}


def _as_document(value: Any) -> Any:
    if isinstance_of(value, Document):
        document: dict[str, Any] = value.document()
        return document
    if type(value) is list and any(isinstance_of(item, Document) for item in value):
        return [_as_document(item) for item in value]
    return value
