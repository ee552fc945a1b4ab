"""JSON Schemas, as far as a search for secrets has to know one when it sees it.

A tool's parameters are described by dicts such as `{"password": {"type": "string", "description": "…"}}`. What stands
under that key says what a password looks like and is none itself.
"""

from __future__ import annotations

from typing import Any, Final

_WORDS: Final = frozenset(
    (
        *("type", "title", "description", "format", "pattern", "default", "enum", "const", "example", "examples"),
        *("items", "properties", "required", "nullable", "additionalProperties", "anyOf", "oneOf", "allOf", "not"),
        *("minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems", "uniqueItems"),
        *("readOnly", "writeOnly", "deprecated", "$ref", "$defs"),
    )
)
_MARKS: Final = frozenset(("type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"))
SCHEMA_VALUES: Final = frozenset(("default", "enum", "const", "example", "examples"))
"""The keys under which a schema has values."""

_TYPES: Final = frozenset(("string", "integer", "number", "boolean", "object", "array", "null"))


def is_schema(value: dict[str, Any]) -> bool:
    """Say whether a dict describes a value, as the JSON Schema of a parameter does."""
    if not (value.keys() & _MARKS) or not all(key in _WORDS or key.startswith("x-") for key in value):
        return False
    types = value.get("type", "string")
    return all(type(kind) is str and kind in _TYPES for kind in (types if type(types) is list else [types]))
