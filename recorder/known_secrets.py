r"""Secrets that were seen once are known wherever they turn up again.

A secret under a key, `{"token": V}`, says nothing of itself when it comes back as `{"echo": V}` or in "the token is V".
So what was replaced because of its key, or of its looks, is remembered, in memory only and never written, and from then
on replaced in every text, however it is escaped there: as JSON in JSON, with `\u` for letters, in a URL.

Remembering has a price: whatever is equal to a remembered text goes too. A text is therefore remembered only when it is
unlikely to be there for another reason (`is_telling`): not `localhost`, `changeme` or `2026-11-30`, nor anything short.

A search is one pass for an *anchor* of each secret, a piece that no way of escaping changes; only where an anchor is
found, the expression of that secret is tried. The newest secrets have an index of their own, which is quick to build.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import quote

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from .secret_patterns import TOKEN, stands_for_a_secret

MOST: Final = 1_000
"""How many secrets are remembered; the one that was learnt first is dropped for a new one."""

SHORTEST: Final = 8
LONGEST: Final = 4_096
"""Of a secret that is remembered, in characters."""

_RECENT: Final = 32
_ANCHOR: Final = 16
_LONG_ENOUGH: Final = 4

_COMMON: Final = frozenset(
    word
    for line in (
        "password passw0rd passwort changeme changeit change-me default defaults example examples localhost",
        "placeholder administrator admin anonymous authenticated authorization authorization_code authorized",
        "unauthorized unauthenticated unknown undefined access_token refresh_token id_token api_key apikey",
        "client_credentials client_secret_basic client_secret_post service_account same-origin application/json",
        "application/x-www-form-urlencoded username username-password user guest root secret secrets token tokens test",
        "tester testing testuser demo dummy sample foobar foo bar abc qwerty letmein welcome string value none null",
        "disabled enabled required optional not-set not_set not-provided not_provided notprovided environment",
        "abcdefgh abcdefghijklmnopqrstuvwxyz",
    )
    for word in line.split()
)
_NUMBERED: Final = re.compile(r"[0-9!?.#_-]{1,5}\Z")
_PUBLIC: Final = re.compile(
    r"[A-Za-z][\w+.-]*://(?!\S*[A-Za-z0-9_-]{16})[^\s@?]*"  # an address without a user, a query or a random part
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
    r"|(?:~|\.{1,2})?(?:/[a-z0-9._-]+)+/?"
    r"|(?:[a-z]+|[\w-]+(?:\.[\w-]+)+):[0-9]{1,5}"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.,+Z-]*)?"
    r"|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|-?[0-9]*\.[0-9]+(?:e[+-]?[0-9]+)?|v?[0-9]+(?:\.[0-9]+)+[\w.+-]{0,12}"
    r"|[A-Z]++(?:_[A-Z]++)+"
)
"""What says where, when or what rather than being a secret, though it may stand under a secret key."""

_DIGITS_ONLY: Final = re.compile(r"[0-9 ./-]+")
_WORD: Final = re.compile(r"[A-Z]?[a-z]+(?:[A-Z][a-z]{2,})*|[A-Z]+")
_ENGLISH: Final = re.compile(
    r"(?:tions?|ments?|ness|[ai]ble|ated|ical|ally|[ae]nce|ing|ized|ised|ity|ship|less|ous)\Z", re.IGNORECASE
)
_RANDOM: Final = re.compile(r"(?=[A-Za-z]{0,64}[0-9])(?=[0-9]{0,64}[A-Za-z])[A-Za-z0-9]{6,}|[0-9]{10,}")
_SIGN: Final = re.compile(r"[^\w\s./:,-]")
_PLAIN_RUN: Final = re.compile(rb"[A-Za-z0-9_.~-]+")
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
_SHORT_ESCAPES: Final = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}


class Sighting(NamedTuple):
    """A known secret in a text: where it starts and ends, its kind, and the secret as it was learnt."""

    start: int
    end: int
    kind: str
    secret: bytes


class KnownSecrets:
    """The secrets that one process has met. Any thread may learn and search at any time."""

    def __init__(self) -> None:
        self._kinds: dict[bytes, str] = {}
        # Each new secret brings a new generation, after it stands in the dict. What was built from the dict bears the
        # generation that was read before, so it lacks nothing of that one; no lock is needed, and a fork copies none.
        self._generation: object = None
        self._built: tuple[object, _Index, _Index] = (None, _NOTHING, _NOTHING)

    @property
    def generation(self) -> object:
        """Another object after each secret that was learnt."""
        return self._generation

    def knows(self, secret: bytes) -> bool:
        """Say whether just this secret is remembered."""
        return secret in self._kinds

    def kind_of(self, secret: bytes) -> str | None:
        """Return the kind under which just this secret was learnt, or None."""
        return self._kinds.get(secret)

    def learn(self, kind: str, secret: bytes) -> None:
        """Remember a secret; whether it may be remembered (`is_telling`) was asked before."""
        if secret in self._kinds:
            return
        self._kinds[secret] = kind
        while len(self._kinds) > MOST:
            with suppress(RuntimeError, StopIteration):  # another thread changes it just now
                self._kinds.pop(next(iter(self._kinds)), None)
        self._generation = object()

    def are_absent(self, data: bytes) -> bool:
        """Say that no known secret is in a text, or in the strict JSON of a tree."""
        if self._generation is None:
            return True
        return all(index.are_absent(data) for index in self._indexes())

    def find(self, data: bytes) -> list[Sighting]:
        """Return where known secrets stand in a text, in order and apart from each other, never within a token."""
        if self._generation is None:
            return []
        found = [sighting for index in self._indexes() for sighting in index.find(data)]
        if not found:
            return []
        found.sort(key=lambda sighting: (sighting.start, -sighting.end))
        tokens = [token.span() for token in TOKEN.finditer(data)] if b"[redacted:" in data else []
        out: list[Sighting] = []
        floor = 0
        for sighting in found:
            if sighting.start >= floor and not any(a < sighting.end and sighting.start < b for a, b in tokens):
                out.append(sighting)
                floor = sighting.end
        return out

    def _indexes(self) -> tuple[_Index, _Index]:
        built, settled, recent = self._built
        generation = self._generation
        if built is not generation:
            kinds = self._kinds.copy()
            new = [item for item in kinds.items() if item[0] not in settled.secrets]
            if len(new) > _RECENT:
                settled, new = _Index(kinds.items()), []
            recent = _Index(new)
            self._built = generation, settled, recent
        return settled, recent


class NewSecret(Exception):
    """A secret was met that would have to be remembered."""


class OnlyKnown(KnownSecrets):
    """What other secrets are known, by a memory that learns nothing itself."""

    def __init__(self, known: KnownSecrets) -> None:
        super().__init__()
        self._known = known

    @property
    def generation(self) -> object:
        """As of the memory that learns."""
        return self._known.generation

    def kind_of(self, secret: bytes) -> str | None:
        """As the memory that learns says."""
        return self._known.kind_of(secret)

    def learn(self, kind: str, secret: bytes) -> None:
        """Stop at a secret that is not known.

        Raises:
            NewSecret: it would have to be remembered.
        """
        if not self._known.knows(secret):
            raise NewSecret

    def are_absent(self, data: bytes) -> bool:
        """As the memory that learns says."""
        return self._known.are_absent(data)

    def find(self, data: bytes) -> list[Sighting]:
        """As the memory that learns finds."""
        return self._known.find(data)


class _Index:
    """Some secrets, made ready to be searched for."""

    def __init__(self, secrets: Iterable[tuple[bytes, str]]) -> None:
        self.secrets = dict(secrets)
        self._owners: dict[bytes, list[bytes]] = {}
        for secret in self.secrets:
            for anchor in _anchors(secret):
                self._owners.setdefault(anchor, []).append(secret)
        self._anchors = list(self._owners)
        self._any = _automaton(self._anchors, MatchKind.LeftmostFirst, Implementation.DFA)
        self._all: BytesAhoCorasick | None = None
        self._expressions: dict[bytes, re.Pattern[bytes]] = {}

    def are_absent(self, data: bytes) -> bool:
        return not any(expression.search(data) for _, expression in self._candidates(data))

    def find(self, data: bytes) -> list[Sighting]:
        return [
            Sighting(*match.span(), self.secrets[secret], secret)
            for secret, expression in self._candidates(data)
            for match in expression.finditer(data)
        ]

    def _candidates(self, data: bytes) -> list[tuple[bytes, re.Pattern[bytes]]]:
        """Return the secrets of which an anchor is in the text, each with its expression."""
        if self._any is None or not self._any.find_matches_as_indexes(data):
            return []
        if self._all is None:  # slower, but one anchor does not hide another
            self._all = _automaton(self._anchors, MatchKind.Standard, Implementation.ContiguousNFA)
        hits = self._all.find_matches_as_indexes(data, overlapping=True) if self._all is not None else []
        secrets = {secret: None for number, _, _ in hits for secret in self._owners[self._anchors[number]]}
        return [(secret, self._expression(secret)) for secret in secrets]

    def _expression(self, secret: bytes) -> re.Pattern[bytes]:
        try:
            return self._expressions[secret]
        except KeyError:
            expression = self._expressions[secret] = _expression_of(secret)
            return expression


def _automaton(anchors: list[bytes], kind: MatchKind, implementation: Implementation) -> BytesAhoCorasick | None:
    return BytesAhoCorasick(anchors, kind, implementation) if anchors else None


_NOTHING: Final = _Index(())


def is_telling(text: str, *, certain: bool) -> bool:
    """Say whether a secret is unlikely to stand anywhere for another reason, so that it can be remembered.

    Args:
        text: the secret.
        certain: it stood right under a secret key, or has the looks of a secret. Otherwise, as for the user and region
            that stand beside the password among "credentials", only what looks random is remembered.
    """
    if not SHORTEST <= len(text) <= LONGEST or "[redacted:" in text or _PUBLIC.fullmatch(text) is not None:
        return False
    lower = text.lower()
    if lower in _COMMON or stands_for_a_secret(text.encode("utf-8", "surrogatepass")):
        return False
    short = len(text) < 12
    if short and _NUMBERED.sub("", lower) in _COMMON:
        return False
    if _DIGITS_ONLY.fullmatch(text) is not None:
        return sum(map(str.isdigit, text)) >= 12
    with_digit = any(map(str.isdigit, text))
    if not certain:
        return _RANDOM.search(text) is not None or (
            with_digit and any(map(str.isalpha, text)) and _SIGN.search(text) is not None
        )
    if any(map(str.isspace, text)):
        return len(text) >= 16 and with_digit
    if with_digit or _SIGN.search(text) is not None:
        return True
    return (_WORD.fullmatch(text) is None) if short else (_WORD.fullmatch(text) is None or not _ENGLISH.search(text))


def looks_random(text: str) -> bool:
    """Say whether a text that may be a secret, or a word or name as well, looks like a secret."""
    return len(text) >= SHORTEST and not any(map(str.isspace, text)) and is_telling(text, certain=False)


def _anchors(secret: bytes) -> set[bytes]:
    """Return pieces of which each form of a secret holds one."""
    run = max(_PLAIN_RUN.findall(secret), key=len, default=b"")[:_ANCHOR]
    text = secret.decode("utf-8", "replace")
    if len(run) >= _LONG_ENOUGH or (run and text.isascii()):
        return {run}
    letters = _BEYOND_ASCII.search(text)
    if letters is not None:  # raw; \\u with the backslashes left out, of which there may be many; in a URL
        first = letters[0][0]
        unit = "u" + first.encode("utf-16-be")[:2].hex()
        in_url = quote(first)
        forms = [letters[0][:8], unit, "u" + unit[1:].upper(), in_url, in_url.lower()]
    else:
        forms = [text[:_ANCHOR], json.dumps(text)[1:-1][:_ANCHOR], quote(text, safe="")[:_ANCHOR]]
    return {form.encode("utf-8", "surrogatepass") for form in forms}


def _expression_of(secret: bytes) -> re.Pattern[bytes]:
    """Return what matches a secret in all its forms. None of the parts can go back and forth over a text."""
    try:
        text = secret.decode("utf-8")
    except UnicodeDecodeError:
        return re.compile(re.escape(secret))
    parts = re.findall(r"\\+|[^\\]", text)
    return re.compile(b"".join(_form_of(part, before) for part, before in zip(parts, ["", *parts], strict=False)))


def _form_of(part: str, before: str) -> bytes:
    raw = part.encode()
    if _PLAIN_RUN.fullmatch(raw) is not None:
        return re.escape(raw)
    if part[0] == "\\":  # any number of them: how often they were doubled is not known
        return rb"(?:\\++u005[cC]|\\++|(?:%5[cC])++)"
    percent = b"".join(b"%%%02x" % byte for byte in raw)
    slashes = rb"\\*+" if before.startswith("\\") else rb"\\++"  # those in front took all there were
    units = part.encode("utf-16-be")
    escaped = rb"\\++".join(b"u" + units[at : at + 2].hex().encode() for at in range(0, len(units), 2))
    forms = [rb"\\*+" + re.escape(raw), b"(?i:" + slashes + escaped + b")", b"(?i:" + percent + b")"]
    if part in _SHORT_ESCAPES:
        forms.append(slashes + _SHORT_ESCAPES[part].encode())
    if part == " ":
        forms.append(rb"\+")
    return b"(?:" + b"|".join(forms) + b")"
