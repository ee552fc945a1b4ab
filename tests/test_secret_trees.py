"""Secrets in trees: under secret keys, in other forms of key and value, in keys, and inside tags."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from agentreplay.recorder.redaction import RedactionRules, Redactor, find_tokens, is_token
from agentreplay.recorder.values import decode, dumps, encode
from pydantic import BaseModel

REDACTOR = Redactor(b"k" * 32)
HUNTER2 = "[redacted:password:f6c2ff60161a7959]"
OPENAI = "sk-" + "a" * 40
OPENAI_TOKEN = "[redacted:openai-key:2b65ba68cf325dae]"


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


# -- under secret keys -------------------------------------------------------------------------------------------------


def test_a_secret_is_replaced_by_its_token() -> None:
    """The token is the kind, and a keyed digest of the secret."""
    assert redact({"user": "bob", "password": "hunter2"}) == {"user": "bob", "password": HUNTER2}


def test_under_a_secret_key_structure_null_booleans_and_empty_texts_stay() -> None:
    """So a merge over redacted data does what it does over the original."""
    out = redact({"credentials": {"user": "u", "on": True, "none": None, "": "", "list": [], "n": [1.5, {}]}})

    assert out["credentials"] == {
        "user": "[redacted:credentials:127288cdb1c16b09]",
        "on": True,
        "none": None,
        "": "",
        "list": [],
        "n": ["[redacted:credentials:99f0025fb844797f]", {}],
    }


def test_a_number_has_the_token_of_its_digits() -> None:
    """12345 and "12345" are one secret."""
    assert secret_in(12345) == secret_in("12345")


def test_the_scheme_of_an_authorization_stays() -> None:
    """Only the credentials are secret, and they have the token they have elsewhere."""
    out = redact({"Authorization": f"Bearer {OPENAI}", "note": OPENAI})

    assert out == {"Authorization": f"Bearer {OPENAI_TOKEN}", "note": OPENAI_TOKEN}


def test_counts_and_cursors_stay() -> None:
    """What each answer of a model holds is no secret, and is seen to be none at once."""
    answer = {
        "max_tokens": 512,
        "usage": {"input_tokens": 7, "total_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}},
        "next_page_token": "abc",
        "tokens": ["a", "b"],
    }

    assert redact(answer) is answer
    assert REDACTOR.is_clean(dumps({**answer, "next_page_token": None}))


def test_the_words_of_log_probabilities_are_no_secrets() -> None:
    """There "token" is a word that the model said."""
    words = {"content": [{"token": "Hi", "logprob": -0.1, "top_logprobs": [{"token": "Ho", "logprob": -3.5}]}]}

    assert redact(words) is words


def test_a_parameter_that_is_described_is_no_secret() -> None:
    """A tool's JSON Schema may have a parameter `password`; what it gives as a value is one."""
    schema = {
        "type": "object",
        "properties": {"password": {"type": "string", "description": "of the user"}, "token": {"$ref": "#/t"}},
        "required": ["password", "token"],
    }

    assert redact(schema) is schema
    assert redact({"password": {"type": "string", "default": "hunter2"}}) == {
        "password": {"type": "string", "default": HUNTER2}
    }
    assert secret_in({"type": "string", "value": "hunter2"}) != {"type": "string", "value": "hunter2"}


@pytest.mark.parametrize(
    "tree",
    [
        [["Password", "hunter2"], ["Host", "h"]],
        {"name": "DB_PASSWORD", "value": "hunter2"},
        {"key": "password", "value": ["hunter2"]},
        {"source": "PASSWORD", "site": "a.py:1", "value": "hunter2"},
        ["--password", "hunter2", "x"],
        {"op": "add", "path": "/user/password", "value": "hunter2"},
        {"op": "add", "path": "/password/0/a", "value": "hunter2"},
        [{"op": "test", "path": "/a", "value": {"password": "hunter2"}}],
        {"updateElements": {"user": {"password": "hunter2"}}},
    ],
)
def test_pairs_records_options_and_patches_are_keys_and_values_too(tree: Any) -> None:
    """Headers, environment variables, arguments and JSON Patch operations name their secrets in other ways."""
    assert dumps(redact(tree)) == dumps(tree).replace(b"hunter2", HUNTER2.encode())


@pytest.mark.parametrize(
    "tree",
    [
        {"pass": "{}"},
        {"user": "bob", "Pass": "{}", "port": 22},
        {"parola": "{}"},
        {"tokens": {"a": "{}", "n": 3}},
        {"userTokens": ["{}", {"b": ["{}"]}]},
        {"tokens": "{}"},
        ["password", "{}"],
        ["curl", "-s", "-u", "bob:{}", "https://example.com"],
        ["/usr/bin/curl", "--user=bob:{}"],
        ["mysql", "-uroot", "-p{}", "db"],
        ["sshpass", "-p", "{}", "ssh", "host"],
        ["docker", "login", "-u", "bob", "-p", "{}"],
        ["redis-cli", "-a", "{}"],
        {"Passwort": "{}", "contraseña": "{}", "пароль": "{}", "密码": "{}", "パスワード": "{}"},
    ],
)
def test_doubtful_names_hold_a_secret_if_it_looks_like_one(tree: Any) -> None:
    """Under `pass` and `tokens`, in a list of two, as an argument of a command, in other languages."""
    for text in (json.dumps(tree), dumps(tree).decode()):
        filled = json.loads(text.replace("{}", "hunter22x1"))
        nested = text.replace("{}", "hunter22x1")
        for value in (filled, nested, {"x": [nested]}, json.dumps({"x": nested})):
            out = json.dumps(Redactor(b"k" * 32).redact(value), ensure_ascii=False)
            assert not Redactor(b"k" * 32).is_clean(dumps(value))
            assert "hunter22x1" not in out
            assert out.count("[redacted:") == text.count("{}")


@pytest.mark.parametrize(
    "value",
    [
        {"pass": 12, "fail": 3},
        {"pass": "yes", "compass": "north-1", "parola": "casa"},
        {"pass": True, "pin": 13, "spin": 1234, "pins": [1234]},
        {"pin": "GPIO17"},
        {"pin": "5f0c9a1be3"},
        {"pin": "PA10"},
        {"pin": "51.5074,-0.1278"},
        {"otp": 3},
        {"otp": True, "totp": "required", "laptop": "482135"},
        {"tokens": 12},
        {"tokens": {"input": 3, "output": 4, "model": "gpt"}},
        {"tokens": ["The", "quick", "brown", "internationalization"]},
        {"input_tokens": {"a": "hunter22x1"}},
        ["password", "email"],
        ["password", "password2"],
        ["token", "count"],
        ["ls", "-a", "hunter22x1"],
        ["docker", "run", "-p", "8080:80", "--user", "1000:1000"],
    ],
)
def test_what_a_doubtful_name_counts_or_names_stays(value: Any) -> None:
    """Numbers, words, lists of names, options of other programs."""
    assert redact(value) is value
    assert redact([json.dumps(value)]) == [json.dumps(value)]


@pytest.mark.parametrize("value", [482135, "482135", "482 135", "Zq993021", "Zq4711"])
@pytest.mark.parametrize("key", ["otp", "userOtp", "OTP", "totp"])
def test_a_password_for_one_time_is_digits_or_letters_with_digits(key: str, value: Any) -> None:
    """As it is shown, with letters, as a number."""
    assert redact({key: value})[key].startswith("[redacted:otp:")
    assert not REDACTOR.is_clean(dumps({key: value}))


@pytest.mark.parametrize("value", [4821, "4821", "48215678", "Zq4711"])
def test_a_pin_has_four_to_eight_digits(value: Any) -> None:
    """As a text and as a number; a chip has fewer pins."""
    assert redact({"cardPin": value})["cardPin"].startswith("[redacted:pin:")
    assert not REDACTOR.is_clean(dumps({"pin": value}))


def test_an_allowed_name_is_never_in_doubt() -> None:
    """What the user says is none is none, also of these names and in any script."""
    allowing = Redactor(b"k" * 32, RedactionRules(allowed_keys=("pass", "tokens", "pin", "пароль")))
    tree = {"pass": "hunter22x1", "tokens": ["hunter22x1"], "pin": 4821, "Пароль": "hunter22x1"}

    assert allowing.redact(tree) is tree


@pytest.mark.parametrize("value", [["password", "email"], {"name": "password", "type": "string"}, {"value": "x"}])
def test_lists_of_names_are_no_pairs(value: Any) -> None:
    """Two texts in a list are a pair only in a list of pairs."""
    assert redact(value) is value


def test_secrets_in_the_path_of_a_patch_are_replaced_as_they_are_in_keys() -> None:
    """So the path still leads to the key that the state has."""
    url = "https://bob:hunter2@host/x"
    (key,) = redact({url: 1})

    out = redact({"op": "remove", "path": "/a/" + url.replace("/", "~1") + "/" + OPENAI, "from": f"/{OPENAI}"})

    assert out["path"] == "/a/" + key.replace("/", "~1") + "/" + OPENAI_TOKEN
    assert out["from"] == "/" + OPENAI_TOKEN


def test_the_path_of_a_part_counts_as_its_keys() -> None:
    """A value that is recorded apart from its tree is redacted as in it."""
    assert REDACTOR.redact("hunter2", ("user", "password")) == HUNTER2
    assert REDACTOR.redact({"a": ["hunter2"]}, ("password", 0)) == {"a": [HUNTER2]}
    assert REDACTOR.redact("hunter2", ("user", "name")) == "hunter2"


# -- keys --------------------------------------------------------------------------------------------------------------


def test_keys_that_are_secrets_are_replaced() -> None:
    """A key is a text as any other."""
    assert redact({OPENAI: 1, "b": {f"of {OPENAI}": 2}}) == {OPENAI_TOKEN: 1, "b": {f"of {OPENAI_TOKEN}": 2}}
    assert REDACTOR.redact_key(OPENAI) == OPENAI_TOKEN


def test_no_entry_is_lost_when_two_keys_become_one() -> None:
    """The token may already be a key."""
    assert redact({OPENAI_TOKEN: 1, OPENAI: 2}) == {OPENAI_TOKEN: 1, f"{OPENAI_TOKEN}#2": 2}


# -- tags --------------------------------------------------------------------------------------------------------------


@dataclass
class Config:
    password: str
    retries: int


class Login(BaseModel):
    password: str
    retries: int = 3


class LoginFailed(Exception):
    pass


def stored(value: Any) -> Any:
    return encode(value).stored


def test_fields_of_instances_are_keys() -> None:
    """Dataclasses, models and exceptions are looked into; their classes and the names of their fields stay."""
    failed = LoginFailed(f"bad key {OPENAI}")
    failed.password = "hunter2"  # type: ignore[attr-defined]  # exceptions take any attribute

    assert redact(stored(Config("hunter2", 3)))["fields"] == {"password": HUNTER2, "retries": 3}
    assert redact(stored(Login(password="hunter2"))) == {
        "$type": "model",
        "class": "test_secret_trees:Login",
        "fields": {"password": HUNTER2, "retries": 3},
        "fields_set": ["password"],
    }
    assert redact(stored(failed)) == {
        "$type": "exception",
        "class": "test_secret_trees:LoginFailed",
        "args": [f"bad key {OPENAI_TOKEN}"],
        "state": {"password": HUNTER2},
    }


@pytest.mark.parametrize(
    ("value", "out"),
    [
        ({1: "x", "password": "hunter2"}, [[1, "x"], ["password", HUNTER2]]),
        (OrderedDict(password="hunter2"), [["password", HUNTER2]]),
        ({b"password": "hunter2"}, [[{"$type": "bytes", "base64": "cGFzc3dvcmQ="}, HUNTER2]]),
        (("hunter2", OPENAI), ["hunter2", OPENAI_TOKEN]),
    ],
)
def test_items_of_tagged_containers_are_looked_into(value: Any, out: Any) -> None:
    """Pairs count as key and value, and items as items."""
    assert redact(stored(value))["items"] == out


def test_headers_as_tuples_of_bytes_are_pairs() -> None:
    """As HTTP libraries give them."""
    out = redact(stored([(b"password", b"hunter2"), (b"host", b"h")]))

    assert out[0]["items"][1] == HUNTER2
    assert out[1] == stored((b"host", b"h"))


def test_counted_words_are_no_keys() -> None:
    """A Counter counts; its values are no secrets."""
    words = stored(Counter({"password": 3}))

    assert redact(words) is words


def test_bytes_with_a_secret_inside_become_a_token() -> None:
    """Whole, since the rest means little without it; other bytes stay."""
    assert redact(stored({"a": OPENAI.encode()})) == {"a": OPENAI_TOKEN}
    assert is_token(redact(stored([b"key: " + OPENAI.encode()]))[0])
    assert redact(picture := stored({"a": b"\x89PNG\r\n" + bytes(range(256))})) is picture


@pytest.mark.parametrize("value", [b"hunter2", bytearray(b"hunter2"), Decimal("1.5"), 2**80, {"a": (1, {"b"})}])
def test_tagged_values_under_a_secret_key_are_secrets(value: Any) -> None:
    """What is one value becomes a token; containers keep their structure."""
    out = redact(stored({"password": value}))

    assert decode(out).keys() == {"password"}
    assert find_tokens(out)
    assert "hunter2" not in str(out)


def test_bytes_and_text_of_one_secret_have_one_token() -> None:
    """In whatever form a secret is kept."""
    assert redact(stored({"password": b"hunter2"})) == {"password": HUNTER2}


def test_parts_of_deep_values_are_redacted_where_they_belong() -> None:
    """A value in pieces is redacted as in one piece: what a piece stands under counts."""
    secret: Any = "hunter2"
    harmless: Any = "hunter2"
    for _ in range(250):
        secret, harmless = [secret], {"a": harmless}

    out = decode(redact(stored({"password": secret, "other": harmless})))

    found = out["password"]
    while type(found) is list:
        (found,) = found
    assert found == HUNTER2
    found = out["other"]
    while type(found) is dict:
        found = found["a"]
    assert found == "hunter2"


def test_what_pretends_to_be_a_tag_hides_nothing() -> None:
    """Trees from elsewhere may hold anything under "$type"."""
    out = redact({"$type": "App.Login, App", "password": "hunter2", "x": {"$type": ["odd"], "password": "hunter2"}})

    assert out == {"$type": "App.Login, App", "password": HUNTER2, "x": {"$type": ["odd"], "password": HUNTER2}}


# -- sharing -----------------------------------------------------------------------------------------------------------


def test_unchanged_parts_are_shared() -> None:
    """Only the containers on the way to a secret are copied."""
    tree = {"a": {"b": [1, 2]}, "c": {"password": "hunter2", "d": {"e": 1}}}

    out = redact(tree)

    assert out["a"] is tree["a"]
    assert out["c"]["d"] is tree["c"]["d"]


def test_depth_costs_no_stack() -> None:
    """Ten thousand levels are as good as ten."""
    tree: Any = {"password": "hunter2"}
    for _ in range(5000):
        tree = {"a": [tree]}

    out = REDACTOR.redact(tree)
    for _ in range(5000):
        out = out["a"][0]

    assert out == {"password": HUNTER2}
