"""Which texts are secrets by their looks: keys that providers hand out, signed tokens, private keys, passwords in URLs.

Each pattern starts with letters of its own (`ghp_`, `eyJ`, `-----BEGIN`), a *needle*, which an automaton finds. The
expression is then tried at that place only, and none of them can go back and forth over a long text, so looking costs
time in proportion to the text, whatever is in it. Nothing is guessed from how random a text looks: base64, hashes of
commits and UUIDs are no secrets.

Expressions work on UTF-8, so the same ones find a secret in a text and in the JSON that holds the text.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from . import secret_commands


class Found(NamedTuple):
    """A secret in a text: its kind, and where it starts and ends."""

    kind: str
    start: int
    end: int


TOKEN: Final = re.compile(rb"\[redacted:([a-z0-9][a-z0-9-]{0,39}):[0-9a-f]{16}\]")

_WITH_A_DIGIT: Final = r"(?=[\w.~+/-]{0,64}?[0-9]|[A-Za-z0-9]{20})"

_BY_NEEDLE: Final = {
    "sk-": (
        r"(?P<anthropic_key>sk-ant-[\w-]{16,})|(?P<openrouter_key>sk-or-[\w-]{16,})"
        r"|(?P<openai_key>sk-(?!ssh-|ecdsa-)(?:(?:proj|svcacct|admin|lf)-[\w-]{16,}|[A-Za-z0-9]{20}[\w-]*|"
        + _WITH_A_DIGIT
        + r"(?=[\w-]{0,64}?[A-Z])[\w-]{18,}))"
    ),
    "csk-": r"(?P<cerebras_key>csk-[A-Za-z0-9]{20,})",
    "sk_live_ sk_test_ rk_live_ rk_test_": r"(?P<stripe_key>[sr]k_(?:live|test)_[A-Za-z0-9]{10,})",
    "whsec_": r"(?P<webhook_secret>whsec_[A-Za-z0-9+/=]{16,})",
    "ghp_ gho_ ghu_ ghs_ ghr_": r"(?P<github_token>gh[a-z]_[A-Za-z0-9]{20,})",
    "github_pat_": r"(?P<github_token>github_pat_[A-Za-z0-9_]{20,})",
    "glpat- gldt- glrt- glptt-": r"(?P<gitlab_token>gl[a-z]+-[\w.-]{19,}[\w-])",
    "xox": r"(?P<slack_token>xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,})",
    "xapp-": r"(?P<slack_token>xapp-[0-9]-[A-Za-z0-9-]{10,})",
    "AKIA ASIA": r"(?P<aws_key_id>A[KS]IA[A-Z0-9]{16})(?![A-Za-z0-9])",
    "AIza": r"(?P<google_api_key>AIza[\w-]{32,40})(?![\w-])",
    "ya29.": r"(?P<google_oauth_token>ya29\.[\w-]{20,})",
    "GOCSPX-": r"(?P<google_client_secret>GOCSPX-[\w-]{20,})",
    "hf_": r"(?P<hugging_face_token>hf_[A-Za-z0-9]{20,})",
    "npm_": r"(?P<npm_token>npm_[A-Za-z0-9]{30,})",
    "pypi-": r"(?P<pypi_token>pypi-(?:AgE[\w-]{10,}|[A-Za-z0-9]{20}[\w-]{20,}))",
    "SG.": r"(?P<sendgrid_key>SG\.[\w-]{16,}\.[\w-]{16,})",
    "gsk_": r"(?P<groq_key>gsk_[A-Za-z0-9]{20,})",
    "r8_": r"(?P<replicate_token>r8_[A-Za-z0-9]{20,})",
    "dop_v1_ doo_v1_ dor_v1_": r"(?P<digitalocean_token>do[a-z]_v1_[A-Za-z0-9]{32,})",
    "shpat_ shpca_ shppa_ shpss_": r"(?P<shopify_token>shp[a-z]{2}_[A-Za-z0-9]{20,})",
    "SK0 SK1 SK2 SK3 SK4 SK5 SK6 SK7 SK8 SK9 SKa SKb SKc SKd SKe SKf": r"(?P<twilio_key>SK[0-9a-f]{32})(?![A-Za-z0-9])",
    "eyJ": r"(?<![_-])(?P<jwt>eyJ[\w-]{5,}+\.(?:eyJ[\w-]++\.[\w-]*+|[\w-]*+\.[\w-]{10,}+(?:\.[\w-]++){0,2}))",
    "dapi": r"(?P<databricks_token>dapi[0-9a-f]{32})(?![A-Za-z0-9])",
    "pplx-": r"(?P<perplexity_key>pplx-[A-Za-z0-9]{20,})",
    "xai-": r"(?P<xai_key>xai-[A-Za-z0-9]{20,})",
    "tvly-": r"(?P<tavily_key>tvly-(?:dev-|prod-)?[A-Za-z0-9]{16,})",
    "lsv2_": r"(?P<langsmith_key>lsv2_(?:pt|sk)_\w{20,})",
    "lin_api_": r"(?P<linear_key>lin_api_[A-Za-z0-9]{20,})",
    "ntn_": r"(?P<notion_token>ntn_[A-Za-z0-9]{20,})",
    "sbp_": r"(?P<supabase_token>sbp_[a-f0-9]{32,})",
    "hvs.": r"(?P<vault_token>hvs\.[\w-]{20,})",
    "pcsk_": r"(?P<pinecone_key>pcsk_\w{20,})",
    "nvapi-": r"(?P<nvidia_key>nvapi-[\w-]{20,})",
    "ATATT3x": r"(?P<atlassian_token>ATATT3x[\w=-]{20,})",
    "glsa_": r"(?P<grafana_token>glsa_\w{20,})",
    "AGE-SECRET-KEY-": r"(?P<age_identity>AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{40,})",
    "dp.pt. dp.st. dp.ct. dp.sa. dp.said. dp.scim. dp.audit.": (
        r"(?P<doppler_token>dp\.[a-z]{2,5}\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{32,})"
    ),
    "fw_": (
        r"(?P<fireworks_key>fw_(?=[A-Z0-9]{0,40}[a-z])(?=[a-z0-9]{0,40}[A-Z])"
        r"(?=[A-Za-z0-9]{0,40}?[0-9](?:[a-z]|[A-Za-z]{1,40}?[0-9]))[A-Za-z0-9]{22,})"
    ),
    "key-": r"(?<![_-])(?P<mailgun_key>key-[0-9a-f]{32})(?![\w-])",
}
"""Needles → the expression that stands at one of them, not behind a letter or digit; the group's name is the kind."""

PEM_NEEDLE: Final = "----BEGIN"
"""A dash less than there is: a needle that ends with a dash may take the first one."""

URL_NEEDLES: Final = ("://", "/\\/", "/\\\\")
"""What is between scheme and password of a URL, also with its slashes escaped; only where there is an "@" too."""

_SPACE: Final = "\x00"
"""Stands for the space in a needle, since spaces stand between needles."""

_ANYWHERE: Final = {
    "hooks.slack.": (
        r"hooks\.slack\.com(?:\\*/)(?:services|workflows|triggers)(?:\\*/)(?P<slack_webhook>(?:\w|\\*/){12,})"
    ),
    "/api/webhooks/": r"/api/webhooks/[0-9]{5,}/(?P<discord_webhook>[\w-]{20,})",
    "sig=": r"(?:(?<=[?&;])|(?<=u0026))sig=(?P<url_signature>[A-Za-z0-9%+/=_-]{16,})",
    "Signature=": r"Signature=(?P<url_signature>[A-Za-z0-9%+/=_~-]{16,})",
    **dict.fromkeys(URL_NEEDLES, r""),
    ":AA": r"",
    PEM_NEEDLE: r"",
    **dict.fromkeys((needle.replace(" ", _SPACE) for needle in secret_commands.NEEDLES), r""),
}
"""Likewise, behind anything; those without an expression have a function below."""

NEEDLES: Final = tuple(
    needle.replace(_SPACE, " ") for needles in (*_BY_NEEDLE, *_ANYWHERE) for needle in needles.split(" ")
)
_COMMANDS_FROM: Final = len(NEEDLES) - len(secret_commands.NEEDLES)
KINDS: Final = tuple(
    sorted(
        {"basic-credentials", "bearer-token", "private-key", "telegram-token", "url-password"}.union(
            *(
                [name.replace("_", "-") for name in re.compile(regex).groupindex]
                for regex in (*_BY_NEEDLE.values(), *_ANYWHERE.values())
            )
        )
    )
)
"""The kinds of secrets that are known by their looks."""

# A letter behind a backslash belongs to an escape such as \n, also where the escape itself stands in a JSON text.
_NO_LETTER_BEFORE: Final = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4}))"

# Of each needle: the expression that starts there, and the same one where it may follow anything.
_EXPRESSIONS: Final = tuple(
    (re.compile(f"{boundary}(?:{regex})".encode()), re.compile(regex.encode()))
    for table, boundary in ((_BY_NEEDLE, _NO_LETTER_BEFORE), (_ANYWHERE, ""))
    for needles, regex in table.items()
    for _ in needles.split(" ")
)

_URL: Final = re.compile(rb':(?:\\*/){2}[^\s/?#"\'<>\\@:]{0,256}+:(?P<url_password>[^\s/?#"\'<>\\]{1,512})@')
_TELEGRAM: Final = re.compile(rb":AA[\w-]{32,34}(?![\w-])")
_DIGITS: Final = re.compile(rb"[0-9]{8,10}\Z")
_PEM: Final = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END: Final = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY: Final = re.compile(
    rb"(?:\s|\\+[nrt/]|(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash|MessageID): [^\r\n\\]{0,200}|[\w+/=.*])++"
)
_PEM_CUT_OFF: Final = re.compile(
    rb"(?:(?:\s|\\+[nrt])*+[A-Za-z0-9+/=]{32,}+)++(?:(?:\s|\\+[nrt])++[A-Za-z0-9+/=]{1,76})?"
)
_BEARER: Final = re.compile(
    rb"[bB](?:earer|EARER)(?:[ \t]|\\+t)++(?P<bearer_token>" + _WITH_A_DIGIT.encode() + rb"[\w.~+/-]{16,}=*)"
)
_BASIC: Final = re.compile(rb"[bB]asic(?:[ \t]|\\+t)++(?P<basic_credentials>[A-Za-z0-9+/]{8,}={0,2})")

_LONGEST_PLACEHOLDER: Final = 200
_PLACEHOLDER: Final = re.compile(
    rb"<[^<>]*>|\$\(.*|\$?\{[^\"\\]*|\$[A-Z_][A-Z0-9_]*|%[A-Z_]+%"
    rb"|(?:%\(?\w*\)?[a-z][:/-]?)+|[*.x\xe2\x80\xa2\xa6]{3,}|your[-_ ].*"
    rb"|\[(?:redacted|filtered|hidden)\]|redacted|hidden|masked"
    rb"|str|string|bytes|int|integer|number|float|bool|boolean|object|array|list|dict|any|optional|required"
    rb"|null|none|nil|true|false|undefined|empty|tokens?|authentication|bearer|basic|authorization|#[0-9a-f]{3,8}",
    re.IGNORECASE | re.DOTALL,
)


def stands_for_a_secret(value: bytes) -> bool:
    """Say whether a text is no secret but in place of one: a token, `<your key>`, `${API_KEY}`, `***`, `string`."""
    if len(value) > _LONGEST_PLACEHOLDER:
        return False
    return _PLACEHOLDER.fullmatch(value) is not None or TOKEN.fullmatch(value) is not None


class Looks:
    """Finds secrets by their looks in one text."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def at(self, number: int, start: int, floor: int = 0) -> Found | None:
        """Return the secret that a needle belongs to, or None.

        Args:
            number: of the needle, in `NEEDLES`.
            start: where the needle starts.
            floor: what stands before belongs to another secret.
        """
        special = _SPECIAL.get(number)
        if special is not None:
            return special(self, start, floor)
        if number >= _COMMANDS_FROM:
            return self._command(start, floor, NEEDLES[number].encode())
        expression, anywhere = _EXPRESSIONS[number]
        # What ends at the floor is a secret or token, however it ends.
        return _found((anywhere if start == floor else expression).match(self._data, start))

    def bearer(self, start: int, floor: int = 0) -> Found | None:
        """Return the token behind a "Bearer" whose second letter is at `start`."""
        return _found(_BEARER.match(self._data, start - 1)) if start > floor else None

    def basic(self, start: int, floor: int = 0) -> Found | None:
        """Return the credentials behind a "Basic" whose second letter is at `start`: base64 of user:password."""
        found = _found(_BASIC.match(self._data, start - 1)) if start > floor else None
        if found is None:
            return None
        try:
            text = base64.b64decode(self._data[found.start : found.end], validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return None
        return found if ":" in text and text.isprintable() else None

    def _url(self, start: int, floor: int) -> Found | None:
        found = _found(_URL.match(self._data, start))
        return None if found is None or stands_for_a_secret(self._data[found.start : found.end]) else found

    def _escaped_url(self, start: int, floor: int) -> Found | None:
        colon = len(self._data[max(floor, start - 16) : start].rstrip(b"\\")) + max(floor, start - 16) - 1
        return self._url(colon, floor) if colon >= floor and self._data[colon] == 0x3A else None

    def _command(self, start: int, floor: int, needle: bytes) -> Found | None:
        place = secret_commands.find(self._data, start, needle)
        if place is None or place.start < floor or TOKEN.match(self._data, place.start) is not None:
            return None
        return None if stands_for_a_secret(self._data[place.start : place.end]) else Found(*place)

    def _telegram(self, start: int, floor: int) -> Found | None:
        secret = _TELEGRAM.match(self._data, start)
        digits = _DIGITS.search(self._data, max(floor, start - 10), start) if secret is not None else None
        return None if secret is None or digits is None else Found("telegram-token", digits.start(), secret.end())

    def _private_key(self, start: int, floor: int) -> Found | None:
        begin = _PEM.match(self._data, start - 1) if start > floor else None
        if begin is None:
            return None
        body = _PEM_BODY.match(self._data, begin.end())
        end = _PEM_END.match(self._data, body.end()) if body is not None else None
        end = end or _PEM_CUT_OFF.match(self._data, begin.end())
        return Found("private-key", begin.start(), end.end()) if end is not None else None


def check_of(number: int) -> Callable[[bytes, int], object]:
    """Return a quick check: given a text and where a needle starts, it is true where `Looks.at` finds a secret."""
    special = _SPECIAL.get(number)
    if number >= _COMMANDS_FROM:
        needle = NEEDLES[number].encode()
        if needle.isascii():
            return lambda data, start: secret_commands.may_be_in(data, start, needle)
        return lambda data, start: (
            secret_commands.ends_a_key(data, start + len(needle)) or secret_commands.may_be_in(data, start, needle)
        )
    if special is None:
        return _EXPRESSIONS[number][0].match
    if special is Looks._url:
        return _URL.match
    if special is Looks._private_key:
        return lambda data, start: _PEM.match(data, start - 1) if start else None
    return lambda data, start: Looks(data).at(number, start)


_SPECIAL: Final = {
    NEEDLES.index(needle): find
    for needle, find in {
        URL_NEEDLES[0]: Looks._url,
        **dict.fromkeys(URL_NEEDLES[1:], Looks._escaped_url),
        ":AA": Looks._telegram,
        PEM_NEEDLE: Looks._private_key,
    }.items()
}


def _found(match: re.Match[bytes] | None) -> Found | None:
    if match is None or match.lastgroup is None:
        return None
    return Found(match.lastgroup.replace("_", "-"), *match.span(match.lastgroup))
