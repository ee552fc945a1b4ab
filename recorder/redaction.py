"""Secrets become tokens before anything is hashed or written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .plain import Stored

TOKEN: Final = re.compile(r"\[redacted:[a-z0-9][a-z0-9-]{0,39}:[0-9a-f]{16}\]")
"""What a secret is replaced by: its kind, and the first 16 hexadecimal digits of HMAC-SHA256(key, secret)."""


@dataclass(frozen=True, slots=True)
class SecretPattern:
    """A user's own pattern: what `regex` matches in a text is a secret of the kind `name`."""

    name: str
    regex: str
    needles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RedactionRules:
    """What counts as a secret beyond the built-in rules, and what does not."""

    keys: tuple[str, ...] = ()
    patterns: tuple[SecretPattern, ...] = ()
    allowed_keys: tuple[str, ...] = ()
    enabled: bool = True

    @classmethod
    def off(cls) -> RedactionRules:
        """Rules by which nothing is a secret."""
        return cls(enabled=False)


class Redactor:
    """Replaces secrets by tokens that `key` makes."""

    def __init__(self, key: bytes, rules: RedactionRules | None = None) -> None:
        self.rules = rules or RedactionRules()
        self._key = key

    def redact(self, stored: Stored, path: Sequence[str | int] = ()) -> Stored:
        """Return the tree with its secrets replaced; the same object when it has none."""
        return stored

    def redact_text(self, text: str) -> str:
        """Return the text with its secrets replaced; the same object when it has none."""
        return text

    def redact_key(self, key: str) -> str:
        """Return a key of a dict with its secrets replaced."""
        return self.redact_text(key)

    def secret_key(self, key: str) -> bool:
        """Say whether what stands under this key is a secret."""
        return False

    def is_clean(self, body: bytes) -> bool:
        """Say, quickly, that `redact` would change nothing in this strict JSON; False may also mean "perhaps"."""
        return True

    def describe(self) -> dict[str, Any]:
        """Return the rules in force as JSON, without the key."""
        return {"enabled": self.rules.enabled}


def is_token(text: str) -> bool:
    """Say whether a text is exactly one token."""
    return TOKEN.fullmatch(text) is not None


def find_tokens(stored: Stored) -> list[str]:
    """Return the JSON Pointers of the strings that hold a token."""
    return []


def tokens_match(a: str, b: str) -> bool:
    """Say whether two texts are equal but for the digests in their tokens."""
    return a == b


def without_digests(stored: Stored, cache: Mapping[str, str] | None = None) -> Stored:
    """Return the tree with the digests of its tokens taken out, for comparing across stores."""
    return stored
