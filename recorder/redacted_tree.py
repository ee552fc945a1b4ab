"""The redacted form of a tree, version after version, at the cost of what changed.

The definition is a search of the whole: `Redactor.redact`. What it gives for a part depends on the part, its context,
and the secrets that are known. So the version before is kept, beside what it was redacted to, and of the next only what
changed is searched (`secret_changes`), as long as no secret is learnt. A secret that is learnt may stand anywhere: then
the whole is searched, and so is the next version once more, since what a search that learns gives is not always what
the same search gives when it knows. A search of changes that meets a new secret stops before it is learnt, so that the
search of the whole meets it as it would have.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

from .known_secrets import NewSecret
from .plain import Stored, dumps
from .redaction import Redactor

_UNKNOWN: Final = object()


class _Version(NamedTuple):
    """A tree, what it was redacted to, and the redactor's `generation` before it was: another if it learnt anything."""

    stored: Stored
    redacted: Stored
    generation: object


class RedactedTree:
    """Redacts one version of a tree after the other. Versions share what does not change, as the same objects.

    Args:
        redactor: what each version is redacted by. It may learn, and serve others, at any time.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._changes = redactor.only_known
        self._before: _Version | None = None

    def __call__(self, stored: Stored) -> Stored:
        """The next version redacted; itself when it has no secrets. Unchanged parts are the same objects as before.

        Args:
            stored: a tree in stored form; it must never be changed in place.

        Raises:
            TypeError: it is nested more deeply than JSON is written in one piece.
        """
        redacted: Stored = _UNKNOWN
        before, generation = self._before, self._redactor.generation
        if before is not None and before.generation is generation:
            with suppress(NewSecret):
                redacted = self._changes.redact_changed(stored, before.stored, before.redacted)
        if redacted is _UNKNOWN or self._redactor.generation is not generation:
            generation = self._redactor.generation
            redacted = stored if self._redactor.is_clean(dumps(stored)) else self._redactor.redact(stored)
        self._before = _Version(stored, redacted, generation)
        return redacted
