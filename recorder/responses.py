"""What a model's answer tells besides its content: usage, stop reason, the model's name.

Answers come as dicts or as objects of some SDK. They are only looked at: no property or method of theirs is run.
"""

from __future__ import annotations

from typing import Any

from .introspection import clean, instance_dict, isinstance_of


def usage_of(response: Any) -> dict[str, Any] | None:
    """The token usage that a response carries, in the provider's own words."""
    found = _part(response, "usage", "usageMetadata", "usage_metadata")
    if found is None:  # of a stream of Bedrock's Converse, and of those who stream in its form
        found = _part(_part(response, "metadata"), "usage")
    usage = _fields_of(found)
    if usage is None:
        return None
    return {
        clean(key): value
        for key, value in usage.items()
        if type(key) is str
        and not key.startswith("_")
        and (type(value) is int or type(value) is float or type(value) is dict)
    } or None


def stop_reason_of(response: Any) -> str | None:
    """Why the model stopped, in the provider's own word."""
    found = _part(response, "stop_reason", "stopReason", "finish_reason")
    if found is None:
        choices = _part(response, "choices")
        found = _part(choices[0], "finish_reason") if type(choices) is list and choices else None
    if found is None:
        found = _part(_part(response, "messageStop"), "stopReason")
    return clean(found) if type(found) is str else None


def model_of(request: dict[str, Any]) -> str | None:
    """The model that a request names."""
    found = request.get("model")
    return found if type(found) is str else None


def _part(value: Any, *names: str) -> Any:
    """The first of the named fields that a mapping or object has; None if it has none."""
    fields = _fields_of(value)
    return None if fields is None else next((found for name in names if (found := fields.get(name)) is not None), None)


def _fields_of(value: Any) -> dict[Any, Any] | None:
    if type(value) is dict:
        return value
    return dict(dict.items(value)) if isinstance_of(value, dict) else instance_dict(value)
