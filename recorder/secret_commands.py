"""Secrets in a command or a sentence, which no `=` or `:` behind a name points at.

    curl -u bob:…      mysql -p…      sshpass -p …      redis-cli -a …      pass=…      PIN: 4821      пароль: …

Each starts with a needle, as the patterns of `secret_patterns` do; whether the rest is there is decided here, from the
program that is called and the looks of the value. The same commands are known as lists of arguments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from .secret_names import FOREIGN_NAMES

NEEDLES: Final = (
    *(" -u", "--user", "--proxy-user", " -p", " -a"),
    *("pass=", "pass:", "Pass=", "Pass:", "PASS=", "PASS:"),
    *("pin=", "pin:", "pin is", "Pin=", "Pin:", "Pin is", "PIN=", "PIN:", "PIN is"),
    *FOREIGN_NAMES,
)

PIN: Final = re.compile(r"[0-9]{4,8}")

_REACH: Final = 256
"""How far in front of an option its program may stand, in bytes."""

_CURL: Final = re.compile(rb"\bcurl(?:\.exe)?\b")
_MYSQL: Final = re.compile(rb"\b(?:mysql|mariadb)[\w-]*")
_WITH_P: Final = re.compile(rb"\b(?:sshpass|mongo\w*|(?:docker|podman) login)\b")
_REDIS: Final = re.compile(rb"\bredis-cli\b")
_END_OF_A_COMMAND: Final = re.compile(rb"[\n;|&]|\\n")

_VALUE: Final = rb"(?P<secret>[^\s\"'\\<>]{1,512})"
_USER: Final = re.compile(rb"(?: -u|--(?:proxy-)?user)[ =]*+(?:\\*[\"'])?[^\s:\"'\\\[]{1,128}:" + _VALUE)
_ATTACHED: Final = re.compile(rb" -p(?:\\*[\"'])?(?![\s=])" + _VALUE)
_APART: Final = re.compile(rb" -[pa](?: ++|=)(?:\\*[\"'])?(?!-)" + _VALUE)
_PASS: Final = re.compile(rb"[pP](?:ass|ASS)(?:=|: ?)(?:\\*[\"'])?(?P<secret>[^\s\"'\\<>,;&()\[\]{}]{6,256})")
_PIN: Final = re.compile(rb"[pP](?:in|IN)(?: is)?[=:]?[ \t]*+(?:\\*[\"'])?(?P<secret>[0-9]{4,8})(?![\w.])")
_BEHIND: Final = re.compile(
    rb"[ \t]*+(?:[:=]|\xef\xbc\x9a)[ \t]*+(?:\\*[\"'])?(?P<secret>[^\s\"'\\<>,;&()\[\]{}]{6,256})"
)
_END_OF_A_KEY: Final = re.compile(rb"[ :*_0-9]*\\*[\"']")
_LETTERS: Final = re.compile(rb"[A-Za-z0-9]")
_NAME: Final = re.compile(rb"[A-Za-z]+(?:[_.-][A-Za-z0-9]+)+")
_LETTER: Final = re.compile(rb"[^\W\d_]|[\x80-\xff]")
_MARK: Final = re.compile(rb"[0-9]|[^\w\s.,:;/\x80-\xff-]")

PROGRAM: Final = re.compile(rb"\b(?:curl|mysql|mariadb|sshpass|mongo|docker|podman|redis-cli)")
"""What must stand in front of an argument if it is to be a secret because of it."""


class Place(NamedTuple):
    """A secret in a text: its kind, and where it starts and ends."""

    kind: str
    start: int
    end: int


def find(data: bytes, start: int, needle: bytes) -> Place | None:
    """Return the secret that a needle, which starts there, belongs to, or None."""
    sign = needle[:2]
    if sign in (b"--", b" -"):
        return _option(data, start, needle)
    if needle[:3].lower() == b"pin":
        return _plain(_PIN.match(data, start), "pin") if _stands_alone(data, start) else None
    if needle[:4].lower() == b"pass":
        found = _PASS.match(data, start) if _stands_alone(data, start) and data[start - 1 : start] != b"_" else None
        return _plain(found, "password") if found is not None and looks_like_a_password(found["secret"]) else None
    found = _BEHIND.match(data, start + len(needle))
    return _plain(found, "password") if found is not None and looks_like_a_password(found["secret"]) else None


def ends_a_key(data: bytes, end: int) -> bool:
    """Say whether what ends there may be a key in JSON."""
    return _END_OF_A_KEY.match(data, end) is not None


def looks_like_a_password(value: bytes) -> bool:
    """Say whether a word is a password rather than a word: letters, with a digit or a sign among them."""
    word = value.rstrip(b".,:;!?")
    marked = _LETTER.search(word) is not None and _MARK.search(word) is not None
    return len(value) >= 6 and marked and _NAME.fullmatch(word) is None


def in_arguments(items: Sequence[str]) -> list[tuple[int, int]]:
    """Return which of a command's arguments are secrets, and from which character on."""
    line = " ".join(items[:4]).encode("utf-8", "replace")
    out: list[tuple[int, int]] = []
    for index, item in enumerate(items):
        before = items[index - 1] if index else ""
        if _CURL.search(line) is not None:
            attached = item.startswith(("--user=", "--proxy-user=")) or (item.startswith("-u") and ":" in item)
            if attached or before in ("-u", "--user", "--proxy-user"):
                out.append((index, item.find(":") + 1 or len(item)))
        elif _MYSQL.search(line) is not None:
            if item.startswith("-p"):
                out.append((index, 2))
        elif _WITH_P.search(line) is not None:
            if before == "-p":
                out.append((index, 0))
        elif _REDIS.search(line) is not None and before == "-a":
            out.append((index, 0))
    return [(index, start) for index, start in out if start < len(items[index])]


def _option(data: bytes, start: int, needle: bytes) -> Place | None:
    if needle == b" -p":
        found = _ATTACHED.match(data, start)
        if found is not None:
            return _plain(found, "password") if _called(data, start, _MYSQL) else None
        found = _APART.match(data, start)
        return _plain(found, "password") if found is not None and _called(data, start, _WITH_P) else None
    if needle == b" -a":
        found = _APART.match(data, start)
        return _plain(found, "password") if found is not None and _called(data, start, _REDIS) else None
    found = _USER.match(data, start)
    return _plain(found, "password") if found is not None and _called(data, start, _CURL) else None


def _called(data: bytes, start: int, program: re.Pattern[bytes]) -> bool:
    """Say whether a program is called in front of an option, in the same command."""
    before = _END_OF_A_COMMAND.split(data[max(0, start - _REACH) : start])[-1]
    return program.search(before) is not None


def _stands_alone(data: bytes, start: int) -> bool:
    return start == 0 or _LETTERS.match(data, start - 1) is None or data[start - 2 : start - 1] == b"\\"


def _plain(found: re.Match[bytes] | None, kind: str) -> Place | None:
    return None if found is None else Place(kind, *found.span("secret"))
