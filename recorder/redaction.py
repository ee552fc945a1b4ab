"""Redaction: secrets become tokens before anything is hashed or written.

    {"headers": {"Authorization": "Bearer eyJhbGciOi…"}, "max_tokens": 512}
    {"headers": {"Authorization": "Bearer [redacted:jwt:5f0c9a1be3d24c77]"}, "max_tokens": 512}

A *token* holds the kind of the secret and the first 16 hexadecimal digits of HMAC-SHA256(key of the store, secret). So
within a store the same secret is the same token wherever it stands, and replaying matches on redacted values; without
the key, the secret cannot be guessed from it. The kind tells which rule found it, and what stands around a secret does
not change it: what looks like a secret by itself has the kind of its looks, also behind `Bearer` or under a name, and
what was met before the kind that it had then. So a replay, in which code puts a token where a secret was, finds the
text that was recorded.

What is a secret is known by names (`secret_names`), by looks (`secret_patterns`), by where it stands in a text
(`secret_text`) or tree (`secret_trees`), and by having been one before (`known_secrets`). Redacting twice changes
nothing: a token is never a secret, from whatever store it comes. Nothing here reads or writes anything.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import copy
from typing import Any, Final
from urllib.parse import unquote

from . import json_spans, secret_names, secret_patterns
from .errors import UsageError
from .known_secrets import KnownSecrets, OnlyKnown, is_telling
from .plain import Stored
from .redaction_rules import RedactionRules, SecretPattern
from .secret_changes import ChangedWalk
from .secret_names import MEMORY, SecretNames
from .secret_text import SecretText
from .secret_trees import TreeRules, Walk

__all__ = [
    "TOKEN",
    "VERSION",
    "RedactionRules",
    "Redactor",
    "SecretPattern",
    "find_tokens",
    "is_token",
    "tokens_match",
    "without_digests",
]

VERSION: Final = 1
"""Of the built-in rules; it is in `describe()`, and so in each run."""

TOKEN: Final = re.compile(secret_patterns.TOKEN.pattern.decode())
"""Matches a token; its one group is the kind."""

_WINDOW: Final = 2048
_NESTED_TEXTS: Final = 8
_ROUNDS: Final = 4
_LONGEST_KEY_KEPT: Final = 100
_LOOKS: Final = frozenset(secret_patterns.KINDS)
_BEHIND_BEARER: Final = re.compile(r"(\bbearer[ \t]+\[redacted:)[a-z0-9-]+(?=:\*\])", re.IGNORECASE)
_IN_URL: Final = re.compile(r"(://[^\s/?#\"'<>\\@:]{0,256}:\[redacted:)[a-z0-9-]+(?=:\*\]@)")
_READ_WITH_OTHERS: Final = frozenset(("value", "path", "from"))
_MIXED: Final = frozenset(("authorization", "cookie", "connection-string", "credentials", "session"))
"""Under names of these kinds there may also be the name of a method, such as "same-origin"."""


class Redactor:
    """Replaces secrets by tokens, and remembers them: what was a secret once is one wherever it stands afterwards.

    The memory ends with the redactor; see `known_secrets` for what is remembered. Any thread may use it.

    Args:
        key: of the store, never written anywhere else; 32 random bytes keep secrets from being guessed.
        rules: what is a secret.

    Raises:
        UsageError: the key is empty.
    """

    def __init__(self, key: bytes, rules: RedactionRules | None = None) -> None:
        if not key:
            raise UsageError("the key of the redaction tokens is empty; anyone could compute them")
        self.rules = rules or RedactionRules()
        self._key = key
        self._names = SecretNames(self.rules.keys, self.rules.allowed_keys)
        own = self.rules.patterns
        self._searches_all = not all(pattern.needles for pattern in own)
        needles = tuple(needle for pattern in own for needle in pattern.needles)
        self._texts = SecretText(self._names, self._token_in_text, needles)
        self._known = KnownSecrets()
        self._own = [(pattern.name, re.compile(pattern.regex)) for pattern in own]
        self._kinds: dict[str, str | None] = {}
        self._trees = [self._rules_of_trees(depth) for depth in range(_NESTED_TEXTS)]

    def redact(self, stored: Stored, path: Sequence[str | int] = ()) -> Stored:
        """Return a tree in stored form with its secrets replaced.

        Args:
            stored: the tree; it is not changed.
            path: the keys it stands under, for a part of a larger tree: under ("headers", "cookie") all is secret.

        Returns:
            The same object when nothing is a secret; unchanged parts of it are shared.
        """
        if not self.rules.enabled:
            return stored
        kinds = [kind for key in path if type(key) is str and (kind := self._key_kind(key)) is not None]
        secret = kinds[-1] if kinds else None
        for _ in range(_ROUNDS):  # what the end of the tree tells of may stand at its start too
            known = self._known.generation
            stored = Walk(self._trees[0], [stored], secret).built()
            if self._known.generation is known:
                break
        return stored

    @property
    def generation(self) -> object:
        """Another object after each secret that was learnt; while it is the same, what is redacted to what stays."""
        return self._known.generation

    @property
    def only_known(self) -> Redactor:
        """This redactor as long as it learns nothing: where there is a secret to be learnt, it raises `NewSecret`."""
        other = copy(self)
        other._known = OnlyKnown(self._known)
        other._texts = self._texts.with_token(other._token_in_text)
        other._trees = [other._rules_of_trees(depth) for depth in range(_NESTED_TEXTS)]
        return other

    def redact_changed(self, stored: Stored, old: Stored, redacted: Stored) -> Stored:
        """Return what `redact` returns, from what it returned for an earlier version since which nothing was learnt.

        Args:
            stored: the tree; it shares with the earlier version what did not change, and neither is changed in place.
            old: the earlier version.
            redacted: what that was redacted to, in one pass.

        Raises:
            TypeError: the tree is nested more deeply than JSON is written in one piece.
        """
        rules = self._trees[0] if self.rules.enabled else _NO_SECRETS
        return ChangedWalk(rules, stored, old, redacted).built()

    def redact_text(self, text: str) -> str:
        """Return a text with its secrets replaced, and nothing else; the same object when it has none."""
        return self._text(text, 0) if self.rules.enabled else text

    def redact_key(self, key: str) -> str:
        """Return a key of a dict with its secrets replaced; a key is a text as any other."""
        return self.redact_text(key)

    def is_redacted_form(self, redacted: str, text: str) -> bool:
        """Say whether this store redacted a text so: what stands in the place of each token has the token's digest.

        It tells also for a secret that was known by its name only, and is in a place without that name.
        """
        position, end = 0, 0
        tokens = list(TOKEN.finditer(redacted))
        for token, following in zip(tokens, [*tokens[1:], None], strict=False):
            before = redacted[end : token.start()]
            if not text.startswith(before, position):
                return False
            position += len(before)
            end = token.end()
            behind = redacted[end : following.start() if following is not None else None]
            stop = text.find(behind, position + 1) if behind and following is not None else len(text) - len(behind)
            if stop <= position or self._token(token[1], _encoded(text[position:stop])) != _encoded(token[0]):
                return False
            position = stop
        return bool(tokens) and text[position:] == redacted[end:]

    def learn(self, kind: str, secret: str) -> None:
        """Know a secret from now on, as if it had stood under a secret name; what is too common to be known is not."""
        self._learn(kind, _encoded(secret), certain=True)

    def secret_key(self, key: str) -> bool:
        """Say whether what stands under a key is secret: `DB_PASSWORD` and `openaiApiKey` are, `max_tokens` is not."""
        return self.rules.enabled and self._key_kind(key) is not None

    def is_neutral_key(self, key: str) -> bool:
        """Say whether what stands under a key of a dict is redacted as it would be by itself, whatever stands beside.

        Under "password" all is secret, under "value" what a "name" beside it says is, and a "path" may be a pointer.
        """
        if not self.rules.enabled:
            return True
        if key in _READ_WITH_OTHERS or self._key_kind(key) is not None or self._names.doubtful_kind(key) is not None:
            return False
        return self.redact_text(key) == key

    def is_clean(self, body: bytes) -> bool:
        """Say that `redact` would change nothing in a tree, from its strict JSON as `values.dumps` writes it.

        Fast: a pass of a few microseconds over 20 KB. Never True when there is a secret; False also for texts that need
        a closer look.
        """
        if not self.rules.enabled:
            return True
        if self._searches_all or not self._texts.is_clean(body) or not self._known.are_absent(body):
            return False
        if b"~" not in body:  # one byte is found twenty times as quickly as two
            return True
        path = body.replace(b"~1", b"/").replace(b"~0", b"~")  # that of a JSON Patch is redacted as what it stands for
        return self._texts.is_clean(path) and self._known.are_absent(path)

    @property
    def key_check(self) -> str:
        """Tells the key from other keys, and nothing of it."""
        return hmac.digest(self._key, b"agentreplay redaction key", "sha256")[:8].hex()

    def describe(self) -> dict[str, Any]:
        """Return the rules in force as JSON: names and the user's own additions, never the key, but what tells it."""
        if not self.rules.enabled:
            return {"enabled": False}
        return {
            "enabled": True,
            "version": VERSION,
            "key_check": self.key_check,
            "names": list(secret_names.FAMILIES),
            "looks": list(secret_patterns.KINDS),
            "own_names": list(self.rules.keys),
            "own_looks": [[pattern.name, pattern.regex, list(pattern.needles)] for pattern in self.rules.patterns],
            "allowed_names": list(self.rules.allowed_keys),
        }

    # -- what the rules are made of ------------------------------------------------------------------------------------

    def _token(self, kind: str, secret: bytes) -> bytes:
        digest = hmac.digest(self._key, secret, "sha256")[:8].hex()
        return f"[redacted:{kind[:40]}:{digest}]".encode("ascii")

    def _token_in_text(self, kind: str, secret: bytes) -> bytes:
        self._learn(kind, secret, certain=kind in _LOOKS)
        return self._token(self._kind_for(kind, secret), secret)

    def _kind_for(self, kind: str, secret: bytes) -> str:
        """The kind of a secret that was found as one of a kind; what stands around it says least."""
        looks = self._texts.kind_of(secret)
        if looks is None and self._own:
            text = secret.decode("utf-8", "surrogatepass") if len(secret) <= _WINDOW else ""
            looks = next((name for name, own in self._own if _is_all(own, text)), None)
        return looks or self._known.kind_of(secret) or kind

    def _learn(self, kind: str, secret: bytes, *, certain: bool) -> None:
        """Remember a secret, and those inside it: a password in base64 or percent signs, the parts of a cookie."""
        text = secret.decode("utf-8", "replace")
        if "\ufffd" in text:
            return
        if is_telling(text, certain=certain):
            self._known.learn(self._kind_for(kind, secret), secret)
        if kind in ("basic-credentials", "authorization"):
            with suppress(binascii.Error):
                password = base64.b64decode(secret, validate=True).partition(b":")[2]
                self._learn("password", password, certain=True)
        elif kind == "url-password" and "%" in text:
            self._learn("password", _encoded(unquote(text)), certain=True)
        elif kind == "cookie" and "=" in text:
            for part in text.split(";"):
                self._learn("cookie-value", _encoded(part.partition("=")[2].strip()), certain=False)

    def _rules_of_trees(self, depth: int) -> TreeRules:
        def text(value: str) -> str:
            return self._text(value, depth)

        return TreeRules(text, self._key_kind, self._leaf, self.is_clean, self._names.doubtful_kind, depth == 0)

    def _key_kind(self, key: str) -> str | None:
        try:
            return self._kinds[key]
        except KeyError:
            # A token in a key stands for letters that no longer say anything.
            kind = self._names.kind_of_key(TOKEN.sub("[]", key) if "[redacted:" in key else key)
            if len(key) <= _LONGEST_KEY_KEPT:
                if len(self._kinds) >= MEMORY:
                    self._kinds.clear()
                self._kinds[key] = kind
            return kind

    def _leaf(self, kind: str, value: str | bytes, certain: bool) -> str:
        data = value if type(value) is bytes else _encoded(str(value))
        found = self._texts.leaf(kind, data)
        if found is None:
            return value if type(value) is str else _decoded(data)
        head, kind, secret = found
        self._learn(kind, secret, certain=kind in _LOOKS or (certain and (bool(head) or kind not in _MIXED)))
        return _decoded(head + self._token(self._kind_for(kind, secret), secret))

    # -- texts ---------------------------------------------------------------------------------------------------------

    def _text(self, text: str, depth: int) -> str:
        """Replace until nothing is left to replace: what was replaced may let the rest read differently."""
        for _ in range(_ROUNDS):
            new = self._text_once(text, depth)
            if new == text:
                return text
            text = new
        return text

    def _text_once(self, text: str, depth: int) -> str:
        data = _encoded(text)
        if depth < _NESTED_TEXTS and json_spans.looks_like_json(text) and self._may_hold_secrets(data):
            parsed = json_spans.parse(text)
            if parsed is not None:
                return self._json_text(text, parsed, depth)
        new = self._texts.replace(data)
        if new is not data:
            text = _decoded(new)
        for name, expression in self._own:
            text = self._replace_own(text, name, expression)
        return self._replace_known(text)

    def _may_hold_secrets(self, data: bytes) -> bool:
        escapes = b"\\u00" in data or b"\\/" in data
        return self._searches_all or escapes or bool(self._texts.hits(data)) or not self._known.are_absent(data)

    def _json_text(self, text: str, parsed: json_spans.JsonText, depth: int) -> str:
        """Replace the secrets in a text that is JSON by what each value means, and leave the rest as it is written."""
        walk = Walk(self._trees[min(depth + 1, _NESTED_TEXTS - 1)], parsed.holder)
        changes = []
        for container, place, new, is_key in walk.changes():
            start, end = (parsed.keys if is_key else parsed.values)[container, place]
            changes.append((start, end, json_spans.quoted(new, text[start:end])))
        pieces, copied = [], 0
        for start, end, new in sorted(changes):
            pieces += [text[copied:start], new]
            copied = end
        return "".join((*pieces, text[copied:]))

    def _replace_own(self, text: str, name: str, expression: re.Pattern[str]) -> str:
        """Replace what a user's own expression matches, between the tokens."""
        pieces, copied = [], 0
        for token in [*(match.span() for match in TOKEN.finditer(text)), (len(text), len(text))]:
            between = text[copied : token[0]]
            done = 0
            for start, end in _matches(expression, between):
                secret = _encoded(between[start:end])
                self._learn(name, secret, certain=True)
                pieces += [between[done:start], _decoded(self._token(self._kind_for(name, secret), secret))]
                done = end
            pieces += [between[done:], text[token[0] : token[1]]]
            copied = token[1]
        return "".join(pieces)

    def _replace_known(self, text: str) -> str:
        """Replace the secrets that are known from elsewhere, between the tokens."""
        data = _encoded(text)
        found = self._known.find(data)
        if not found:
            return text
        pieces, copied = [], 0
        for start, end, kind, secret in found:
            pieces += [data[copied:start], self._token(kind, secret)]
            copied = end
        return _decoded(b"".join((*pieces, data[copied:])))


_NO_SECRETS: Final = TreeRules(
    text=lambda text: text,
    key_kind=lambda key: None,
    leaf=lambda kind, value, certain: str(value),
    is_clean=lambda body: True,
)


def is_token(text: str) -> bool:
    """Say whether a text is a token and nothing else."""
    return TOKEN.fullmatch(text) is not None


def find_tokens(stored: Stored) -> list[str]:
    """Return the JSON Pointers of the texts that hold a token, and of the values whose keys do, in order.

    Tags are looked into: the pointer of a text within one goes through the fields of the tag.
    """
    found = []
    todo: list[tuple[str, str | int | None, Any]] = [("", None, stored)]
    while todo:
        pointer, key, value = todo.pop()
        kind = type(value)
        if (type(key) is str and TOKEN.search(key) is not None) or (kind is str and TOKEN.search(value) is not None):
            found.append(pointer)
        inner: list[tuple[str | int, Any]] = []
        if kind is dict:
            inner = list(value.items())
        elif kind is list:
            inner = list(enumerate(value))
        todo.extend((f"{pointer}/{_escaped(place)}", place, item) for place, item in reversed(inner))
    return found


def tokens_match(a: str, b: str, *, same_store: bool = False) -> bool:
    """Say whether two redacted texts can be the same text.

    A token does not tell which store's key made it, so the caller says whether both texts come from one store. Within
    one, the digests must be equal, while the kinds may differ: the same secret may have been found by its name here and
    by its looks there. Across stores digests say nothing, so tokens match when their kinds are equal. The text around
    the tokens must be equal in both cases.
    """
    if same_store:
        return TOKEN.sub(_without_kind, a) == TOKEN.sub(_without_kind, b)
    return _without_digests(a) == _without_digests(b)


def without_digests(stored: Stored) -> Stored:
    """Return a tree whose tokens hold their kind only, `[redacted:jwt:*]`: what comparing across stores can rely on.

    Behind `Bearer` and as the password of a URL that is always the kind of the place: recordings may have that one.

    The same object when it has no tokens; unchanged parts are shared.
    """

    def text(value: str) -> str:
        return _without_digests(value)

    rules = TreeRules(
        text=text,
        key_kind=lambda key: None,
        leaf=lambda kind, value, certain: str(value),
        is_clean=lambda body: b"[redacted:" not in body,
    )
    return Walk(rules, [stored]).built()


def _without_digests(text: str) -> str:
    return _IN_URL.sub(r"\1url-password", _BEHIND_BEARER.sub(r"\1bearer-token", TOKEN.sub(_without_digest, text)))


def _without_digest(match: re.Match[str]) -> str:
    return f"[redacted:{match[1]}:*]"


def _without_kind(match: re.Match[str]) -> str:
    return f"[redacted:*{match[0][-18:]}"


def _matches(expression: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Give the spans that a user's expression finds, a window of the text at a time, so that no search sees more."""
    group = "secret" if "secret" in expression.groupindex else 0
    begin = position = 0
    while position < len(text):
        match = expression.search(text, position, begin + _WINDOW)
        if match is None or match.start() >= begin + _WINDOW // 2:
            begin += _WINDOW // 2
            position = max(position, begin)
            continue
        start, end = match.span(group)
        if start < end:
            yield start, end
        position = max(match.end(), position + 1)


def _is_all(expression: re.Pattern[str], text: str) -> bool:
    """Say whether a user's expression finds a whole text to be a secret."""
    group = "secret" if "secret" in expression.groupindex else 0
    match = expression.search(text)
    return match is not None and text != "" and match.span(group) == (0, len(text))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _escaped(place: str | int) -> str:
    return str(place).replace("~", "~0").replace("/", "~1")
