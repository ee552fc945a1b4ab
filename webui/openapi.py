"""The operations of the JSON API as one table, from which come the routes, the checks of parameters and the document.

An operation is added by putting a row into a table and its function below it. What is described is what is checked:
a parameter that the table does not know is refused, as is one of another type or out of bounds, before the function is
called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flask import Flask, Response, request
from werkzeug.exceptions import NotFound

from ..recorder.errors import UsageError

ROOT: Final = "/api/v1"
LARGEST: Final = 10**9

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an operation.

    Attributes:
        name: as it stands in the address.
        what: what it means, a sentence.
        schema: its JSON Schema: of type `string` (with lengths and `pattern`, or `enum`) or `integer` (with bounds).
        where: path or query; what is in the path is required.
        default: what it is where it is left out.
        required: whether it may not be left out.
        example: a value that means something on every server with a run; None to give none.
    """

    name: str
    what: str
    schema: Schema
    where: str = "query"
    default: Any = None
    required: bool = False
    example: Any = None

    def read(self, text: str) -> Any:
        """The value that a text says.

        Raises:
            UsageError: it is none that the schema allows.
        """
        if self.schema["type"] == "integer":
            least, most = self.schema.get("minimum", -LARGEST), self.schema.get("maximum", LARGEST)
            if re.fullmatch(r"-?[0-9]{1,10}", text) is None or not least <= int(text) <= most:
                raise UsageError(f"{self.name} is an integer from {least} to {most}, not {text[:40]!r}")
            return int(text)
        if "enum" in self.schema and text not in self.schema["enum"]:
            raise UsageError(f"{self.name} is one of {', '.join(self.schema['enum'])}, not {text[:40]!r}")
        if len(text) > self.schema.get("maxLength", LARGEST) or len(text) < self.schema.get("minLength", 0):
            raise UsageError(f"{self.name} is too long, or too short")
        if "pattern" in self.schema and re.fullmatch(self.schema["pattern"], text, re.DOTALL) is None:
            raise UsageError(f"{self.name} is not {text[:40]!r}. {self.what}")
        return text

    def described(self) -> dict[str, Any]:
        """As the document has it."""
        schema = dict(self.schema) | ({} if self.default is None else {"default": self.default})
        return {
            "name": self.name,
            "in": self.where,
            "description": self.what,
            "required": self.required or self.where == "path",
            "schema": schema,
        } | ({} if self.example is None else {"example": self.example})


def text(
    name: str, what: str, *, most: int = 2_000, least: int = 0, pattern: str | None = None, **options: Any
) -> Parameter:
    """A parameter that is a text; `pattern` describes all of it, from `^` to `$`."""
    schema: dict[str, Any] = {"type": "string", "maxLength": most} | ({"minLength": least} if least else {})
    return Parameter(name, what, schema if pattern is None else schema | {"pattern": pattern}, **options)


def one_of(name: str, what: str, words: Iterable[str], **options: Any) -> Parameter:
    """A parameter that is one of some words."""
    return Parameter(name, what, {"type": "string", "enum": list(words)}, **options)


def number(name: str, what: str, least: int = 0, most: int = LARGEST, **options: Any) -> Parameter:
    """A parameter that is an integer."""
    return Parameter(name, what, {"type": "integer", "minimum": least, "maximum": most}, **options)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the API.

    Attributes:
        name: names it in the document, and its function.
        method: GET or POST.
        path: below `ROOT`, with its parameters in braces.
        what: what it does, a sentence.
        parameters: those of the path, and of the query.
        answer: JSON Schema of what it answers.
        body: JSON Schema of what is sent, for a POST.
        media: the media type of the answer.
        errors: status codes of refusals, beside those that every operation has.
        harmless: whether it changes nothing although it is a POST; see `security.harmless`.
    """

    name: str
    method: str
    path: str
    what: str
    parameters: tuple[Parameter, ...] = ()
    answer: Schema = field(default_factory=lambda: {"type": "object"})
    body: Schema | None = None
    media: str = "application/json"
    errors: tuple[int, ...] = ()
    harmless: bool = False

    def arguments(self, path: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of the request that is being answered, by their names.

        Raises:
            UsageError: one is not as the table says.
            NotFound: one in the path is not.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        found = {name: parameter.default for name, parameter in known.items() if parameter.where == "query"}
        for name, value in path.items():
            try:
                found[name] = known[name].read(str(value))
            except UsageError as error:
                raise NotFound(str(error)) from None
        for name, values in request.args.lists():
            if name not in known or known[name].where != "query":
                names = ", ".join(known[each].name for each in known if known[each].where == "query")
                raise UsageError(f"there is no parameter {name[:40]!r} here; there is {names or 'none'}")
            if len(values) > 1:
                raise UsageError(f"{name} stands there more than once")
            found[name] = known[name].read(values[0])
        for name, parameter in known.items():
            if parameter.required and found.get(name) is None:
                raise UsageError(f"{name} is missing: {parameter.what}")
        return found


@dataclass(frozen=True, slots=True)
class Table:
    """Operations and the functions that carry them out."""

    rows: dict[str, tuple[Operation, Callable[..., Response]]] = field(default_factory=dict)

    def add(self, operation: Operation) -> Callable[[Callable[..., Response]], Callable[..., Response]]:
        """Have a function carry out an operation; it is given the parameters by their names."""

        def keep(function: Callable[..., Response]) -> Callable[..., Response]:
            self.rows[operation.name] = (operation, function)
            return function

        return keep


def register(app: Flask, tables: Iterable[Table], version: str) -> None:
    """Add the operations of some tables to an application, and the document that describes them."""
    operations: list[Operation] = []
    for table in tables:
        for operation, function in table.rows.values():
            operations.append(operation)
            rule = ROOT + re.sub(r"\{(\w+)\}", r"<\1>", operation.path)
            app.add_url_rule(rule, f"api.{operation.name}", _view(operation, function), methods=[operation.method])
    described = document(operations, version)

    def openapi() -> Response:
        from .answers import json_answer

        return json_answer(described)

    app.add_url_rule(f"{ROOT}/openapi.json", "api.openapi", openapi)


def _view(operation: Operation, function: Callable[..., Response]) -> Callable[..., Response]:
    def view(**path: Any) -> Response:
        return function(**operation.arguments(path))

    view.changes_nothing = operation.harmless  # type: ignore[attr-defined]  # a mark on a function
    return view


_REFUSALS: Final[Mapping[int, str]] = {
    400: "A parameter is missing, unknown, or not as described.",
    401: "The server asks for a token, and none came along, or a wrong one.",
    403: "The change was refused: by --read-only, or because it came from another site.",
    404: "There is no such run, step, event or value.",
    409: "It goes on already, or as many do as may at once, or it cannot be done on this server.",
    413: "The request is too large.",
    415: "The body is no JSON: its media type says so.",
    421: "The server is not known by the name that was asked for.",
    422: "The log is damaged there: what was asked for cannot be worked out.",
    503: "The store cannot be read now, or as many followers as are allowed are there already.",
}


ABOUT: Final = (
    "Recorded agent runs: what each step decided, called and changed. Values are in stored form: JSON where that is "
    'exact, else tags, {"$type": …}. Where the server asks for a token, it comes in the header '
    "`Authorization: Bearer …`."
)


FROM_OUR_PAGES: Final = {
    "name": "X-CSRF-Token",
    "in": "header",
    "description": "`csrf` of the index, by which requests of other sites are told apart. Not needed beside a token.",
    "required": False,
    "schema": {"type": "string"},
}


def document(operations: Iterable[Operation], version: str) -> dict[str, Any]:
    """The OpenAPI document of some operations."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(ROOT + operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "agentreplay",
            "version": version,
            "description": ABOUT,
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR, **SCHEMAS},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _described(operation: Operation) -> dict[str, Any]:
    refusals = {400, 401, 404, 421, 422, 503, *operation.errors} | ({403, 413} if operation.method != "GET" else set())
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    parameters = [parameter.described() for parameter in operation.parameters]
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.what,
        "parameters": parameters if operation.method == "GET" else [*parameters, FROM_OUR_PAGES],
        "responses": {
            "200": {"description": "What was asked for.", "content": {operation.media: {"schema": operation.answer}}},
            **{str(code): {"description": _REFUSALS[code], "content": error} for code in sorted(refusals)},
        },
    }
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": operation.body}}}
    return described


def ref(name: str) -> Schema:
    """A schema by its name in the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def list_of(schema: Schema) -> Schema:
    """A list of what a schema describes."""
    return {"type": "array", "items": schema}


def record(required: Mapping[str, Any], **optional: Any) -> Schema:
    """An object with these fields, and no others."""
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


POINTER: Final = "^(/([^~/]|~[01])*)*$"
"""What a JSON Pointer looks like."""

TEXT: Final[Schema] = {"type": "string"}
TEXT_OR_NULL: Final[Schema] = {"type": ["string", "null"]}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
SECONDS: Final[Schema] = {"type": ["number", "null"]}
ANY: Final[Schema] = {"description": "A value in stored form."}

UNCOUNTED: Final[Schema] = {
    "type": ["integer", "null"],
    "minimum": 0,
    "description": "null as long as it is not known: of a long run it is counted beside the requests, of a damaged one "
    "never.",
}

DAMAGE: Final[Schema] = {"type": "string", "description": "Which event is damaged and how; what can be read is told."}

NEWS: Final = record({"event": {"enum": ["new", "end"]}, "data": TEXT})
"""Each of the server-sent events of a stream, as a record of its fields; its data is JSON."""

ERROR: Final = record({"error": record({"kind": TEXT, "message": TEXT})})

SCHEMAS: Final[dict[str, Schema]] = {
    "Run": record(
        {
            "run": TEXT,
            "uid": TEXT,
            "agent": TEXT,
            "status": TEXT,
            "steps": COUNT,
            "started": TEXT_OR_NULL,
            "duration": SECONDS,
            "origin": TEXT,
            "parent": TEXT_OR_NULL,
            "silent_since": TEXT_OR_NULL,
            "partial": {"type": "boolean"},
            "head": {"type": "integer"},
            "error": TEXT_OR_NULL,
            "tokens": {"type": ["integer", "null"]},
            "cost": {"type": ["number", "null"]},
            "tags": list_of(TEXT),
        }
    ),
    "Hit": record(
        {"run": TEXT, "uid": TEXT, "seq": COUNT, "step": COUNT, "kind": TEXT}
        | {"before": TEXT, "found": TEXT, "after": TEXT}
    ),
    "Call": record(
        {
            "call": TEXT,
            "kind": {"enum": ["model", "tool"]},
            "name": TEXT,
            "status": {"enum": ["open", "returned", "failed", "cancelled"]},
            "duration": SECONDS,
            "within": TEXT_OR_NULL,
            "seq": COUNT,
            "end_seq": {"type": ["integer", "null"]},
            "chunks": {"type": ["integer", "null"], "description": "Of a call that was streamed, how many came."},
            "error": TEXT_OR_NULL,
        }
    ),
    "Step": record(
        {
            "step": COUNT,
            "decision": TEXT_OR_NULL,
            "outcome": TEXT_OR_NULL,
            "duration": SECONDS,
            "reasoning": TEXT_OR_NULL,
            "calls": list_of(ref("Call")),
            "changes": UNCOUNTED,
            "warnings": list_of(TEXT),
            "children": list_of(record({"run": TEXT, "agent": TEXT, "status": TEXT})),
        },
        problem=DAMAGE,
    ),
    "Cause": record({"seq": COUNT, "step": COUNT, "kind": TEXT, "call": TEXT_OR_NULL}, run=TEXT),
    "Change": record(
        {
            "path": TEXT,
            "display": TEXT,
            "kind": {"enum": ["add", "remove", "replace", "move"]},
            "cause": {"anyOf": [ref("Cause"), {"type": "null"}]},
        },
        old=ANY,
        new=ANY,
        note=TEXT_OR_NULL,
        **{"from": TEXT},
    ),
    "Event": record(
        {
            "seq": COUNT,
            "round": COUNT,
            "kind": TEXT,
            "version": {"type": "integer"},
            "time": TEXT,
            "within": TEXT_OR_NULL,
            "task": TEXT,
            "data": ANY,
            "hash": TEXT,
        },
        problem=DAMAGE,
    ),
}
"""The schemas that operations refer to. Whoever adds operations adds theirs."""
