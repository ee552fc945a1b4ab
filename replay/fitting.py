"""An answer that a person gives, as an object of the type that the call gave when it was recorded.

A person writes JSON, on the command line or in the browser, and the code expects an order, a date or a tuple. What the
call gave then says which: its classes are known as those of any recorded answer are (`answers`), and pydantic makes an
object of them out of JSON, or says what is wrong with it. What is plain in the recording stays what was given, and so
does an object that is none of JSON's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ..recorder.calls import Effect
from ..recorder.errors import LossyAnswer, UnknownType, UsageError
from ..recorder.introspection import class_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from .script import RecordedCall

_PLAIN: Final = (str, int, float, bool)
_JSON: Final = (dict, list, *_PLAIN)


def fitted(value: Any, recorded: RecordedCall | None, effect: Effect, fn: Callable[..., Any] | None) -> Any:
    """A value that was given for a call, of the type of what the recorded one gave.

    Args:
        value: plain JSON data; anything else stays as it is.
        recorded: the call that it was given for, if there is one.
        effect, fn: of the code's call, which declare the classes.

    Returns:
        The value itself where the recorded answer is plain, is not known, or is of a class that is not declared.

    Raises:
        UsageError: it does not fit the type; the message says where.
    """
    from .answers import AnswerTypes

    ended = None if recorded is None or recorded.ended is None else recorded.ended.data
    stream = getattr(ended, "stream", None)
    stored = stream if stream is not None else getattr(ended, "result", getattr(ended, "response", None))
    if recorded is None or stored is None or type(value) not in _JSON:
        return value
    try:
        example = AnswerTypes.of(effect, fn).value(stored, recorded.call)
    except (UnknownType, LossyAnswer):
        return value
    if stream is not None and type(value) is not list:  # which is its one item
        example = example[0] if example else None
    return _like(value, example, f"what is given for call {recorded.call} ({recorded.name})", "")


def _like(value: Any, example: Any, what: str, at: str) -> Any:
    kind = type(example)
    if type(value) not in _JSON or type(value) is kind in _PLAIN or example is None or kind in _PLAIN:
        return value
    if kind is dict:
        if type(value) is not dict:
            return value
        return {
            key: _like(item, example[key], what, f"{at}/{key}") if key in example else item
            for key, item in value.items()
        }
    if kind is list:
        if type(value) is not list or not example:
            return value
        likes = [*example, *[example[-1]] * (len(value) - len(example))]
        return [_like(item, like, what, f"{at}/{i}") for i, (item, like) in enumerate(zip(value, likes, strict=False))]
    return _made(value, kind, what, at)


def _made(value: Any, kind: type, what: str, at: str) -> Any:
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
    except (PydanticSchemaGenerationError, PydanticUserError):  # it makes no such objects; the value is the code's
        return value
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        told = [f"{'/'.join(map(str, ('', *one['loc'])))} {one['msg']}".strip() for one in error.errors()[:3]]
        place = f", at {at}," if at else ""
        raise UsageError(
            f"{what}{place} is no {class_name(kind).replace(':', '.')}, which that call gave when it was recorded: "
            f"{'; '.join(told)}"
        ) from None
