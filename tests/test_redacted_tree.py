"""Redacting version after version gives what searching the whole of each version gives, and costs what changed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from agentreplay.recorder.hashes import SubtreeCache, comparison_hash
from agentreplay.recorder.redacted_tree import RedactedTree
from agentreplay.recorder.redaction import RedactionRules, Redactor, SecretPattern
from agentreplay.recorder.values import dumps
from hypothesis import given, settings
from hypothesis import strategies as st

TELLING = "tea-for-2-at-4-with-7-spoons"
LOOKS = "sk-proj-" + "A1b2C3d4" * 4
RULES = RedactionRules(patterns=(SecretPattern("badge", r"badge-[0-9]{4}", ("badge-",)),))

KEYS = (
    *("password", "token", "tokens", "access_tokens", "pass", "pin", "Cookie", "authorization", "api_key", "headers"),
    *("name", "value", "key", "header", "op", "path", "from", "user", "Login", "logprob", "type", "description"),
    *("default", "enum", "items", "properties", "a", "b", "credentials", f"by {LOOKS}", f"of {TELLING}", "badge-1234"),
)
TEXTS = (
    *(TELLING, LOOKS, f"the word is {TELLING}", f"{TELLING}-and-more-5", "password", "token", "Cookie", "a", "", "add"),
    *("--password", "--token", "curl", "-u", "bob:wine4you7", "mysql", "-pwine4you8", "redis-cli", "-a", "/password"),
    *("/a/token", "/a/b", "string", "wine4you9", "sid=wine4you10; b=c", "Basic Ym9iOndpbmU0eW91MTE=", "badge-1234"),
    *('{"password": "wine4you12"}', '{"echo": "wine4you12"}', "https://bob:wine4you13@example.com/", "hunter2"),
    *("password=wine4you14", "my password is wine4you15", "X7f9QpL2mZ81", "bob", "prose without anything in it"),
)
SCALARS = st.one_of(st.sampled_from(TEXTS), st.sampled_from([None, True, 0, 7, -3, 4821, 1.5, -0.0, 123456789012345]))


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    words = st.lists(st.sampled_from(TEXTS), max_size=7)
    return st.one_of(
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
        st.lists(inner, max_size=4),
        st.lists(st.tuples(st.sampled_from(KEYS), inner).map(list), max_size=4),
        words,
        st.fixed_dictionaries({"name": st.sampled_from(TEXTS), "value": inner}),
        st.fixed_dictionaries({"op": st.just("add"), "path": st.sampled_from(TEXTS), "value": inner}),
        st.fixed_dictionaries({"type": st.just("string"), "default": inner}),
        st.lists(st.tuples(inner, inner).map(list), max_size=3).map(lambda items: {"$type": "dict", "items": items}),
        st.lists(inner, max_size=3).map(lambda items: {"$type": "tuple", "items": items}),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"$type": "deep", "parts": parts}),
        st.sampled_from([{"$type": "bytes", "base64": "d2luZTR5b3UxNg=="}, {"$type": "part", "index": 1}]),
    )


TREES = st.recursive(SCALARS, _containers, max_leaves=12)
WIDE = st.builds(lambda tree, rows: [*({"n": n, "item": tree} for n in range(rows)), tree], TREES, st.just(70))
STARTS = st.one_of(TREES, TREES, WIDE, WIDE.map(lambda wide: {"password": wide, "a": wide}))
EDITS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 50), max_size=4),
        st.sampled_from(["set", "set", "set", "put in", "add", "drop", "front", "move", "reverse", "rename", "fresh"]),
        st.integers(0, 50),
        st.one_of(SCALARS, TREES),
    ),
    min_size=1,
    max_size=6,
)
LEARNT = st.dictionaries(st.integers(0, 5), st.sampled_from(TEXTS), max_size=1)
"""Secrets that others learn, by the version before which they do."""


def edited(tree: Any, path: list[int], edit: str, number: int, value: Any, root: Any) -> Any:
    """The next version of a tree, sharing what did not change: an edit somewhere in it, as deep as the path goes."""
    if type(tree) not in (dict, list) or not tree or (type(tree) is dict and "$type" in tree and not path):
        return value
    keys = [key for key in tree if key != "$type"] if type(tree) is dict else list(range(len(tree)))
    at = keys[(path[0] if path else number) % len(keys)]
    out = tree.copy()
    if path:
        out[at] = edited(tree[at], path[1:], edit, number, value, root)
    elif edit == "move":
        out[at] = root
    elif edit == "fresh":
        return [*value, *tree] if type(tree) is list and type(value) is list else value
    elif edit in ("set", "put in"):
        out[at] = value if edit == "set" else [tree[at], value]
    elif edit == "drop":
        del out[at]
    elif edit == "reverse":
        return dict(reversed(tree.items())) if type(tree) is dict else tree[::-1]
    elif type(tree) is list:
        out.insert(0 if edit == "front" else len(tree), value)
    elif edit == "rename":
        return {KEYS[number % len(KEYS)] if key == at else key: item for key, item in tree.items()}
    else:
        new = {KEYS[number % len(KEYS)]: value}
        return {**new, **tree} if edit == "front" else {**tree, **new}
    return out


def some_part(tree: Any, path: list[int]) -> Any:
    """A part of a tree, some way down."""
    for number in path:
        if type(tree) not in (dict, list) or not tree:
            break
        tree = (list(tree.values()) if type(tree) is dict else tree)[number % len(tree)]
    return tree


@settings(deadline=None, max_examples=100)
@given(tree=STARTS, edits=EDITS, learnt=LEARNT)
def test_each_version_is_redacted_as_if_it_were_the_first(tree: Any, edits: list[Any], learnt: dict[int, str]) -> None:
    """Whatever changes, whenever a secret is learnt: the result and what is learnt are those of the whole search."""
    one, other = Redactor(b"k" * 32, RULES), Redactor(b"k" * 32, RULES)
    changing, hashes = RedactedTree(one), SubtreeCache()
    for number, (path, edit, place, value) in enumerate([([], "", 0, None), *edits]):
        if number:
            tree = edited(tree, path, edit, place, value, some_part(tree, path[::-1]))
        if number in learnt:
            one.learn("password", learnt[number])
            other.learn("password", learnt[number])
        redacted = changing(tree)
        whole = tree if other.is_clean(dumps(tree)) else other.redact(tree)
        assert dumps(redacted) == dumps(whole)
        assert (redacted is tree) == (whole is tree)
        assert one._known._kinds == other._known._kinds
        assert comparison_hash(redacted, hashes) == comparison_hash(whole)


def redacted_in_turn(*versions: Any) -> list[Any]:
    """What each version of a tree is redacted to."""
    return list(map(RedactedTree(Redactor(b"k" * 32)), versions))


def token(secret: str) -> Any:
    """What stands in the place of a password."""
    return Redactor(b"k" * 32).redact({"password": secret})["password"]


def test_what_did_not_change_stays_the_same_object() -> None:
    """In front of, behind and beside a change, in dicts and lists, whether something in it is redacted or not."""
    clean, secret = {"n": [1]}, {"password": "wine4you"}
    old = {"list": [clean, secret, 1], "more": secret, "n": 1}
    _, first, second, third = redacted_in_turn(
        old, old, {**old, "n": 2}, {"m": 0, **old, "list": [{"n": 0}, clean, secret, 1]}
    )
    assert first["list"][1] == first["more"] == {"password": token("wine4you")}
    assert second["list"] is first["list"]
    assert second["more"] is first["more"]
    assert third["list"][1] is clean
    assert third["list"][2] is first["list"][1]
    assert third["more"] is first["more"]


def test_a_tree_that_lost_its_secret_is_itself_again() -> None:
    """Where nothing is redacted any more, nothing is copied."""
    rows = [{"n": 1}, {"n": 2}]
    old = {"rows": [*rows, {"password": "wine4you"}]}
    new = {"rows": [*rows, {"password": None}]}
    assert redacted_in_turn(old, {**old, "n": 1}, new)[-1] is new


def test_a_secret_that_is_learnt_late_is_found_in_what_did_not_change() -> None:
    """Once it is known, it is a secret also where it stood before, and stays one in the versions to come."""
    old = {"note": [f"the word is {TELLING}"], "n": 1}
    redacted = redacted_in_turn(old, {**old, "n": 2}, {**old, "password": TELLING}, {**old, "n": 3}, {**old, "n": 4})
    assert [version["note"] for version in redacted] == [
        [f"the word is {TELLING}"],
        [f"the word is {TELLING}"],
        [f"the word is {token(TELLING)}"],
        [f"the word is {token(TELLING)}"],
        [f"the word is {token(TELLING)}"],
    ]


def test_a_secret_that_others_teach_the_redactor_is_found_in_what_did_not_change() -> None:
    """A run shares its redactor with whatever else is recorded in the store."""
    redactor = Redactor(b"k" * 32)
    tree = RedactedTree(redactor)
    old = {"note": [f"the word is {TELLING}"], "n": 1}
    assert tree(old) is old
    redactor.learn("password", TELLING)
    assert tree({**old, "n": 2})["note"] == [f"the word is {token(TELLING)}"]


def test_a_secret_is_not_known_before_the_whole_search_would_know_it() -> None:
    """A search that stops because it meets a new secret has learnt nothing when the whole is searched instead."""
    old = {"password": "wine4you", "n": 1}
    new = {**old, "note": "it is red-wine4you-dry", "passphrase": "red-wine4you-dry"}
    *_, last = redacted_in_turn(old, old, new)
    assert last["note"] == f"it is red-{token('wine4you')}-dry"
    *_, last = redacted_in_turn(old, old, new, {**new, "n": 2})
    assert last["note"] == f"it is {Redactor(b'k' * 32).redact(new)['passphrase']}"


def test_what_stands_beside_a_change_is_read_anew_where_the_change_says_what_it_is() -> None:
    """A record with another name, a user beside a password, an operation with another path: the value is the same."""
    value = {"a": "wine", "b": [77]}
    secret = {"a": token("wine"), "b": [token("77")]}
    for old, new, key in (
        ({"name": "colour", "value": value}, {"name": "password", "value": value}, "value"),
        ({"op": "add", "path": "/colour", "value": value}, {"op": "add", "path": "/password", "value": value}, "value"),
        ({"path": "/password", "value": value}, {"op": "add", "path": "/password", "value": value}, "value"),
    ):
        first, second, third = redacted_in_turn(old, new, old)
        assert (first[key], second[key], third[key]) == (value, secret, value)
    first, second = redacted_in_turn({"pass": "wine"}, {"pass": "wine", "Login": "bob"})
    assert (first["pass"], second["pass"]) == ("wine", token("wine"))
    first, second = redacted_in_turn({"pass": "wine", "Login": "bob"}, {"pass": "wine"})
    assert (first["pass"], second["pass"]) == (token("wine"), "wine")


def test_a_text_is_read_anew_where_it_comes_to_be_a_path() -> None:
    """In a path, an address with a password is escaped; in a text that is none, the same would be no address."""
    old = {"password": "wine", "path": "/https:~1~1bob:w4u@example.com"}
    first, second, third = redacted_in_turn(old, {**old, "op": "add"}, {**old, "n": 1})
    assert first["path"] == third["path"] == old["path"]
    assert second["path"] == f"/https:~1~1bob:{token('w4u').replace('password', 'url-password')}@example.com"


def test_beside_a_key_with_a_secret_in_it_changes_are_found() -> None:
    """What is redacted has another key there; the rest stays, and stays the same objects."""
    kept = {"password": "wine4you"}
    old = {f"by {LOOKS}": kept, "n": 1}
    _, first, second = redacted_in_turn(old, old, {**old, "n": 2})
    (key, _), (_, number) = second.items()
    assert key == Redactor(b"k" * 32).redact_text(f"by {LOOKS}")
    assert second[key] is first[key]
    assert number == 2


def test_a_part_that_moves_under_a_secret_key_is_secret_there() -> None:
    """And no secret any more where it moves to from there."""
    part, other = {"a": ["wine"]}, {"n": 1}
    first, second, third = redacted_in_turn(
        {"colour": part, "password": None, "other": other},
        {"password": part, "other": other},
        {"colour": part, "password": None, "other": other},
    )
    assert first["colour"] is third["colour"] is part
    assert second["password"] == {"a": [token("wine")]}
    assert first["other"] is second["other"] is third["other"] is other


def test_what_comes_in_front_of_an_item_of_a_list_decides_how_it_is_read() -> None:
    """An option in front of a value, a name in front of a pair's second item, a command in front of its arguments."""
    value, filler = {"a": "wine"}, {"n": 1}
    first, second, third = redacted_in_turn([filler, value], [filler, "--password", value], [filler, "--x", value])
    assert (first[1], second[2], third[2]) == (value, {"a": token("wine")}, value)
    first, second = redacted_in_turn([["colour", value], ["n", 1]], [["password", value], ["n", 1]])
    assert (first[0][1], second[0][1]) == (value, {"a": token("wine")})
    pair = ["password", value]
    first, second = redacted_in_turn([pair, 1], [pair, ["n", 1]])
    assert (first[0], second[0]) == (pair, ["password", {"a": token("wine")}])
    arguments = ["http://example.com", "-v", "-u", "bob:wine4you"]
    first, second = redacted_in_turn(["get", *arguments], ["curl", *arguments])
    assert (first[-1], second[-1]) == ("bob:wine4you", f"bob:{token('wine4you')}")


def test_a_tree_that_comes_to_be_nested_too_deeply_is_refused_as_a_whole_would_be() -> None:
    """How deep a change may be depends on where it is; the version before stays the one to compare with."""
    tree = RedactedTree(Redactor(b"k" * 32))

    def nested(depth: int, inner: Any) -> Any:
        for _ in range(depth):
            inner = [inner]
        return inner

    def writable(value: Any) -> bool:
        with suppress(TypeError):
            return bool(dumps(value))
        return False

    deepest = max(depth for depth in range(400) if writable(nested(depth, 1)))
    old = {"password": "wine4you", "n": 1}
    tree(old)
    assert tree({**old, "deep": nested(deepest - 1, 1)})["deep"] == nested(deepest - 1, 1)
    for deep in (nested(deepest, 1), nested(60, {"a": nested(deepest - 61, 1)})):
        with pytest.raises(TypeError):
            tree({**old, "deep": deep})
    assert tree({**old, "n": 2}) == {"password": token("wine4you"), "n": 2}


@pytest.mark.parametrize("beside", [{"password": "wine4you"}, {"since": {"$type": "date", "value": "2026-11-30"}}])
def test_a_change_costs_its_path(beside: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """However wide the tree is in which something changes, is added or is taken away, little of it is looked at."""
    rows = [{"n": n, "text": "x" * 20, "more": {"n": [n, "y" * 20]}} for n in range(1000)]
    pairs = [[f"2026-{n}", {"n": n}] for n in range(1000)]
    words = [f"word {n}" for n in range(1000)]
    named = {f"key {n}": {"n": n} for n in range(1000)}
    odd = {"$type": "dict", "items": [[1, {"rows": rows, **beside}]]}
    start = {"rows": rows, "pairs": pairs, "words": words, "named": named, "odd": odd, "long": "z" * 9000, **beside}
    start["all"] = [*rows, beside]
    looked = []
    is_clean, text = Redactor.is_clean, Redactor._text

    def counting_body(self: Redactor, body: bytes) -> bool:
        looked.append(len(body))
        return is_clean(self, body)

    def counting_text(self: Redactor, value: str, depth: int) -> str:
        looked.append(len(value))
        return text(self, value, depth)

    monkeypatch.setattr(Redactor, "is_clean", counting_body)
    monkeypatch.setattr(Redactor, "_text", counting_text)
    tree = RedactedTree(Redactor(b"k" * 32))
    tree(start)  # what there is to learn is learnt
    tree(start)
    for version in (
        start,
        {**start, "n": 1},
        {**start, "rows": [*rows[:500], {**rows[500], "more": {"n": [0, "changed"]}}, *rows[501:]]},
        {**start, "rows": [{"n": 0}, *rows[3:], {"n": 9}]},
        {**start, "all": [{"n": 0}, *rows[:-2], beside]},
        {**start, "pairs": [*pairs, ["2027", {"n": 1}]]},
        {**start, "words": [*words[:70], "another", *words[71:]]},
        {**start, "words": ["another", *words[1:]]},
        {**start, "named": {key: item for key, item in named.items() if key != "key 7"}},
        {**start, "odd": {"$type": "dict", "items": [[1, {"rows": [*rows, {"n": 1}], **beside}]]}},
        dict(reversed(start.items())),
    ):
        looked.clear()
        tree(version)
        assert sum(looked) < 1200
        assert len(looked) < 60
        tree(start)
