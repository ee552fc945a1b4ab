"""Answers: HTML that was rendered, and JSON that says exactly what was recorded.

JSON is written by the server from the stored form. Numbers that a browser would round are texts in it, in their tags.
"""

from __future__ import annotations

import json
from typing import Any

import orjson
from flask import Response


def html_answer(page: bytes, status: int = 200) -> Response:
    """A page, or a part of one."""
    return Response(page, status, mimetype="text/html")


def json_answer(value: Any, status: int = 200) -> Response:
    """JSON data as an answer."""
    return Response(json_bytes(value), status, mimetype="application/json")


def json_bytes(value: Any) -> bytes:
    """JSON, in UTF-8; what orjson does not write, such as large integers and lone surrogates, in ASCII."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
