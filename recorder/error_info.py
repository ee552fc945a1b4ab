"""What was raised, and any other value, in words: as an event holds it, whatever code of the user's it takes."""

from __future__ import annotations

import traceback
from typing import Final

from .events import ErrorInfo
from .introspection import class_name, clean, describe

FRAMES_OF_A_TRACEBACK: Final = 100
"""Of a longer traceback the last ones are kept: an endless recursion through calls has as many long ones."""


def error_info(error: BaseException) -> ErrorInfo:
    """An exception as an event holds it. A traceback that cannot be formatted is left out."""
    try:
        text = clean("".join(traceback.format_exception(error, limit=-FRAMES_OF_A_TRACEBACK)))
    except KeyboardInterrupt:
        raise
    except BaseException:  # the traceback module runs code of the exception's
        text = None
    name = class_name(type(error)).replace(":", ".", 1)
    return ErrorInfo(type=name, message=text_of(error), traceback=text, value=error)


def text_of(value: object) -> str:
    """What `str` makes of a value, whatever it is."""
    try:
        return clean(str(value))
    except KeyboardInterrupt:
        raise
    except BaseException:  # SystemExit too
        return describe(value)
