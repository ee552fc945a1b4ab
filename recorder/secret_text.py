r"""Find the secrets in a text: by their looks, and by the name they are assigned to.

    Authorization: Bearer …      DB_PASSWORD=…      ?api_key=…&page=2      {"token": "…"}      {\"token\": \"…\"}

A text is read once, from needle to needle (`needles`). Around one that belongs to a name (`secret_names`) the value is
looked for: behind `=` or `:`, in quotes however often they are escaped, in a header to the end of the line. Prose and
program code are full of such names too ("the token: it is used for", `token = lexer.next()`), so a value without
quotes must look like one: no plain word, no call, not the name itself.

Only the secret is replaced. What was replaced, or was a token before, is never looked at again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import copy
from itertools import chain
from typing import Final, TypeAlias

from . import secret_names, secret_patterns
from .needles import Needles
from .secret_commands import PROGRAM, looks_like_a_password
from .secret_names import BASIC_INDEX, BEARER_INDEX, REST, WINDOW, SecretNames, words_of
from .secret_patterns import TOKEN, Looks, stands_for_a_secret

Edit: TypeAlias = tuple[int, int, bytes]
"""Where a secret starts and ends, and what replaces it."""

_TAGGED_BYTES: Final = '"$type":"bytes'
_ESCAPED_LETTER: Final = "\\\\u00"
_OPTIONS: Final = ('"-u', '"--user', '"--proxy-user', '"-p', '"-a')
_DOUBTFUL_ENDINGS: Final = ("pass", "Pass", "PASS", "pin", "Pin", "PIN", "otp", "Otp", "OTP", "arola", "AROLA")
_DOUBTFUL_KEYS: Final = (
    *(f'{word}":{value}' for word in ("okens", "OKENS") for value in ("{", "[", '"')),
    *(f'{word}":' for word in _DOUBTFUL_ENDINGS),
    *(f"{word}\\" for word in ("okens", "OKENS", *_DOUBTFUL_ENDINGS)),
)
_ESCAPED_NAMES: Final = tuple(sorted(secret_names.escaped_endings()))
_ONLY_IN_BODIES: Final = (_TAGGED_BYTES, _ESCAPED_LETTER, *_OPTIONS, *_DOUBTFUL_KEYS, *_ESCAPED_NAMES)
"""Needles that do nothing in a text: they tell that a body, or JSON in a text, needs a closer look."""

_HARMLESS: Final = len(secret_names.HARMLESS)
_PATTERNS_FROM: Final = len(secret_names.NEEDLES)
_BODIES_FROM: Final = _PATTERNS_FROM + len(secret_patterns.NEEDLES)
_OWN_NAMES_FROM: Final = _BODIES_FROM + len(_ONLY_IN_BODIES)
_A_TOKEN: Final = -1

_FOLLOWED: Final = re.compile(
    rb"([A-Za-z0-9_.\-]{0,64}+(?: [kK]ey(?![A-Za-z0-9_]))?)"
    rb"(?:[ *?)\]]*+[\"'`\\=:/>]|[ ]++(?:is|was|ist|lautet|est|es)[ :]++[^\s0-9!@#$%^&*+=?~]{0,2048}[0-9!@#$%^&*+=?~])"
)
"""What must stand behind a name if anything is to happen because of it."""

_DOUBTFUL_VALUE: Final = re.compile(rb"\\*[\"']|(?<=\")|[0-9]{4,8}(?![0-9.])")
_ONLY_COUNTS: Final = re.compile(
    rb"(?<=\[)(?:(?:[\w.-]++|\"[^\"\\]{0,7}\"),?)*+\]"
    rb"|(?<=\{)(?:\"[\w ]++\":(?:[\w.-]++|\"[^\"\\]{0,7}\"),?)*+\}"
)
"""The rest of a list or dict of numbers and of texts that are too short to be secrets."""

_BEHIND_ESCAPED: Final = re.compile(rb"[ \t*_0-9]*+[\\\"'/:=]")
_PRINTABLE: Final = re.compile(rb"[2-7][0-9a-fA-F]")
_SEPARATOR: Final = re.compile(
    rb"(?P<closing>\\*[\"'`])?\]?(?P<before>[ \t]*+)(?P<sep>:=|=>|=(?!=)|:(?![:=]))(?P<after>[ \t]*+)"
)
_ANNOTATION: Final = re.compile(
    rb"[A-Za-z_][\w.]{0,40}+(?:\[[\w., |\[\]]{0,40}\])?(?: \| None)?[ \t]*=[ \t]*(?=[bru]?[\"'])"
)
_OPENING: Final = re.compile(rb"(?:[bBrRuUfF]{1,2}(?=\\*[\"'`]))?(?P<quote>\\*+[\"'`])")
_RECORD: Final = re.compile(rb"\\*[\"'][ \t]*,[ \t]*\\*[\"'][vV]alue\\*[\"'][ \t]*:[ \t]*")
_SAID: Final = re.compile(
    rb"[ ]++(?:is|was|ist|lautet|est|es)(?: ?:)?[ ]++(?:\\*[\"'`])?(?P<value>[^\s\"'`\\<>()\[\]{},;]{6,256})"
)
"""`my password is …`; see `_in_a_sentence`."""

_HYPHENATED: Final = re.compile(rb"[A-Za-z]+[0-9]*(?:[-/.][A-Za-z]+)+")
_NEXT_ITEM: Final = re.compile(rb"\\*[\"'][ \t]*,[ \t]*")
_PAIR_BEFORE: Final = re.compile(rb"\([bru]?\\*[\"']\Z")
_PAIR_AFTER: Final = re.compile(rb"\\*[\"'][ \t]*\)")
_QUOTES: Final = {ord(quote): re.compile(rb"(?<!\\)(\\*+)" + quote + rb"|\n") for quote in (b'"', b"'", b"`")}

_NO_OPENING: Final = re.compile(rb"[),;\]}\s]|[+%]\s|\.[a-z]+\(")
"""What stands behind a quote that ends a text rather than beginning a value: `input("Password: ")`, `"?token=" + x`."""

_WORD: Final = re.compile(rb"(?:[^\s\"'`&,;<>()\[\]{}|\\]|\\(?![nrtbfu\"'\\/])){0,4096}+")
_SHELL_WORD: Final = re.compile(rb"(?:[^\s\"'`;\\]|\\(?![nrtbfu\"'\\/])){0,4096}+")
_COOKIE: Final = re.compile(rb"[\w.$!%&'*+^`|~-]+=[^\s=]")
_LINE: Final = re.compile(rb"[^\r\n\"'`\\]{0,16384}+")
_ELEMENT: Final = re.compile(rb"([^<>\s]{1,4096})</")
_ANY_LETTER: Final = re.compile(rb"[A-Za-z0-9\x80-\xff]")
_UNLIKE_A_TOKEN: Final = re.compile(rb"[\s(){}\[\]<>|^]")
_NUMBER: Final = re.compile(rb"-?[0-9][0-9.eE+-]{0,64}+(?!\w)")
_NAME_LIKE: Final = re.compile(rb"[A-Za-z_][A-Za-z_.]*")
_CALL: Final = re.compile(rb"[A-Za-z_][\w.]*[(\[]")
_VARIABLE: Final = re.compile(rb"[A-Z]++(?:_[A-Z]++)+\Z")
_OPENINGS: Final = (b"(", b"[", b"{")
_SHORT_NUMBER: Final = re.compile(rb"[0-9.]{1,3}")
_LINK: Final = re.compile(rb"[a-z]{2,10}://")
_LINE_END: Final = re.compile(rb"[ \t]*+(?:\Z|[\r\n\"'`]|\\[nr\"']|[;,]?[ \t]*(?:\Z|[\r\n]))|[ \t]++[#;]")
_VALUE_END: Final = re.compile(rb"[ \t]*+(?:\Z|[\r\n\"'`,;)}\]|<]|\\[nrt\"'])|[ \t]++#")
_SCHEME: Final = re.compile(
    rb"(bearer|basic|token|apikey|api-key|key|digest|hawk|negotiate|ntlm|aws4-hmac-sha256)[ \t]+", re.IGNORECASE
)
_WHOLE_LINE_SCHEMES: Final = frozenset((b"digest", b"hawk", b"aws4-hmac-sha256"))
_SCHEMES_OF: Final = {"authorization": _SCHEME, "token": re.compile(rb"(bearer|basic)[ \t]+", re.IGNORECASE)}


class SecretText:
    """Finds and replaces the secrets in texts.

    Args:
        names: tells which names are secret.
        token: makes the token that replaces a secret, from its kind and the secret.
        own_needles: texts that make a body unclean, because a user's own rule may apply.
    """

    def __init__(
        self, names: SecretNames, token: Callable[[str, bytes], bytes], own_needles: tuple[str, ...] = ()
    ) -> None:
        self.names = names
        self.token = token
        own_names = names.own_needles
        self._always_from = _OWN_NAMES_FROM + len(own_names)
        others = (*secret_patterns.NEEDLES, *_ONLY_IN_BODIES, *own_names, *names.whole_keys, *own_needles)
        groups = (secret_names.NEEDLES, others)
        self._needles = Needles(groups, apart=secret_patterns.URL_NEEDLES)
        checks = [self._check_of(*numbered) for numbered in enumerate(chain(*groups))]
        *self._searches, self._url_search = (
            (search, [checks[number] for number in numbers]) for search, numbers in self._needles.automata
        )

    def with_token(self, token: Callable[[str, bytes], bytes]) -> SecretText:
        """Return the same rules with something else that makes tokens."""
        other = copy(self)
        other.token = token
        return other

    def is_clean(self, body: bytes) -> bool:
        """Say that nothing in this strict JSON is a secret; False may also mean "perhaps"."""
        for search, checks in (*self._searches, self._url_search) if b"@" in body else self._searches:
            for own, start, _ in search(body):
                check = checks[own]
                if check is not None and check(body, start):
                    return False
        return True

    def hits(self, data: bytes) -> list[tuple[int, int, int]]:
        """Return the needles in a text, the harmless ones left out."""
        return [hit for hit in self._needles.find(data) if hit[0] >= _HARMLESS]

    def replace(self, data: bytes) -> bytes:
        """Return the text with its secrets replaced; the same object when it has none."""
        hits = self.hits(data)
        return _Reading(self, data).replace(hits) if hits else data

    def leaf(self, kind: str, value: bytes, escaped: int = 0) -> tuple[bytes, str, bytes] | None:
        """Read a text that is a secret because of its name: (scheme in front, kind, secret), or None if it stays.

        Args:
            kind: of the name; the kind of a pattern that matches the whole text comes first.
            value: the text. Empty texts and tokens stay.
            escaped: how often it was escaped as a JSON string is, so that a secret has one token in every form.
        """
        if not value or TOKEN.fullmatch(value) is not None:
            return None
        scheme = _SCHEMES_OF[kind].match(value) if kind in _SCHEMES_OF else None
        head = scheme[0] if scheme is not None and scheme.end() < len(value) else b""
        secret = value[len(head) :]
        if head and TOKEN.fullmatch(secret) is not None:
            return None
        if escaped and b"\\" in secret:
            secret = _unescape(secret, escaped)
        return head, self.kind_of(secret) or kind, secret

    def kind_of(self, value: bytes) -> str | None:
        """Return the kind of secret that a whole text is by its looks, or None."""
        looks = Looks(value)
        for number, start, _ in self._needles.find(value)[:8]:
            if _PATTERNS_FROM <= number < _BODIES_FROM:
                found = looks.at(number - _PATTERNS_FROM, start)
                if found is not None and found.start == 0 and found.end == len(value):
                    return found.kind
        return None

    def is_name(self, number: int) -> bool:
        """Say whether a needle belongs to names."""
        return (number < _PATTERNS_FROM and number != BASIC_INDEX) or _OWN_NAMES_FROM <= number < self._always_from

    def _check_of(self, number: int, needle: str) -> Callable[[bytes, int], object] | None:
        """Return what tells, at a needle in a body, whether it may matter; None for a needle that never does."""
        if number < _HARMLESS:
            return None
        if _PATTERNS_FROM <= number < _BODIES_FROM:
            return secret_patterns.check_of(number - _PATTERNS_FROM)
        length = len(needle.encode())
        if needle == _ESCAPED_LETTER:
            return lambda body, start: _PRINTABLE.match(body, start + length)
        if needle in _OPTIONS:
            return lambda body, start: PROGRAM.search(body, max(0, start - 512), start)
        if needle in _ESCAPED_NAMES:
            return lambda body, start: _BEHIND_ESCAPED.match(body, start + length)
        if needle in _DOUBTFUL_KEYS and needle[-1] in "[{":
            return lambda body, start: _ONLY_COUNTS.match(body, start + length) is None
        if needle in _DOUBTFUL_KEYS:
            return lambda body, start: _DOUBTFUL_VALUE.match(body, start + length)
        if number == BASIC_INDEX:
            return lambda body, start: Looks(body).basic(start)
        if number == BEARER_INDEX:
            matters = self._check_of_name(length)
            return lambda body, start: Looks(body).bearer(start) or matters(body, start)
        return self._check_of_name(length) if self.is_name(number) else lambda body, start: True

    def _check_of_name(self, length: int) -> Callable[[bytes, int], object]:
        followed_by = _FOLLOWED.match
        kind_at = self.names.kind_at

        def check(body: bytes, start: int) -> object:
            followed = followed_by(body, start + length)
            if followed is not None:
                return kind_at(body, start, followed.end(1))[0]
            if body.rfind(b"--", start - WINDOW if start > WINDOW else 0, start) < 0:
                return None
            rest = REST.match(body, start + length)
            kind, left = kind_at(body, start, rest.end() if rest is not None else start + length)
            return kind if body.startswith(b"--", left) else None

        return check


class _Reading:
    """One text being read from left to right; `floor` is where the last replaced secret or token ends."""

    def __init__(self, rules: SecretText, data: bytes) -> None:
        self._rules = rules
        self._data = data
        self._looks = Looks(data)
        self._floor = 0

    def replace(self, hits: list[tuple[int, int, int]]) -> bytes:
        data = self._data
        if b"[redacted:" in data:
            tokens = [(_A_TOKEN, *match.span()) for match in TOKEN.finditer(data)]
            hits = sorted([*hits, *tokens], key=lambda hit: hit[1])
        pieces: list[bytes] = []
        copied = named = 0
        for number, start, end in hits:
            if start < self._floor:
                continue
            if number == _A_TOKEN:
                self._floor = end
                continue
            edit = self._by_looks(number, start)
            if edit is None and end > named and self._rules.is_name(number):
                rest = REST.match(data, end)
                named = rest.end() if rest is not None else end
                kind, left = self._rules.names.kind_at(data, start, named, self._floor)
                edit = self._assigned(left, named, kind) if kind is not None else None
            if edit is not None:
                pieces += [data[copied : edit[0]], edit[2]]
                copied = self._floor = edit[1]
        return b"".join((*pieces, data[copied:])) if pieces else data

    def _by_looks(self, number: int, start: int) -> Edit | None:
        if _PATTERNS_FROM <= number < _BODIES_FROM:
            found = self._looks.at(number - _PATTERNS_FROM, start, self._floor)
        elif number == BEARER_INDEX:
            found = self._looks.bearer(start, self._floor)
        elif number == BASIC_INDEX:
            found = self._looks.basic(start, self._floor)
        else:
            return None
        if found is None:
            return None
        return found.start, found.end, self._rules.token(found.kind, self._data[found.start : found.end])

    # -- what is assigned to a name ------------------------------------------------------------------------------------

    def _assigned(self, left: int, right: int, kind: str) -> Edit | None:
        """Find the value behind a secret name, which stands at left:right."""
        data = self._data
        if left and data[left - 1] == 0x3C and data.startswith(b">", right):  # <password>…</password>
            element = _ELEMENT.match(data, right + 1)
            return self._edit(*element.span(1), kind) if element is not None else None
        separator = _SEPARATOR.match(data, right)
        if separator is None:
            return self._said(right, kind) or self._listed(left, right, kind)
        start = separator.end()
        if separator["sep"] == b":" and (annotation := _ANNOTATION.match(data, start)) is not None:
            start = annotation.end()
        opening = _OPENING.match(data, start)
        if opening is not None:
            return self._quoted(opening, kind, in_code=separator["closing"] is None)
        if separator["closing"] is not None and separator["sep"] == b":":
            number = _NUMBER.match(data, start)
            if number is None:
                return None
            quote = separator["closing"]
            return start, number.end(), quote + self._rules.token(kind, number[0]) + quote
        if kind == "cookie" and separator["sep"] == b":":
            return self._header(left, start, kind)
        if kind == "authorization" and (edit := self._header(left, start, kind)) is not None:
            return edit
        return self._unquoted(left, right, separator, kind)

    def _edit(self, start: int, end: int, kind: str, escaped: int = 0) -> Edit | None:
        value = self._data[start:end]
        scheme = _SCHEMES_OF[kind].match(value) if kind in _SCHEMES_OF else None
        secret = value[scheme.end() :] if scheme is not None else value
        if stands_for_a_secret(secret) or _ANY_LETTER.search(secret) is None:
            return None
        found = self._rules.leaf(kind, value, escaped)
        return None if found is None else (start, end, found[0] + self._rules.token(*found[1:]))

    def _said(self, right: int, kind: str) -> Edit | None:
        said = _SAID.match(self._data, right)
        return self._in_a_sentence(said.start("value"), said["value"], kind) if said is not None else None

    def _in_a_sentence(self, start: int, value: bytes, kind: str) -> Edit | None:
        """What is said of a name in prose, where most of what stands there is a word."""
        value = value.rstrip(b".:!?")
        if not looks_like_a_password(value) or _HYPHENATED.fullmatch(value) is not None:
            return None
        return self._edit(start, start + len(value), kind)

    def _listed(self, left: int, right: int, kind: str) -> Edit | None:
        """`"name": "Cookie", "value": "…"`, `("api_key", "…")`, `--password …`, `"--password", "…"`."""
        data = self._data
        record = _RECORD.match(data, right)
        flag = data.startswith(b"--", left)
        pair = record is None and not flag and _PAIR_BEFORE.search(data, max(0, left - 4), left) is not None
        if record is None and (flag or pair):
            record = _NEXT_ITEM.match(data, right)
        if record is not None:
            opening = _OPENING.match(data, record.end())
            edit = self._quoted(opening, kind) if opening is not None else None
            if edit is None or (pair and _PAIR_AFTER.match(data, edit[1]) is None):
                return None
            return edit
        start = right + len(data[right : right + 8]) - len(data[right : right + 8].lstrip(b" "))
        if not flag or start == right:
            return None
        opening = _OPENING.match(data, start)
        if opening is not None:
            return self._quoted(opening, kind)
        word = _WORD.match(data, start)
        value = word[0] if word is not None else b""
        if len(value) < 4 or value.startswith(b"-") or _NAME_LIKE.fullmatch(value) is not None:
            return None
        return self._edit(start, start + len(value), kind)

    def _quoted(self, opening: re.Match[bytes], kind: str, in_code: bool = False) -> Edit | None:
        slashes = len(opening["quote"]) - 1
        start = opening.end()
        if in_code and _NO_OPENING.match(self._data, start) is not None:
            return None
        end = self._closing(start, slashes, opening["quote"][-1])
        if in_code and kind == "token" and _UNLIKE_A_TOKEN.search(self._data, start, end) is not None:
            return None  # such as the grammar of a lexer
        if in_code and (end - start < 2 or _VARIABLE.match(self._data, start, end) is not None):
            return None  # such as `accesskey="n"`; the name of a variable in the environment
        return self._edit(start, end, kind, (slashes + 1).bit_length())

    def _closing(self, start: int, slashes: int, quote: int) -> int:
        """Return where a quoted value ends; one that is cut off ends with its line."""
        for match in _QUOTES[quote].finditer(self._data, start):
            if match[1] is None:
                return match.start()
            before, depth = len(match[1]), slashes
            while depth and before % 2:
                before, depth = (before - 1) // 2, (depth - 1) // 2
            if depth:  # the quotes around the whole end here
                return match.start()
            if before % 2 == 0:
                return max(start, match.end() - 1 - slashes)
        return len(self._data)

    def _header(self, left: int, start: int, kind: str) -> Edit | None:
        """`Authorization: Scheme …` and `Cookie: a=b; c=d`: a word, or all to the end of the line."""
        data = self._data
        scheme = _SCHEME.match(data, start) if kind == "authorization" else None
        if kind == "authorization" and (scheme is None or scheme[1].lower() not in _WHOLE_LINE_SCHEMES):
            word = _WORD.match(data, scheme.end()) if scheme is not None else None
            if word is None or not word[0] or data[word.end() : word.end() + 1] in _OPENINGS:
                return None
            if _NAME_LIKE.fullmatch(word[0]) is not None and _VALUE_END.match(data, word.end()) is None:
                return None
            return self._edit(start, word.end(), kind)
        if scheme is None and (_COOKIE.match(data, start) is None or not self._stands_first(left)):
            return None
        line = _LINE.match(data, start)
        return self._edit(start, start + len(line[0].rstrip()), kind) if line is not None else None

    def _unquoted(self, left: int, right: int, separator: re.Match[bytes], kind: str) -> Edit | None:
        data, start = self._data, separator.end()
        name = data[left:right]
        first = self._stands_first(left)
        in_shell = first and name.isupper() and separator["sep"] == b"="
        word = (_SHELL_WORD if in_shell else _WORD).match(data, start)
        value = word[0] if word is not None else b""
        end = start + len(value)
        if not value or TOKEN.match(data, start) is not None or stands_for_a_secret(value):
            return None
        if data[end : end + 1] in _OPENINGS or _CALL.match(value) is not None or _is_same(name, value):
            return None  # a call, an index, or an argument passed on under its own name
        plain_word = _NAME_LIKE.fullmatch(value) is not None
        if separator["sep"] != b":":
            if not separator["before"] and not separator["after"]:
                in_call = data[max(0, left - 8) : left].rstrip()[-1:] in (b"(", b",")
                code = plain_word and (in_call or b"." in value or (b"_" in value and _ends_alike(name, value)))
                return None if code or _SHORT_NUMBER.fullmatch(value) is not None else self._edit(start, end, kind)
            if plain_word or len(value) < 4 or _LINE_END.match(data, end) is None:
                return None
            return self._edit(start, end, kind)
        if len(value) < 4 or value.startswith(b"//") or data[left - 1 : left] in (b":", b"/"):
            return None
        if kind != "connection-string" and _LINK.match(value) is not None:
            return None
        if plain_word:
            usual = (
                first
                and separator["after"]
                and kind == "password"
                and value.islower()
                and _LINE_END.match(data, end) is not None
            )
            return self._edit(start, end, kind) if usual else None
        compound = len(words_of(name.decode("ascii"))) > 1
        if compound or (first and _VALUE_END.match(data, end) is not None):
            return self._edit(start, end, kind)
        return self._in_a_sentence(start, value, kind) if separator["after"] else None

    def _stands_first(self, left: int) -> bool:
        """Say whether a name begins a line or an item, and is not a word within a sentence."""
        before = self._data[max(0, left - WINDOW) : left].rstrip(b" \t")
        if before.endswith(b"export"):
            return True
        return not before or before[-1:] in b"\n\r,;{(|\"'`>*-#&?" or before[-2:] in (b"\\n", b"\\r", b"\\t")


def _is_same(name: bytes, value: bytes) -> bool:
    own = words_of(name.decode("ascii"))
    other = words_of(value.decode("ascii", "replace"))
    return bool(other) and own[-len(other) :] == other and _NAME_LIKE.fullmatch(value) is not None


def _ends_alike(name: bytes, value: bytes) -> bool:
    """Say whether two names end with the same word, as in `token=access_token`."""
    own, other = words_of(name.decode("ascii")), words_of(value.decode("ascii"))
    return bool(own and other) and own[-1] == other[-1]


def _unescape(value: bytes, times: int) -> bytes:
    for _ in range(times):
        try:
            value = json.loads(b'"' + value + b'"', strict=False).encode("utf-8", "surrogatepass")
        except ValueError:
            break
    return value
