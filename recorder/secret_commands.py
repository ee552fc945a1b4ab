"""Secrets in a command or a sentence, which no `=` or `:` behind a name points at.

    curl -u bob:…      mysql -p…      sshpass -p …      redis-cli -a …      pass=…      PIN: 4821      пароль: …
    machine example.com login bob password …

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
    *("otp=", "otp:", "otp is", "Otp=", "Otp:", "Otp is", "OTP=", "OTP:", "OTP is"),
    *("machine ", "default login "),
    *FOREIGN_NAMES,
)

PIN: Final = re.compile(
    r"[0-9]{4,8}|[0-9]{3}[ -][0-9]{3}|(?=(?:[A-Za-z]*[0-9]){4})(?=[0-9a-f]*[A-Zg-z])[A-Za-z0-9]{4,16}"
)
"""Digits, or letters with four digits among them: a chip has fewer pins. What is a hash of a commit is none."""


_REACH: Final = 256
"""How far in front of an option its program may stand, in bytes."""

_LETTERS: Final = re.compile(rb"[A-Za-z0-9]")
_NAME: Final = re.compile(rb"[A-Za-z]+(?:[_.-][A-Za-z0-9]+)+")
_LETTER: Final = re.compile(rb"[^\W\d_]|[\x80-\xff]")
_MARK: Final = re.compile(rb"[0-9]|[^\w\s.,:;/\x80-\xff-]")
_END_OF_A_COMMAND: Final = re.compile(rb"[\n;|&]|\\n")
_END_OF_A_KEY: Final = re.compile(rb"[ :*_0-9]*+\\*[\"'/]")


class _Forms:
    """What stands at the needles of a text.

    Args:
        body: the text is the JSON of one. What is a secret in that text must be found, and what is none may be:
            escapes make it longer, and hide where it ends.
    """

    def __init__(self, body: bool) -> None:
        stop = rb"\s\"'<>" if body else rb"\s\"'<>\\"
        stop_in_prose = stop + rb",;&()\[\]{}"
        longest = 4096 if body else 512
        blank = rb"(?:[ \t]|\\+t)*+" if body else rb"[ \t]*+"
        value = rb"(?P<secret>[^%s]{1,%d})" % (stop, longest)
        word = rb"(?P<secret>[^%s]{6,%d})" % (stop_in_prose, longest)
        quote = rb"(?:\\*[\"'])?"
        edge = rb"" if body else rb"\b"
        self.body = body
        self.reach = 6 * _REACH if body else _REACH
        self.curl = re.compile(edge + rb"curl")
        self.mysql = re.compile(edge + rb"(?:mysql|mariadb)")
        self.with_p = re.compile(edge + rb"(?:sshpass|mongo|(?:docker|podman) login)")
        self.redis = re.compile(edge + rb"redis-cli")
        self.user = re.compile(
            rb"(?: -u|--(?:proxy-)?user)[ =]*+%s[^:\[%s]{1,%d}:%s" % (quote, stop, longest // 4, value)
        )
        self.attached = re.compile(rb" -p%s(?![\s=])%s" % (quote, value))
        self.apart = re.compile(rb" -[pa](?: ++|=)%s(?!-)%s" % (quote, value))
        self.password = re.compile(rb"[pP](?:ass|ASS)(?:=|: ?)%s%s" % (quote, word))
        self.pin = re.compile(
            rb"(?:[pP](?:in|IN)|[oO](?:tp|TP))(?: is)?[=:]?%s%s(?P<secret>[0-9]{4,8})(?![\w.])" % (blank, quote)
        )
        gap = rb"(?:[ \t\r\n]|\\+[nrt])++"
        name = rb"[!#-&(-+\--:=?-\[\]-~]{1,256}"
        self.netrc = re.compile(
            rb"(?:machine%s(?P<host>%s)|default)%s(?:(?:login|account)%s%s%s){0,2}password%s%s%s"
            % (gap, name, gap, gap, name, gap, gap, quote, value)
        )
        self.behind = re.compile(rb"%s(?:[:=]|\xef\xbc\x9a)%s%s%s" % (blank, blank, quote, word))


_IN_TEXT: Final = _Forms(body=False)
_IN_BODY: Final = _Forms(body=True)

PROGRAM: Final = re.compile(rb"(?:curl|mysql|mariadb|sshpass|mongo|docker|podman|redis-cli)")
"""What must stand in front of an argument if it is to be a secret because of it."""


class Place(NamedTuple):
    """A secret in a text: its kind, and where it starts and ends."""

    kind: str
    start: int
    end: int


def find(data: bytes, start: int, needle: bytes, forms: _Forms = _IN_TEXT) -> Place | None:
    """Return the secret that a needle, which starts there, belongs to, or None."""
    if needle[:2] in (b"--", b" -"):
        return _option(data, start, needle, forms)
    name = needle[:3].lower()
    if name == b"pin" or name == b"otp":
        found = forms.pin.match(data, start) if forms.body or _stands_alone(data, start) else None
        return _place(found, name.decode())
    if needle in (b"machine ", b"default login "):
        found = forms.netrc.match(data, start) if forms.body or _stands_alone(data, start) else None
        if found is not None and (_is_host(found["host"]) or looks_like_a_password(found["secret"])):
            return _place(found, "password")
        return None
    if needle[:4].lower() != b"pass":
        found = forms.behind.match(data, start + len(needle))
    elif forms.body or (_stands_alone(data, start) and data[start - 1 : start] != b"_"):
        found = forms.password.match(data, start)
    else:
        return None
    return _place(found, "password") if found is not None and looks_like_a_password(found["secret"]) else None


def may_be_in(body: bytes, start: int, needle: bytes) -> bool:
    """Say whether in the strict JSON of a text, at a needle, there is what `find` finds in the text."""
    return find(body, start, needle, _IN_BODY) is not None


def ends_a_key(data: bytes, end: int) -> bool:
    """Say whether what ends there may be a key in JSON."""
    return _END_OF_A_KEY.match(data, end) is not None


def looks_like_a_password(value: bytes) -> bool:
    """Say whether a word is a password rather than a word: letters, with a digit or a sign among them."""
    word = value.rstrip(b".,:;!?")
    marked = _LETTER.search(word) is not None and _MARK.search(word) is not None
    return len(value) >= 6 and marked and _NAME.fullmatch(word) is None


def may_call(items: Sequence[str]) -> bool:
    """Say whether the first of these arguments may name a program of which some arguments are secrets."""
    return PROGRAM.search(" ".join(items[:4]).encode("utf-8", "replace")) is not None


def in_arguments(items: Sequence[str]) -> list[tuple[int, int]]:
    """Return which of a command's arguments are secrets, and from which character on."""
    if not may_call(items):
        return []
    line = " ".join(items[:4]).encode("utf-8", "replace")
    out: list[tuple[int, int]] = []
    for index, item in enumerate(items):
        before = items[index - 1] if index else ""
        if _IN_TEXT.curl.search(line) is not None:
            attached = item.startswith(("--user=", "--proxy-user=")) or (item.startswith("-u") and ":" in item)
            if attached or before in ("-u", "--user", "--proxy-user"):
                out.append((index, item.find(":") + 1 or len(item)))
        elif _IN_TEXT.mysql.search(line) is not None:
            if item.startswith("-p"):
                out.append((index, 2))
        elif _IN_TEXT.with_p.search(line) is not None:
            if before == "-p":
                out.append((index, 0))
        elif _IN_TEXT.redis.search(line) is not None and before == "-a":
            out.append((index, 0))
    return [(index, start) for index, start in out if start < len(items[index])]


def _option(data: bytes, start: int, needle: bytes, forms: _Forms) -> Place | None:
    if needle == b" -p":
        found, program = forms.attached.match(data, start), forms.mysql
        if found is None:
            found, program = forms.apart.match(data, start), forms.with_p
    elif needle == b" -a":
        found, program = forms.apart.match(data, start), forms.redis
    else:
        found, program = forms.user.match(data, start), forms.curl
    return _place(found, "password") if found is not None and _called(data, start, program, forms.reach) else None


def _called(data: bytes, start: int, program: re.Pattern[bytes], reach: int) -> bool:
    """Say whether a program is called in front of an option, in the same command."""
    before = _END_OF_A_COMMAND.split(data[max(0, start - reach) : start])[-1]
    return program.search(before) is not None


def _is_host(name: bytes | None) -> bool:
    """Say whether a machine of a netrc file is named, rather than prose that speaks of machines."""
    return name is not None and (name == b"localhost" or b"." in name[:-1] or b":" in name[:-1])


def _stands_alone(data: bytes, start: int) -> bool:
    return start == 0 or _LETTERS.match(data, start - 1) is None or data[start - 2 : start - 1] == b"\\"


def _place(found: re.Match[bytes] | None, kind: str) -> Place | None:
    return None if found is None else Place(kind, *found.span("secret"))
