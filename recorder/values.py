"""Values: how anything that an agent handles is written to a log, and comes back exactly.

A log is JSON that any program reads, and JSON alone would quietly change what it holds: a tuple into a list, `1` and
`"1"` as keys into one key, NaN into an error, a date into a text. So values have a *stored form*. Where plain JSON
gives a value back exactly, it is stored so. Everything else is stored as a *tag*, an object whose first key is "$type":

    {"$type": "tuple", "items": [1, 2]}              {"$type": "decimal", "value": "1.50"}
    {"$type": "dict", "items": [[1, "a"], ["1", "b"]]}      keys that are no strings, or the key "$type" in user data
    {"$type": "dataclass", "class": "shop:Order", "fields": {…}}
    {"$type": "opaque", "class": "socket:socket", "repr": "…"}    what cannot be stored: described, and listed as lossy

The rest of this project treats a tag as one value, which it compares and hands on whole.

`encode` never raises and runs nothing of the value's own, so that recording cannot change an agent. `decode` never
imports: a class comes back if the reader registered it (`register_type`), else as plain data with a warning.
"""

from __future__ import annotations

from .decoding import decode
from .encoding import Encoded, encode, encode_bytes
from .frozen import Freezer, FrozenDict, FrozenList, freeze
from .plain import MAX_DEPTH, MAX_INT, Stored, dumps, has_tags, is_plain, is_tag, loads
from .type_registry import RegisteredType, TypeRegistry, default_types, register_type
from .verbatim import InStoredForm, Opaque, already_stored, lossy_in

__all__ = [
    "MAX_DEPTH",
    "MAX_INT",
    "Encoded",
    "Freezer",
    "FrozenDict",
    "FrozenList",
    "InStoredForm",
    "Opaque",
    "RegisteredType",
    "Stored",
    "TypeRegistry",
    "already_stored",
    "decode",
    "default_types",
    "dumps",
    "encode",
    "encode_bytes",
    "freeze",
    "has_tags",
    "is_plain",
    "is_tag",
    "loads",
    "lossy_in",
    "register_type",
]
