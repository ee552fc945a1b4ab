"""What stands around a secret does not change its token, so a replay with tokens in the place of secrets finds it."""

from __future__ import annotations

import json
from pathlib import Path

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.redaction import RedactionRules, Redactor, SecretPattern, tokens_match, without_digests
from hypothesis import given
from hypothesis import strategies as st
from test_secret_text import LOOKS

KEY = b"k" * 32
CONTEXTS = (
    "Bearer {}",
    "bearer {}",
    "the header is Bearer {} today",
    "Authorization: Bearer {}",
    "Authorization: token {}",
    "X-API-Key: {}",
    "api_key={}",
    "?access_token={}&page=2",
    "password: {}\nuser: bob",
    '{{"token": "{}", "n": 1}}',
    '{{"headers": {{"Authorization": "Bearer {}"}}}}',
    "https://bob:{}@host.example/a",
    "export DB_PASSWORD={}",
    "login --password '{}'",
)
WORDS = {kind: secret for kind, secret in LOOKS.items() if secret.replace("-", "").replace("_", "").isalnum()}
"""Secrets that stand in all these places as one word, without signs that would be escaped there."""

OPAQUE = "q7Zk4Tn9Wv2Xs8Lp3Rd6"
"""Nothing of it looks like a secret; it is one once it was under a secret name."""

secrets = st.sampled_from(sorted(WORDS.values()))
contexts = st.sampled_from(CONTEXTS)


def token_of(secret: str) -> str:
    """The token of a secret that stands alone."""
    return Redactor(KEY).redact_text(secret)


@given(secret=secrets, context=contexts)
def test_what_looks_like_a_secret_has_one_token_in_all_contexts(secret: str, context: str) -> None:
    """By itself, behind Bearer, in a header, a URL, a line of the environment or JSON in a text."""
    token = token_of(secret)
    assert token.startswith("[redacted:")
    assert token.endswith("]")
    assert Redactor(KEY).redact_text(context.format(secret)) == context.format(token)


@given(first=contexts, then=contexts)
def test_what_is_remembered_as_a_secret_has_one_token_in_all_contexts(first: str, then: str) -> None:
    """The kind is that with which it was met first, wherever it stands afterwards."""
    redactor = Redactor(KEY)
    token = redactor.redact({"token": OPAQUE})["token"]  # type: ignore[index,call-overload]
    assert token.startswith("[redacted:token:")  # type: ignore[union-attr]
    for context in (first, then):
        assert redactor.redact_text(context.format(OPAQUE)) == context.format(token)
    assert redactor.redact({"Authorization": f"Bearer {OPAQUE}"}) == {"Authorization": f"Bearer {token}"}
    assert redactor.redact({"password": OPAQUE}) == {"password": token}


@given(secret=secrets, context=contexts)
def test_redacting_and_putting_in_a_context_go_in_any_order(secret: str, context: str) -> None:
    """In a replay the code puts the token where it had put the secret; the text is the recorded one."""
    redactor = Redactor(KEY)
    token = redactor.redact_text(secret)
    assert redactor.redact_text(context.format(secret)) == redactor.redact_text(context.format(token))


def test_secrets_of_rules_of_the_users_own_have_one_token_too() -> None:
    """An own pattern says what a secret is, as the built-in ones do."""
    rules = RedactionRules(patterns=(SecretPattern("badge", r"badge[0-9a-z]{12,}"),))
    secret = "badge0123456789abcdefg"
    token = Redactor(KEY, rules).redact_text(secret)
    assert token.startswith("[redacted:badge:")
    for context in CONTEXTS:
        assert Redactor(KEY, rules).redact_text(context.format(secret)) == context.format(token)


def test_a_longer_secret_is_still_replaced_as_a_whole() -> None:
    """Behind Bearer stands more than what looks like a key: nothing of it is left."""
    secret = LOOKS["github-token"] + ".and/more+1234"
    assert secret[-6:] not in Redactor(KEY).redact_text(f"Bearer {secret}")


def test_recordings_from_before_match_by_the_kind_of_the_place() -> None:
    """They have `bearer-token` behind Bearer and `url-password` in URLs, whatever the secret looks like."""
    old, new = "0" * 16, "1" * 16
    for text, kind in (("Bearer {}", "bearer-token"), ("see https://a:{}@b/c", "url-password")):
        before = text.format(f"[redacted:{kind}:{old}]")
        after = text.format(f"[redacted:openai-key:{new}]")
        assert tokens_match(before, after)
        assert without_digests({"a": before}) == without_digests({"a": after})
        assert not tokens_match(before, after, same_store=True)
    assert not tokens_match(f"[redacted:jwt:{old}]", f"[redacted:openai-key:{new}]")


@pytest.mark.parametrize("secret", [LOOKS["github-token"], OPAQUE])
@pytest.mark.parametrize("name", ["X-Note", "Authorization", "api_key"])
def test_code_that_puts_a_secret_into_a_text_replays_from_a_cassette(secret: str, name: str, tmp_path: Path) -> None:
    """A token that a tool gave is passed on behind Bearer, under a name that says nothing, or another secret one."""

    @ar.tool(safety="pure")
    def login() -> dict[str, str]:
        return {"token": secret}

    @ar.tool(safety="pure")
    def get(headers: dict[str, str], body: str) -> str:
        return "ok"

    @ar.agent("caller")
    def step(round_index: int, context: ar.Context) -> ar.Complete[str]:
        token = login()["token"]
        get({name: "Bearer " + token}, json.dumps({"key": token, "url": f"https://me:{token}@host.example/"}))
        return ar.Complete(get({name: token}, f"api_key={token}"))

    store = MemoryStore()
    run = step.run({}, store=store).run
    path = ar.export_run(run.id, tmp_path / "caller.jsonl", store=store)
    assert secret not in path.read_text()
    assert ar.assert_replays(path, step).verdict == "identical"
