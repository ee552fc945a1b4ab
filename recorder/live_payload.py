"""The payload of a run while it is recorded: what the agent sees, and what the record says of it.

There are two trees. The *live* tree holds the agent's own values. The *shadow* is what a reader of the log will fold:
the same requests, encoded and redacted, applied to the encoded and redacted start. While everything is plain and
nothing is secret they are one tree, and a change costs its path. Where they are two, the outcomes are compared, and a
difference (a merge into a dict with keys that are no strings, a `test` on a secret) becomes an explicit correction
in the event. So "the state equals what the agent saw" holds by construction, modulo redaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .copying import copy_value
from .frozen import freeze
from .hashes import SubtreeCache, comparison_hash, same
from .payload import ChangeResult, apply_change, difference
from .redaction import Redactor
from .values import encode_bytes, is_plain, loads


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """One change of the payload, ready to be recorded.

    Attributes:
        request: as sent, in stored form.
        applied_request: as applied after correction, or None when that is `request`.
        outcome: what the applier said of the live payload.
        correction: JSON Patch from what a reader folds to what the agent has, or None when they agree.
    """

    request: Any
    applied_request: Any
    outcome: ChangeResult
    hash_before: str
    hash_after: str
    correction: list[dict[str, Any]] | None = field(default=None)


class LivePayload:
    """The payload of one run.

    Args:
        start: the starting payload; copied, so that later mutation of it changes nothing.
        redactor: the store's.
    """

    def __init__(self, start: Any, redactor: Redactor) -> None:
        self._redactor = redactor
        self._hashes = SubtreeCache()
        self._views = SubtreeCache()
        self._live, self._shadow = self._take(start)
        self._hash = comparison_hash(self._shadow, self._hashes)

    @property
    def hash(self) -> str:
        """The comparison hash of what a reader folds."""
        return self._hash

    @property
    def stored(self) -> Any:
        """What a reader folds: stored form, redacted. Shared; not to be mutated."""
        return self._shadow

    @property
    def live(self) -> Any:
        """The agent's own values in plain containers. Shared; not to be mutated."""
        return self._live

    @property
    def plain(self) -> bool:
        """Whether the agent's values are what is stored: plain JSON without a secret."""
        return self._live is self._shadow

    def view(self) -> Any:
        """The live payload, frozen: containers whose mutators raise. Unchanged parts are the same objects as before."""
        return freeze(self._live, self._views)

    def change(self, request: Any, applier: str, options: Mapping[str, Any]) -> RecordedChange:
        """Apply a request to both trees.

        Raises:
            ChangeRefused: the applier cannot apply it; nothing changed.
        """
        before = self._hash
        live_request, stored_request = self._take(request)
        outcome = apply_change(self._live, live_request, applier, **options)
        applied = outcome.applied_request
        correction: list[dict[str, Any]] | None = None
        if self.plain and live_request is stored_request:
            shadow = outcome.result
            stored_applied = applied
        else:
            folded = apply_change(self._shadow, stored_request, applier, **{**options, "analyze": False})
            shadow, stored_applied = folded.result, folded.applied_request
            wanted = self._stored_form(outcome.result)
            if not same(shadow, wanted):
                correction = difference(shadow, wanted)
                shadow = wanted
        self._live, self._shadow = outcome.result, shadow
        self._hash = comparison_hash(shadow, self._hashes)
        return RecordedChange(
            request=stored_request,
            applied_request=None if applied is live_request else stored_applied,
            outcome=outcome,
            hash_before=before,
            hash_after=self._hash,
            correction=correction,
        )

    def changed_in_place(self) -> RecordedChange | None:
        """Find what the agent changed without asking: objects in the payload that it mutated.

        Containers are frozen, so only values that are no plain JSON can be; a payload without them costs nothing here.
        """
        if self.plain:
            return None
        wanted = self._stored_form(self._live)
        if same(self._shadow, wanted):
            return None
        before, patch = self._hash, difference(self._shadow, wanted)
        outcome = apply_change(self._shadow, patch, "json-patch")
        self._shadow = wanted
        self._hash = comparison_hash(wanted, self._hashes)
        return RecordedChange(patch, None, outcome, before, self._hash)

    def _take(self, value: Any) -> tuple[Any, Any]:
        """A copy of a value as the agent has it, and as it is stored; one object where those are the same."""
        raw, stored, _ = encode_bytes(value)
        plain = is_plain(value) and self._redactor.is_clean(raw)
        frozen = loads(raw)
        if plain:
            return frozen, frozen
        redacted = self._redactor.redact(frozen)
        if redacted is frozen and is_plain(value):
            return frozen, frozen
        return copy_value(value), redacted

    def _stored_form(self, live: Any) -> Any:
        raw, _, _ = encode_bytes(live)
        return self._redactor.redact(loads(raw))
