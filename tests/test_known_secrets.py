"""Secrets that were seen once are replaced wherever they come up again."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from agentreplay.recorder.known_secrets import MOST, KnownSecrets, is_telling
from agentreplay.recorder.redaction import RedactionRules, Redactor, SecretPattern, is_token
from agentreplay.recorder.values import decode, dumps, encode
from hypothesis import given, settings
from hypothesis import strategies as st

KEY = b"k" * 32
SECRET = "tok-7f3a9c-blue"


def knowing(*trees: Any) -> Redactor:
    redactor = Redactor(KEY)
    for tree in trees:
        redactor.redact(tree)
    return redactor


def token_of(secret: Any) -> str:
    found: str = Redactor(KEY).redact({"token": secret})["token"]
    return found


# -- where they are found again ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tree",
    [
        {"echo": SECRET},
        {"note": f"the value is {SECRET}."},
        {SECRET: 1},
        [f"https://host.example/{SECRET}/x"],
        [json.dumps({"echo": SECRET})],
        encode((SECRET, SECRET.encode(), {1: SECRET})).stored,
        [{"op": "add", "path": f"/notes/{SECRET}", "value": 1}],
    ],
)
def test_a_secret_is_replaced_wherever_it_comes_up_again(tree: Any) -> None:
    """In texts, keys, bytes, JSON in a text; not before it was known."""
    redactor = knowing()
    assert redactor.is_clean(dumps(tree)) or b"bytes" in dumps(tree)
    assert redactor.redact(tree) is tree

    redactor.redact({"token": SECRET})
    out = redactor.redact(tree)

    assert not redactor.is_clean(dumps(tree))
    assert SECRET not in dumps(out).decode()
    assert token_of(SECRET)[-18:] in dumps(out).decode()
    assert redactor.redact(out) is out


def test_the_token_is_the_one_that_stands_under_the_key() -> None:
    """One secret, one token, so what was recorded fits what comes later."""
    assert knowing({"token": SECRET}).redact({"echo": SECRET}) == {"echo": token_of(SECRET)}


def test_order_within_a_tree_makes_no_difference() -> None:
    """What the last entry tells of is replaced in the first one too."""
    tree = {"note": f"it is {SECRET}", "inner": [json.dumps([SECRET])], "token": SECRET}

    out = knowing().redact(tree)

    assert out == {
        "note": f"it is {token_of(SECRET)}",
        "inner": [json.dumps([token_of(SECRET)])],
        "token": token_of(SECRET),
    }


def test_order_within_a_text_makes_no_difference() -> None:
    """A text alone, such as a key, is treated the same way."""
    out = knowing().redact_text(f"{SECRET} was rejected: api_key={SECRET}")

    assert SECRET not in out


ODD = (
    'pass"wo\\rd/1',
    "zwölf-Äpfel-7",
    "пароль-семь-8",
    "密码很长而且安全的七八",
    'a"b\\c"d/e!1',
    "p@ss/w0rd?&=",
    "\U0001f600" * 8 + "1",
)


def _in_json(text: str) -> str:
    return json.dumps({"echo": text})


def _as_other_parsers_write(text: str) -> str:
    return json.dumps(text).replace("/", "\\/").replace("&", "\\u0026")


FORMS: tuple[Callable[[str], str], ...] = (
    str,
    _in_json,
    lambda text: _in_json(_in_json(text)),
    lambda text: "log: " + json.dumps(text) + " end",
    lambda text: "log: " + json.dumps(json.dumps(text)) + " end",
    lambda text: "log: " + json.dumps(text, ensure_ascii=False) + " end",
    lambda text: "log: " + _as_other_parsers_write(text) + " end",
    lambda text: "https://h.example/?q=" + quote(text, safe=""),
)


@pytest.mark.parametrize("secret", [SECRET, *ODD])
@pytest.mark.parametrize("form", FORMS)
def test_escaping_does_not_hide_a_known_secret(secret: str, form: Callable[[str], str]) -> None:
    """JSON in JSON, a cut of it in a text that is no JSON, a URL."""
    redactor = knowing({"password": secret})

    out = redactor.redact({"text": form(secret)})

    assert not redactor.is_clean(dumps({"text": form(secret)}))
    assert token_of(secret)[-18:-1] in out["text"]


def test_numbers_and_dates_become_tokens_as_a_whole() -> None:
    """A value that cannot hold a token is replaced by one."""
    number, big = 4929123456789012, 492912345678901234567890
    redactor = knowing({"token": number}, {"token": str(big)})

    out = redactor.redact(encode([number, big, 12]).stored)

    assert out == [token_of(number), token_of(str(big)), 12]
    assert decode(out) == out


def test_what_a_pattern_or_an_assignment_found_is_known_too() -> None:
    """By looks, in a command, in a URL, in base64, by a user's own rule."""
    redactor = Redactor(KEY, RedactionRules(patterns=(SecretPattern("badge", r"badge (?P<secret>\w+)"),)))
    redactor.redact(
        [
            "export DB_PASSWORD=hunter22x1",
            "https://bob:s3cr3t%21x@host/",
            "Authorization: Basic Ym9iOnN3b3JkZjFzaA==",
            "badge swordfish99",
            {"Cookie": "sid=9f8e7d6c5b; theme=dark"},
        ]
    )

    for secret in ("hunter22x1", "s3cr3t%21x", "s3cr3t!x", "swordf1sh", "swordfish99", "9f8e7d6c5b"):
        assert redactor.redact_text(f"it was {secret}") != f"it was {secret}", secret
    assert redactor.redact_text("the theme is dark") == "the theme is dark"


def test_tokens_are_never_replaced_in_part() -> None:
    """A secret that is also the digest of a token leaves the token alone."""
    foreign = "[redacted:password:0123456789abcdef]"

    assert knowing({"token": "0123456789abcdef"}).redact([foreign, f"{foreign}!"]) == [foreign, f"{foreign}!"]


# -- what is remembered ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("hunter22", SECRET, "correct-horse-battery-staple", "supersecretvalue", "Password123!", "p@ssword"),
        *("sWoRdFiSh", "4929-1234-5678-9012", "my-super-secret-token"),
    ],
)
def test_what_is_hardly_there_by_chance_is_remembered(text: str) -> None:
    """A digit or a mix from 8 characters on, anything but a common word from 12 on."""
    assert is_telling(text, certain=True)


@pytest.mark.parametrize(
    "text",
    [
        *("hunter2", "password", "password1", "changeme123", "localhost", "localhost:8080", "swordfish", "Swordfish"),
        *("authorization", "authentication", "service_account", "same-origin", "DB_PASSWORD", "12345678", "1.2.3-beta"),
        *(
            "2026-11-30T12:00:00Z",
            "192.168.100.100",
            "bob@example.com",
            "https://example.com/oauth/token",
            "${API_KEY}",
        ),
        *("/run/secrets/db_password", "the treasure is under the tree", "0.123456789012345", "<your-key-here>"),
    ],
)
def test_what_may_be_anywhere_is_not_remembered(text: str) -> None:
    """Short texts, common words, and what says where, when or what."""
    assert not is_telling(text, certain=True)
    redactor = knowing({"password": text})
    assert redactor.redact(["see " + text]) == ["see " + text]


def test_what_stands_beside_a_secret_is_not_remembered() -> None:
    """All entries of credentials are replaced, but the user and the region come up elsewhere for good reasons."""
    credentials = {"user": "administrator-of-things", "region": "eu-central-1", "password": "horse-battery"}
    redactor = knowing({"credentials": credentials})

    assert redactor.redact(["eu-central-1", "administrator-of-things"]) == ["eu-central-1", "administrator-of-things"]
    assert is_token(redactor.redact(["horse-battery"])[0])


def test_the_memory_is_bounded_and_drops_the_oldest() -> None:
    """An endless run does not fill the memory."""
    known = KnownSecrets()
    for number in range(MOST + 10):
        known.learn("token", b"secret-number-%06d" % number)

    assert known.find(b"secret-number-001005") != []
    assert known.are_absent(b"secret-number-000003")
    assert not known.are_absent(b"x secret-number-000010 x")


def test_redaction_that_is_off_remembers_nothing() -> None:
    """Then everything is stored as it is."""
    off = Redactor(KEY, RedactionRules.off())
    off.redact({"token": SECRET})

    assert off.redact({"echo": SECRET}) == {"echo": SECRET}


def test_threads_learn_at_the_same_time() -> None:
    """Nothing that any of them learnt is missed by any of them."""
    redactor = Redactor(KEY)
    missed: list[str] = []

    def learn(thread: int) -> None:
        for number in range(60):
            secret = f"secret-{thread}-{number:04}"
            redactor.redact({"token": secret})
            if redactor.is_clean(dumps([secret])) or redactor.redact([secret]) == [secret]:
                missed.append(secret)

    threads = [threading.Thread(target=learn, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert missed == []
    for learner in range(4):
        for number in range(60):
            assert not redactor.is_clean(dumps([f"secret-{learner}-{number:04}"]))


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1, max_size=30), st.sampled_from(FORMS))
def test_what_is_telling_is_found_in_every_form(secret: str, form: Callable[[str], str]) -> None:
    """Any text that is remembered, in any of the ways that it may be written."""
    redactor = knowing({"password": secret})
    raw = dumps({"text": form(secret)})

    if is_telling(secret, certain=True):
        assert not redactor.is_clean(raw)
        assert redactor.redact({"text": form(secret)}) != {"text": form(secret)}
