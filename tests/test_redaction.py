"""Tokens, rules, and the laws that hold for all that is redacted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from agentreplay.recorder import secret_patterns
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.needles import Needles
from agentreplay.recorder.redaction import (
    TOKEN,
    RedactionRules,
    Redactor,
    SecretPattern,
    find_tokens,
    is_token,
    tokens_match,
    without_digests,
)
from agentreplay.recorder.secret_names import NEEDLES
from agentreplay.recorder.values import dumps, encode
from hypothesis import given, settings
from hypothesis import strategies as st

KEY = b"k" * 32
REDACTOR = Redactor(KEY)
HUNTER2 = "[redacted:password:f6c2ff60161a7959]"
OPENAI = "sk-" + "a" * 40
OPENAI_TOKEN = "[redacted:openai-key:2b65ba68cf325dae]"
FOREIGN = "[redacted:password:0123456789abcdef]"


def redact(value: Any) -> Any:
    """Redact, and check on the way what holds for every tree."""
    before = json.dumps(value)
    out = REDACTOR.redact(value)
    assert json.dumps(value) == before, "the tree was changed in place"
    assert REDACTOR.redact(out) is out, "a second time changed something"
    assert out is value or out != value, "a copy without a change"
    assert out is value or not REDACTOR.is_clean(dumps(value)), "is_clean missed a secret"
    return out


def secret_in(value: Any) -> Any:
    """Redact {"password": value} and return what became of the value."""
    return redact({"password": value})["password"]


# -- tokens ------------------------------------------------------------------------------------------------------------


def test_one_secret_has_one_digest_wherever_it_is_found() -> None:
    """By name, by looks, in a text, in JSON in a text: the digest is the secret's; a whole pattern gives its kind."""
    found = dumps(redact({"api_key": OPENAI, "text": f"api_key={OPENAI}", "json": json.dumps({"api_key": OPENAI})}))

    assert found.count(OPENAI_TOKEN.encode()) == 3


def test_two_secrets_have_two_tokens_and_two_stores_too() -> None:
    """A token tells secrets apart within a store, and nothing about them outside."""
    other = Redactor(b"K" * 32).redact({"password": "hunter2"})["password"]

    assert secret_in("hunter3") != HUNTER2
    assert other != HUNTER2
    assert is_token(other)


@pytest.mark.parametrize("value", [FOREIGN, f"Bearer {FOREIGN}"])
def test_a_token_from_elsewhere_stays(value: str) -> None:
    """Under secret keys and in texts, from whatever store."""
    text = f"password={FOREIGN} https://u:{FOREIGN}@h"
    tree = {"authorization": value, "text": text, "json": json.dumps({"token": FOREIGN})}

    assert redact(tree) is tree


def test_what_only_contains_a_token_is_still_a_secret() -> None:
    """Nobody hides a password behind a token."""
    assert is_token(secret_in(f"{FOREIGN}hunter2"))


def test_tokens_are_found_by_pointer() -> None:
    """In texts and keys, in order."""
    tree = {"a": FOREIGN, "b": [{"c/~": f"x {FOREIGN}"}, 1], FOREIGN: 2, "d": "[redacted]"}

    assert find_tokens(tree) == ["/a", "/b/0/c~1~0", f"/{FOREIGN}"]
    assert find_tokens(FOREIGN) == [""]


def test_tokens_of_one_store_match_by_digest_and_across_stores_by_kind() -> None:
    """The text around them must be equal."""
    ends = ("jwt:00000000000000aa", "jwt:00000000000000bb", "token:00000000000000aa")
    jwt_a, jwt_b, token_a = (f"[redacted:{end}]" for end in ends)

    assert tokens_match(f"Bearer {jwt_a}", f"Bearer {jwt_b}")
    assert not tokens_match(jwt_a, token_a)
    assert not tokens_match(jwt_a, f"Bearer {jwt_a}")
    assert tokens_match(jwt_a, token_a, same_store=True)
    assert not tokens_match(jwt_a, jwt_b, same_store=True)


@pytest.mark.parametrize(
    ("redacted", "text", "same"),
    [
        (HUNTER2, "hunter2", True),
        (f"Bearer {HUNTER2}", "Bearer hunter2", True),
        (f"a {HUNTER2}, {HUNTER2} b", "a hunter2, hunter2 b", True),
        (HUNTER2, "hunter3", False),
        (HUNTER2, "", False),
        (f"x {HUNTER2}", "y hunter2", False),
        (f"{HUNTER2} x", "hunter2 y", False),
        ("hunter2", "hunter2", False),
        (FOREIGN, "hunter2", False),
    ],
)
def test_a_store_knows_its_tokens_again(redacted: str, text: str, same: bool) -> None:
    """Given the text in clear, it tells whether a redacted one was made from it."""
    assert REDACTOR.is_redacted_form(redacted, text) is same


def test_digests_can_be_taken_out() -> None:
    """What remains can be compared across stores; without tokens it is the same tree."""
    tree = {"a": [f"Basic {FOREIGN}"], "b": {FOREIGN: 1}, "c": {"d": 1, "e": 2}}

    out = without_digests(tree)

    assert out == {"a": ["Basic [redacted:password:*]"], "b": {"[redacted:password:*]": 1}, "c": {"d": 1, "e": 2}}
    assert out["c"] is tree["c"]
    assert without_digests(tree["c"]) is tree["c"]


# -- rules -------------------------------------------------------------------------------------------------------------


def test_redaction_can_be_turned_off() -> None:
    """Then nothing is a secret."""
    off = Redactor(KEY, RedactionRules.off())
    tree = {"password": "hunter2"}

    assert off.redact(tree) is tree
    assert off.is_clean(dumps(tree))
    assert not off.secret_key("password")
    assert off.redact_text(OPENAI) == OPENAI
    assert off.describe() == {"enabled": False}


def test_users_add_keys_and_patterns_and_allow_keys() -> None:
    """Additions work in trees and texts, with the fast way kept where needles are given."""
    rules = RedactionRules(
        keys=("patient name", "пароль"),
        patterns=(SecretPattern("acme-key", r"acme_[a-z0-9]{8,}", needles=("acme_",)),),
        allowed_keys=("token",),
    )
    redactor = Redactor(KEY, rules)

    text = "use acme_12345678, patient_name=Bob1"
    out = redactor.redact({"patientName": "Bob", "пароль": "x", "token": "free", "text": text})

    assert {key: TOKEN.findall(value) for key, value in out.items()} == {
        "patientName": ["patient-name"],
        "пароль": ["custom"],
        "token": [],
        "text": ["acme-key", "patient-name"],
    }
    assert redactor.redact(out) is out
    assert redactor.is_clean(b'{"a":"nothing here","token":null}')
    for tree in ({"patientName": "Bob"}, {"пароль": "x"}, ["acme_1"]):
        assert not redactor.is_clean(dumps(tree))


def test_keys_can_be_asked_about() -> None:
    """What stands under them is secret, or not."""
    assert [REDACTOR.secret_key(key) for key in ("DB_PASSWORD", "X-Auth-Token", "max_tokens", "token_count", "")] == [
        *(True, True),
        *(False, False, False),
    ]


def test_no_automaton_is_too_large_to_be_fast() -> None:
    """With more than about 60 needles a search takes ten times as long."""
    sizes = [len(numbers) for _, numbers in Needles((NEEDLES, secret_patterns.NEEDLES)).automata]

    assert max(sizes) <= 56
    assert sum(sizes) == len(NEEDLES) + len(secret_patterns.NEEDLES)
    assert min(len(needle.encode()) for needle in (*NEEDLES, *secret_patterns.NEEDLES)) == 3


def test_only_the_group_called_secret_is_replaced() -> None:
    """A pattern may say what must stand around a secret."""
    redactor = Redactor(KEY, RedactionRules(patterns=(SecretPattern("badge", r"badge (?P<secret>\d+)"),)))

    assert redactor.redact_text("badge 12345") == "badge [redacted:badge:7c31bca0bf1101e1]"
    assert not redactor.is_clean(b"[]"), "without needles everything must be looked at"


def test_own_patterns_never_touch_tokens() -> None:
    """A pattern that would match a digest does not make tokens of tokens."""
    redactor = Redactor(KEY, RedactionRules(patterns=(SecretPattern("hex", r"[0-9a-f]{8,}"),)))

    out = redactor.redact_text(f"deadbeef {FOREIGN} password=hunter2")

    assert TOKEN.findall(out) == ["hex", "password", "password"]
    assert redactor.redact_text(out) == out


@pytest.mark.parametrize(
    "regex", [r"(a+)+$", r"(a|aa)+$", r"(a{1,80}){1,80}$", r"[a-z]+(?:-[a-z]+)*", r"a*", r"(", r"(?:x|y*)"]
)
def test_patterns_that_could_hang_or_match_nothing_are_refused(regex: str) -> None:
    """A hostile text must not be able to stop an agent."""
    with pytest.raises(UsageError):
        SecretPattern("x", regex)


@pytest.mark.parametrize("regex", [r"[a-z]+(?:-[a-z]+)*+x", r"x(?:-[0-9a-f]{4})+", r"(?:foo|bar)_[a-z0-9]+"])
def test_patterns_that_cannot_hang_are_taken(regex: str) -> None:
    """Possessive repeats, fixed ones and alternatives outside of repeats are fine."""
    assert SecretPattern("x", regex).regex == regex


def test_long_matches_of_own_patterns_are_replaced_in_pieces() -> None:
    """A search sees a window only, and still leaves nothing."""
    redactor = Redactor(KEY, RedactionRules(patterns=(SecretPattern("hex", r"[0-9a-f]{16,}"),)))

    out = redactor.redact_text("x" * 3000 + "0a" * 3000)

    assert TOKEN.sub("", out) == "x" * 3000


@pytest.mark.parametrize(
    "make",
    [
        lambda: Redactor(b""),
        lambda: SecretPattern("No Name", "x"),
        lambda: SecretPattern("x", "x", needles=("",)),
        lambda: RedactionRules(keys="password"),  # type: ignore[arg-type]  # the mistake that is tested
        lambda: RedactionRules(patterns=("x",)),  # type: ignore[arg-type]  # likewise
    ],
)
def test_rules_that_cannot_be_meant_are_refused(make: Any) -> None:
    """At once, not when the first secret comes."""
    with pytest.raises(UsageError):
        make()


def test_the_description_of_the_rules_is_plain_and_holds_no_key() -> None:
    """It is part of each run, and redacting it changes nothing."""
    rules = RedactionRules(keys=("ssn",), patterns=(SecretPattern("acme", "acme_[0-9]{4}"),), allowed_keys=("token",))
    description = Redactor(KEY, rules).describe()

    assert description["enabled"] is True
    assert description["version"] == 1
    assert description["own_names"] == ["ssn"]
    assert description["own_looks"] == [["acme", "acme_[0-9]{4}", []]]
    assert description["allowed_names"] == ["token"]
    assert redact(description) is description
    assert b"kkkk" not in dumps(description)


def stored(value: Any) -> Any:
    return encode(value).stored


# -- laws --------------------------------------------------------------------------------------------------------------

SECRETS = (
    OPENAI,
    "gh" + "p_" + "b" * 36,
    "AKIA" + "C" * 16,
    "eyJ" + "d" * 20 + ".eyJ" + "e" * 20 + "." + "f" * 30,
    "xoxb" + "-1234567890-abcdef",
    "123456789" + ":AA" + "g" * 33,
    "-----BEGIN " + "PRIVATE KEY-----\nMIIE\n-----END " + "PRIVATE KEY-----",
)
NAMES = (
    *("password", "api_key", "apiKey", "Authorization", "Cookie", "secret", "DB_PASSWORD", "X-Auth-Token", "token"),
    *("max_tokens", "tokens", "author", "page_token", "name", "key", "value", "path", "op", "logprob", "--token"),
    *("pass", "pin", "my_tokens", "Passwort", "пароль", "密码", "curl", "-u", "mysql", "-p", "user"),
)
PIECES = (
    *SECRETS,
    *NAMES,
    *["=", ":", ",", "/", "@", "(", ")", "?", "&", "<", ">", "[", "]", "{", "}", '"', "'", "\\", "1"],
    *(": ", " ", "\n", "\t", '\\"', '\\\\\\"', "://", "\\n", "\\u0041", "\\/", "é", "😀", "\x00", "\u2028", "--", "</"),
    *("Bearer ", "Basic dXNlcjpwYXNz", "hunter2x", "the", FOREIGN, "[redacted:", "next_", "-----END"),
    *("-----BEGIN " + "PRIVATE KEY-----",),
    *("curl -u bob:", "mysql -p", " -p ", "--user ", "password is ", "PIN: 4821", "4821", "bob:", " is ", "hunter22x1"),
)
texts = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)
keys = st.one_of(st.sampled_from(NAMES), texts)
numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
leaves = st.one_of(st.none(), st.booleans(), numbers, texts)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    pairs = st.lists(st.tuples(keys, inner).map(list), max_size=3)
    pointer = st.lists(keys, min_size=1, max_size=3).map(lambda parts: "".join(f"/{part}" for part in parts))
    return st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4),
        pairs,
        inner.map(json.dumps),
        inner.map(lambda value: dumps(value).decode()),
        st.fixed_dictionaries({"name": keys, "value": inner}),
        st.fixed_dictionaries({"op": st.just("add"), "path": pointer, "value": inner}),
        pairs.map(lambda items: stored({1: 1, **dict(items)})),
        inner.map(lambda value: stored((value, 1))),
        texts.map(lambda text: stored(text.encode())),
        st.fixed_dictionaries({"token": inner, "logprob": st.just(-0.5)}),
    )


trees = st.recursive(leaves, _containers, max_leaves=12)


@settings(max_examples=400, deadline=None)
@given(trees)
def test_redacting_any_tree_twice_shares_all_and_is_clean_never_lies(tree: Any) -> None:
    """Idempotence; the same object when nothing changed; a clean body is one that redacting leaves alone."""
    redact(tree)


@settings(max_examples=200, deadline=None)
@given(trees)
def test_structure_is_kept(tree: Any) -> None:
    """The same keys in the same order and the same lengths; only texts and numbers become other texts."""
    assert _shape(redact(tree)) == _shape(tree)


def _shape(value: Any) -> Any:
    if type(value) is dict and value.get("$type") == "bytes":
        return "a text"
    if type(value) is dict:
        return [_shape(item) for item in value.values()]
    if type(value) is list:
        return tuple(_shape(item) for item in value)
    return value if value is None or type(value) is bool else "a text"


def _framed(frame: str) -> Callable[[Any], Any]:
    return lambda value: frame.format(value) if type(value) is str else [value]


def _under(key: str) -> Callable[[Any], Any]:
    return lambda value: {key: value, "x": 1}


FRAMES = ("{}", "see {} there", "x={}&y=1", '"{}"', "\n{}\n", "{},", "é{}é", "https://h.example/?q={}")
WRAPPINGS: tuple[Callable[[Any], Any], ...] = (
    lambda value: {value: 1} if type(value) is str else {"a": value},
    lambda value: [1, value, "z"],
    json.dumps,
    lambda value: dumps(value).decode(),
    lambda value: stored((value, {1: value})),
    lambda value: {"op": "add", "path": "/a/b", "value": value},
    *map(_framed, FRAMES),
    *map(_under, ("a", "b", "value", "password", "max_tokens")),
)
"""Ways to put a tree into a tree, such that a secret in it is to be found."""


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(SECRETS), st.lists(st.sampled_from(WRAPPINGS), max_size=5), st.booleans())
def test_no_planted_secret_is_left(secret: str, ways: list[Callable[[Any], Any]], as_bytes: bool) -> None:
    """Whatever it is wrapped in: texts, keys, JSON in JSON, tuples, bytes."""
    tree: Any = secret
    for way in ways:
        tree = way(tree)
    if as_bytes:
        tree = [stored(dumps(tree))]

    out = dumps(redact(tree)).decode()

    assert not REDACTOR.is_clean(dumps(tree))
    assert secret.split("\n")[0] not in out
    assert secret.split("\n")[-1] not in out
    assert not as_bytes or "base64" not in out


@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30))
def test_different_secrets_have_different_tokens(one: str, other: str) -> None:
    """And equal ones equal tokens."""
    assert (secret_in(one) == secret_in(other)) == (one == other)


@given(st.text(max_size=40))
def test_any_text_under_a_secret_key_is_gone(value: str) -> None:
    """All but the empty text becomes a token."""
    assert secret_in(value) == value == "" or is_token(secret_in(value))


@pytest.mark.parametrize(
    "name",
    [
        "postgres://bob:w4u-and-2@db.example/5432",
        "https://discord.com/api/webhooks/123456789/aBcDeFgHiJkLmNoPqRsTuVwX",
        "ticket/T-4711",
        "~ticket/T-4711",
    ],
)
def test_a_secret_whose_slashes_are_escaped_in_a_path_is_not_overlooked(name: str) -> None:
    """The quick look at an event sees the path of a JSON Patch as it is written, and must not take it for clean."""
    rules = RedactionRules(patterns=(SecretPattern("ticket", r"ticket/T-[0-9]{4}", needles=("ticket/",)),))
    redactor = Redactor(b"k" * 32, rules)
    escaped = name.replace("~", "~0").replace("/", "~1")
    patch = [{"op": "add", "path": f"/seen/{escaped}", "value": 1}]
    assert not redactor.is_clean(dumps(patch))
    assert "[redacted:" in redactor.redact(patch)[0]["path"]
