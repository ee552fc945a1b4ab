"""What a script finds a call by: what it asks, in the form in which a recording holds it.

The arguments of the code's call are brought into that form first: stored, redacted, and with tags in the place of
conversations, which recordings keep apart.
"""

from __future__ import annotations

from typing import Any

from ..recorder.kept_apart import with_tags
from ..recorder.redaction import Redactor
from ..recorder.values import dumps
from .exactly import stored_as_field
from .script import key_of


def key_of_arguments(redactor: Redactor, kind: str, arguments: Any) -> bytes:
    """What a script finds a call by that asks this."""
    return key_of_stored(kind, redacted_by(redactor, stored_as_field(arguments)))


def key_of_stored(kind: str, arguments: Any) -> bytes:
    """`key_of_arguments`, of arguments in stored form, redacted."""
    return key_of(with_tags(arguments) if kind == "model" and type(arguments) is dict else arguments)


def redacted_by(redactor: Redactor, stored: Any) -> Any:
    """A tree as the store would hold it."""
    return stored if redactor.is_clean(dumps(stored)) else redactor.redact(stored)
