"""Which names stand for a secret: `password`, `DB_PASSWORD`, `openaiApiKey`, `X-Auth-Token`, but not `max_tokens`.

A name is cut into words at its separators and its capitals; what counts is how it ends ("api" "key"), whatever stands
in front. A few words behind it change nothing (`password_old`, `API_KEY_2`); others make it a different thing
(`token_count`, `password_policy`).

Names are looked for in long texts, so every secret name must hold one of a few dozen *needles*, which an automaton
finds in one pass. Around a needle the *identifier* is taken, and only that is classified. A key of a dict, a header
in a text and an environment variable all come here, so they cannot disagree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final

from .needles import Hit, Needles

WINDOW: Final = 64
"""How many bytes of an identifier are looked at on either side of a needle."""

MEMORY: Final = 4096
"""How many names a memo holds before it starts anew."""

HARMLESS: Final = (
    *("max_tokens", "put_tokens", "total_tokens", "prompt_tokens", "completion_tokens", "cached_tokens"),
    *("reasoning_tokens", "TokenCount", "putTokens", "tokenizer"),
)
"""Needles that hide the needle inside them. These words are in each answer of a model; no secret name ends so."""

BEARER: Final = "earer"
BASIC: Final = "asic "

_NEEDLES: Final = (
    *("token", "Token", "TOKEN"),
    *("assw", "assW", "ASSW", "assph", "ASSPH", "pwd", "Pwd", "PWD", "_pass", "_PASS", "Pass"),
    *("ecret", "ECRET"),
    *("_key", "-key", "Key", "KEY", "pikey", "sskey", "atekey", "pi key", "PI key", "PI Key"),
    *("auth", "Auth", "AUTH"),
    *("ookie", "OOKIE"),
    *("redential", "REDENTIAL", "creds"),
    *("ction_str", "ctionStr", "ctionstr", "CTION_STR", "onn_str", "onnStr", "ONN_STR", "onnstr"),
    *("dsn", "Dsn", "DSN"),
    *("essionid", "ESSIONID", "sessid", "SESSID"),
    *("srf", "SRF"),
    *("assord", "epasse", "ennwort", "ENNWORT", "achtwoord", "ACHTWOORD", "ontrasen", "ONTRASEN", "senha", "Senha"),
    *("SENHA", "haslo", "Haslo", "HASLO", "heslo", "Heslo", "HESLO", "alasana", "ALASANA", "dgangskode", "osenord"),
)
NEEDLES: Final = (*HARMLESS, BEARER, BASIC, *_NEEDLES)
"""In order of priority."""

BEARER_INDEX: Final = NEEDLES.index(BEARER)
BASIC_INDEX: Final = NEEDLES.index(BASIC)

_FAMILIES: Final = tuple(
    (kind, re.compile(regex))
    for kind, regex in {
        "csrf": r"[cx]srf(?:middleware)?(?:token)?$",
        "password": (
            r"(?:password|passwd|passphrase)s?$|pwd$|(?:passwort|passord|kennwort|wachtwoord|adgangskode)$|motdepasse$"
        ),
        "api-key": r"(?:api|app|application|consumer|subscription)keys?$",
        "private-key": r"priv(?:ate)?keys?$",
        "secret-key": (
            r"(?:secret|access|account|admin|auth|decryption|encryption|hmac|master|service|servicerole|shared"
            r"|signature|signing)keys?$|secretkeybase$"
        ),
        "secret": r"secret(?:s|string|binary|text)?$",
        "authorization": r"authorization$|^x?(?:basic|bearer|digest|http|npm|proxy|registry)?auth$",
        "cookie": r"cookies?$",
        "session": r"(?<!user)sessid$|^[a-z]{0,4}sessionid$",
        "credentials": r"(?:credentials?|creds)$",
        "connection-string": r"(?:connection|conn)str(?:ing)?s?$|dsn$",
        "token": r"bearer$|token$|(?:access|api|auth|bearer|personal|refresh|secret|session)tokens$",
    }.items()
)
FAMILIES: Final = tuple(kind for kind, _ in _FAMILIES)
"""The kinds of secrets that are known by their names."""


_FOREIGN: Final = (
    *("contraseña", "hasło", "lösenord", "şifre", "jelszó", "пароль", "密码", "密碼", "口令", "パスワード", "비밀번호"),
)
FOREIGN_NAMES: Final = tuple(sorted({case for name in _FOREIGN for case in (name, name.capitalize(), name.upper())}))
"""What a password is called where its name is not ASCII."""

_FOREIGN_ENDING: Final = re.compile(rf"(?:{'|'.join(_FOREIGN)})[ :*_0-9]*\Z", re.IGNORECASE)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_IGNORED_AT_THE_END: Final = _words(
    "value val old new previous prev prod production dev development test testing staging live sandbox primary "
    "secondary default backup plain plaintext encrypted v"
)
_IGNORED_AFTER_PASSWORD: Final = _words("hash hashed digest confirm confirmation again repeat")
_NO_SECRET_TOKEN: Final = _words(
    "max min num n per page nextpage next continuation continue sync cursor pagination cancel cancellation "
    "cancelation eos bos pad unk unknown sep cls mask stop special start end first last input output prompt "
    "completion reasoning cached total thinking budget text image audio video word each every single expected "
    "unexpected syntax sub placeholder"
)
"""`next_page_token` places a reader in a list, `eos_token` is a word of a model: what precedes "token" says so."""

_WHOSE_PASS: Final = _words(
    "admin amqp api auth basic database db email ftp http https imap key keystore login mail mongo my mysql pg "
    "postgres proxy rabbitmq redis root rpc sftp smtp sql ssh store sudo user wifi"
)
"""`db_pass` is a password; `pass`, beside `fail`, is not."""

_FOREIGN_WORDS: Final = _words("contrasena senha haslo heslo salasana losenord")
"""Likewise in ASCII, where longer words may end so: "resenha" is another one."""

_DOUBTFUL: Final = {
    "pass": "password",
    "parola": "password",
    "tokens": "token",
    "pin": "pin",
    "otp": "otp",
    "totp": "otp",
}
_WHOSE: Final = _words("my the new old current")

_DIRECTORIES: Final = frozenset(("PWD", "OLDPWD"))
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_IDENTIFIER: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

REST: Final = re.compile(rb"[A-Za-z0-9_.\-]{0,64}+(?: [kK]ey(?![A-Za-z0-9_]))?")
"""What follows a needle in the same identifier; "secret key" and "api key" are one name."""

_REST_OF_KEY: Final = re.compile(rb"([A-Za-z0-9_.\-]{0,64}+(?: [kK]ey)?)[ :*?)\]]*\Z")


class SecretNames:
    """Tells the names of secrets from other names.

    Attributes:
        own_needles: what to look for beyond `NEEDLES`, because of `extra`.
        whole_keys: the spellings of those `extra` names that are no identifiers, such as "patient name" or a name
            that is not ASCII; so they count as whole keys only.

    Args:
        extra: further names of secrets, in any one spelling: "patient name" is also `patientName`, `OLD_PATIENT_NAME`.
        allowed: names that are no secret although the rules say so, in any one spelling; `token` allows that name only,
            not `access_token`.
    """

    def __init__(self, extra: Sequence[str] = (), allowed: Sequence[str] = ()) -> None:
        words = {name: words_of(name) if name.isascii() else [] for name in extra}
        self._extra = {"".join(parts): "-".join(parts) for parts in words.values() if parts}
        self._allowed = frozenset("".join(words_of(name)) or name.lower() for name in allowed)
        longest = {max(parts, key=len) for parts in words.values() if parts}
        self.own_needles = cases(longest)
        odd = {name: parts for name, parts in words.items() if name.encode().strip(_IDENTIFIER)}
        self._whole_keys = {case: "-".join(odd[name]) or "custom" for name in odd for case in cases([name])}
        self.whole_keys = tuple(self._whole_keys)
        self._needles = Needles((NEEDLES, self.own_needles))
        self._kinds: dict[bytes, str | None] = {}

    def kind_of_key(self, key: str) -> str | None:
        """Return the kind of secret that stands under this key of a dict, or None."""
        if key in self._whole_keys:
            return self._whole_keys[key]
        if not key.isascii() and _FOREIGN_ENDING.search(key) is not None:
            return None if key.lower() in self._allowed else "password"
        data = key.encode("utf-8", "surrogatepass")
        hits = self._needles.find(data)
        if not hits:
            return None
        _, start, end = max(hits, key=_end_of)
        rest = _REST_OF_KEY.match(data, end)
        return self.kind_at(data, start, rest.end(1))[0] if rest is not None else None

    def doubtful_kind(self, key: str) -> str | None:
        """Return the kind of secret that may stand under a key of a dict, if what stands there looks like one.

        `pass` may count what passed, `tokens` may hold counts or words, `pin` may be one of a chip, and `otp` say
        whether there is one.
        """
        words = words_of(key)
        kind = _DOUBTFUL.get(words[-1]) if words else None
        if kind is None or "".join(words) in self._allowed:
            return None
        if kind == "token":
            return kind if len(words) == 1 or words[-2] not in _NO_SECRET_TOKEN else None
        return kind if kind in ("pin", "otp") or len(words) == 1 or words[-2] in _WHOSE else None

    def kind_at(self, data: bytes, start: int, end: int, floor: int = 0) -> tuple[str | None, int]:
        """Classify the identifier around a needle.

        Args:
            data: the text.
            start: where the needle starts.
            end: where the identifier ends.
            floor: where the identifier starts at the earliest.

        Returns:
            The kind of secret, or None, and where the identifier starts.
        """
        floor = max(floor, start - WINDOW)
        before = data[floor:start]
        left = floor + len(before.rstrip(_IDENTIFIER))
        if left and data[left - 1] == 0x5C:  # a backslash: a letter behind it is of an escape, unless of the needle
            left = min(left + (5 if data[left : left + 1] == b"u" else 1), start)
        name = data[left:end]
        if name == b"PWD" and data[left - 1 : left] == b";":
            return "password", left  # of a connection string; elsewhere it is the working directory
        if data[left - 2 : left] == b"::":
            return None, left  # of a module or class
        try:
            return self._kinds[name], left
        except KeyError:
            kind = self._classify(name.decode("ascii"))
            if len(self._kinds) >= MEMORY:
                self._kinds.clear()
            self._kinds[name] = kind
            return kind, left

    def _classify(self, name: str) -> str | None:
        words = words_of(name)
        if "".join(words) in self._allowed:
            return None
        for count in range(1, len(words) + 1) if self._extra else ():
            kind = self._extra.get("".join(words[-count:]))
            if kind is not None:
                return kind
        return None if name in _DIRECTORIES else _built_in_kind(words)


def _end_of(hit: Hit) -> int:
    return hit[2]


def words_of(name: str) -> list[str]:
    """Cut a name into its words, in lower case: `openaiApiKey_2` is openai, api, key, 2."""
    return [word.lower() for word in _WORD.findall(name)]


def _built_in_kind(words: list[str]) -> str | None:
    dropped = ""
    numbered = bool(words) and words[-1].isdigit()
    while words and (words[-1] in _IGNORED_AT_THE_END or words[-1].isdigit()):
        words = words[:-1]
    if len(words) > 1 and words[-1] in _IGNORED_AFTER_PASSWORD:
        *words, dropped = words
    elif len(words) > 1 and words[-1] == "header" and words[-2] in ("auth", "authorization", "cookie"):
        words = words[:-1]
    if not words:
        return None
    if words[-1] in _FOREIGN_WORDS:
        return "password"
    if words[-1] == "pass":
        return "password" if len(words) > 1 and words[-2] in _WHOSE_PASS else None
    name = "".join(words)
    for kind, ending in _FAMILIES:
        if ending.search(name) is not None:
            if (dropped and kind != "password") or (kind == "session" and words[-1] == "id"):
                return None
            if words[-1] == "auth" and numbered:
                return None  # a product
            return None if kind == "token" and _is_no_secret_token(words) else kind
    return None


def _is_no_secret_token(words: list[str]) -> bool:
    *before, last = words
    stem = last.removesuffix("token")
    return (stem or (before[-1] if before else "")) in _NO_SECRET_TOKEN


def escaped_endings() -> set[str]:
    """Return how the foreign names end where JSON is written in ASCII: behind the last backslash."""
    endings = {json.dumps(name)[1:-1].rpartition("\\")[2] for name in FOREIGN_NAMES}
    return endings | {"u" + ending[1:5].upper() + ending[5:] for ending in endings}


def cases(words: Iterable[str]) -> tuple[str, ...]:
    """The words, each in every usual case; the longest first."""
    found = {case for word in words for case in (word, word.lower(), word.capitalize(), word.upper())}
    return tuple(sorted(found, key=lambda case: (-len(case), case)))
