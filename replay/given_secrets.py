"""Secrets that a person gives for the tokens that stand in a log: they are sent, and never recorded.

A token stands where a secret was recognised: by the name under which it stood, by its looks, or because it was known
by then. The process that is given the secret now has seen none of that. So it is told that it is one, and of which
kind, before any code has it; then the new log has the same token wherever the secret turns up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..recorder.errors import UsageError
from ..recorder.redaction import TOKEN, Redactor, find_tokens
from .edits import Edits
from .places import place_of


def keep_secret(redactor: Redactor, payload: Any, edits: Edits) -> None:
    """Make sure that the secrets which are given are not recorded.

    Args:
        redactor: of the store.
        payload: that is edited, in stored form.
        edits: what is given; the secrets are put in place after all others.

    Raises:
        UsageError: there is no token at a place, or what is given for it could not be told from other texts.
    """
    if not edits.secrets:
        return
    before = replace(edits, secrets={}).apply(payload, stored=True)
    edits.apply(payload, stored=True)  # which says what is wrong with a place that is not there
    for path, secret in edits.secrets.items():
        held = _at(before, path)
        tokens = list(TOKEN.finditer(held)) if type(held) is str else []
        if not tokens:
            known = ", ".join(find_tokens(before)[:5]) or "nowhere"
            raise UsageError(
                f"there is no token at {path or '(payload)'}, so a secret given for it would be recorded as any other "
                f"value; tokens stand here: {known}"
            )
        if type(secret) is str:
            redactor.learn(tokens[0][1], _without_the_rest(held, tokens, secret))
    if not redactor.rules.enabled:
        return
    after = redactor.redact(edits.apply(payload, stored=True))
    for path in edits.secrets:
        held = _at(after, path)
        if type(held) is not str or TOKEN.search(held) is None:
            raise UsageError(
                f"what is given for the token at {path} is so short or common a text that it could not be kept out of "
                "the log; a secret is told by the name it stands under, or by its length"
            )


def _at(payload: Any, path: str) -> Any:
    place = place_of(path, payload)
    return None if place is None else place.nodes[-1]


def _without_the_rest(held: str, tokens: list[Any], secret: str) -> str:
    """The secret, where a token stands in a longer text: what is given has that around it, too."""
    head, tail = held[: tokens[0].start()], held[tokens[-1].end() :]
    fits = len(tokens) == 1 and secret.startswith(head) and secret.endswith(tail) and len(secret) > len(head + tail)
    return secret[len(head) : len(secret) - len(tail)] if fits else secret
