"""Hashes do not drift, tell apart what differs, and cost what changed."""

from __future__ import annotations

import copy
import json
from hashlib import sha256
from typing import Any
from zlib import crc32

import pytest
from agentreplay.recorder import merkle
from agentreplay.recorder.hashes import SubtreeCache, comparison_hash, content_address, event_hash, same
from agentreplay.recorder.values import encode, encode_bytes, loads
from hypothesis import given, settings
from hypothesis import strategies as st
from value_examples import histories, plain_values, types, values

# -- the formats are fixed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "address"),
    [
        (b"", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (b'{"a":1}', "sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"),
    ],
)
def test_content_addresses_do_not_drift(data: bytes, address: str) -> None:
    """A content address is SHA-256 of the bytes, as any other program computes it."""
    assert content_address(data) == address


GOLDEN: dict[str, tuple[Any, str]] = {
    "null": (None, "a7cc470e4fab909680977dd27168c0b0e7e88ef305750863cc4a11367e4656dc"),
    "true": (True, "47fb10277e550f4ba4b808c77174b6e432b89f5ae3cffc5744a1e4d40cf5ad2d"),
    "one": (1, "8c10837fa09ca998b3901dcb05da6f5ab3b1c6efbf799a9611b4a3e906f0d029"),
    "one as a float": (1.0, "e527ef21fdc489127b2e74c455a552fcd6d4c380402bdfee4ef05984fd1b9f30"),
    "minus zero": (-0.0, "808a6413e8f2a3ae6eaa11acb937fed03861aed0bb689d838b382a3c4541c1fc"),
    "zero": (0.0, "475d0bdb478ba7f11e8d0058c33d9143cb322035eabbb58ec74e7d0692ef2e96"),
    "text": ("a", "f012a2393b5dc4c45ee348e57a13fc9097caa0d040eaefefa37aa662602d753e"),
    "odd text": ('ü"\\\n\u2028\0', "9dea4f40db41abe6049e0c5c79f8817aa14112d3c92f2d6014e4f4ab3de2d27a"),
    "large": (2**53 - 1, "48fafe7c4c0446ce0ab8992332b91dde8d9d374d91b47ad22fbf1d1d3d6bf42b"),
    "tenth": (0.1, "c12154592df02cce0f0e4be0210a91118846dd02234de6955029118ebb06da10"),
    "large float": (1e16, "e2ab01352c7dcab4fad36e6d5f420481a7137c1bd2d6dc4952f5de918aff10ec"),
    "small float": (5e-324, "3efe11093164827bee9a114a2de52798de04316d600594a5f2886eb5bc0a0c83"),
    "empty list": ([], "d27cbf07d603f889c14a4f228ccd5996f02e0244ce4c890558b9ff483be3bb41"),
    "empty object": ({}, "1c2c7756ceed4cffc5c559caf533ee9a5a769cd19f30a6cba28192ca693383eb"),
    "list of lists": ([[], []], "764a76d6d7ec35d8cc349ae92a2b7c416938d686d582baa4491757f61d588d9c"),
    "mixed list": (
        [1, 1.5, "a", None, True, [2], {"b": 3}],
        "ee42c28983de1d420ad5c238a40bc2b6d6f1dab72024aba2dbb45c5f7e165bf9",
    ),
    "object": (
        {"b": 1, "a": {"d": [0.5], "c": None}},
        "840530276fb30e6d031d41cfbf2362b2b61be9a2cf12cb073c6ce1fcdc1ccb1c",
    ),
    "text of 256": ("é" * 256, "11a5cdfa384bdecfb9a68726ab1c56d31c803b5c2a131cc81ba65cec24d7c9fc"),
    "text of 257": ("é" * 257, "f7b0504e5b3ea5ef5f3c593d63324157da31d38308f895c8976f288520d47d19"),
    "object with a long text": (
        {"a": "x" * 300, "b": 1},
        "c461241c592742076862dec7f40e888453438e1d04521b99b43103f9175b94f9",
    ),
    "list of 64": (list(range(64)), "d3e1dd5fedb7638c492b411bd37655e9f234616c4608bf69f6f2ee8a07f15ebe"),
    "list of 65": (list(range(65)), "82405c1e4b20234a39ff9949c6489335257ae6bcec15ffce30bb297031ab8732"),
    "object of 64": (
        {f"k{i}": i for i in range(64)},
        "96f43bc7f5f397773629c5d298d4e7b46fc5acff8b122e5b1235f33c1375b4ac",
    ),
    "object of 65": (
        {f"k{i}": i for i in range(65)},
        "b13134ffd322c4414c7bdb083b48317b5adfbbf4b403647daa7fc89288fdf67a",
    ),
    "wide": (
        {f"é{i}": [i, "x" * i] for i in range(300)},
        "3faf71ba044d5bc009fe281d1ef1d421cf9071778ca98af85b2d986e3f7b3c53",
    ),
    "dict tag": (
        {"$type": "dict", "items": [[1, "a"], ["1", {"x": 1}]]},
        "efaccd567f90320fc6e8c0a2091cd779fcbf6aad1c95ab102a94f7fcb72ee29b",
    ),
    "set tag": (
        {"$type": "set", "items": ["a", {"$type": "tuple", "items": [1]}]},
        "b5e3df4cacdb1c7993967b76e357942baf8663d774e05e26f3574acdea45f7d7",
    ),
    "counter tag": (
        {"$type": "counter", "items": [["a", 2]]},
        "2dbcf299ae00c295ad8311527bc1d977bcf4fba8fe2cb2652ca4d4f267d920ea",
    ),
    "defaultdict tag": (
        {"$type": "defaultdict", "factory": "list", "items": [["a", [1]]]},
        "019a0dd1ad2c3742c5fa588aa5e1d72a875b3fb8bbe5dbc3ecea6f096b497f61",
    ),
    "ordered tag": (
        {"$type": "ordereddict", "items": [["b", 1], ["a", 2]]},
        "2e36590dfd939a5b917fc4ab881147a6ba7fc02a0c9a61d1546f7efb1a77d316",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_comparison_hashes_do_not_drift(name: str) -> None:
    """The hashes in old logs are still those of the same trees."""
    tree, expected = GOLDEN[name]
    assert comparison_hash(tree) == "merkle1:" + expected


def test_event_hashes_do_not_drift() -> None:
    """The chains of old logs still verify."""
    first = event_hash(
        "",
        uid="01900000-0000-7000-8000-000000000000",
        seq=0,
        round=0,
        kind="run.started",
        version=1,
        time_us=1764508800000000,
        within=None,
        task="0",
        body_hash="sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
    )
    assert first == "sha256:57ca41b4a0ca34b11dfb8448f888870c480aee034c5af18dcf4d6023075849b0"
    other = event_hash(
        "sha256:" + "0" * 64,
        uid="u",
        seq=7,
        round=3,
        kind="user:ü",
        version=2,
        time_us=-1,
        within="call-1",
        task="0.1",
        body_hash="sha256:x",
    )
    assert other == "sha256:45f0292bfe2e0b65789df0eaad9063ceb3c576237cc07ce2f63ddbb87d6f7638"


def as_documented(tree: Any) -> str:
    """The comparison hash as `merkle` describes it, written as plainly as can be."""

    def text(value: Any) -> bytes:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def own(value: Any) -> bool:
        return type(value) in (dict, list) or (type(value) is str and len(value) > 256)

    def mark(value: Any) -> Any:
        return [] if own(value) else [repr(value)] if type(value) is float else value

    def inner(values: Any) -> bytes:
        return b"".join(digest(value) for value in values if own(value))

    def of_list(items: list[Any]) -> bytes:
        return sha256(b"L" + text([mark(item) for item in items]) + inner(items)).digest()

    def of_object(node: dict[str, Any]) -> bytes:
        keys = sorted(node)
        ordered = [node[key] for key in keys]
        return sha256(b"D" + text([keys, [mark(value) for value in ordered]]) + inner(ordered)).digest()

    def digest(value: Any) -> bytes:
        if not own(value):
            return sha256(b"S" + text([mark(value)])).digest()
        if type(value) is str:
            return sha256(b"T" + value.encode()).digest()
        size = len(value)
        if type(value) is list:
            if size <= 64:
                return of_list(value)
            runs = [of_list(value[at : at + 16]) for at in range(0, size, 16)]
            return sha256(b"M" + text([size]) + b"".join(runs)).digest()
        if (
            value.get("$type") in ("dict", "counter", "defaultdict", "set", "frozenset")
            and type(value["items"]) is list
        ):
            keys = sorted(key for key in value if key != "items")
            others = [value[key] for key in keys]
            items = sorted(digest(item) for item in value["items"])
            head = text([keys, [mark(other) for other in others], len(items)])
            return sha256(b"U" + head + inner(others) + b"".join(items)).digest()
        if size <= 64:
            return of_object(value)
        count = 2 ** (size // 16).bit_length()
        groups: list[dict[str, Any]] = [{} for _ in range(count)]
        for key, item in value.items():
            groups[crc32(key.encode()) % count][key] = item
        return sha256(b"E" + text([size]) + b"".join(map(of_object, groups))).digest()

    return "merkle1:" + digest(tree).hex()


def stored_form(value: Any) -> Any:
    """The stored form of a value as a reader has it: shared with nothing."""
    return loads(encode_bytes(value, types)[0])


stored_values = values.map(stored_form)
wide_trees = st.builds(
    lambda size, value, text: {
        "list": [[number, value] for number in range(size)],
        "object": {f"{text}{number}": value if number % 9 else [number] for number in range(size)},
        "text": text * size,
    },
    st.sampled_from([0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 500]),
    plain_values,
    st.text(max_size=5),
)


@settings(max_examples=200, deadline=None)
@given(stored_values | wide_trees)
def test_comparison_hashes_are_what_is_documented(tree: Any) -> None:
    """Another program can compute them from the description."""
    assert comparison_hash(tree) == as_documented(tree)


# -- what is the same --------------------------------------------------------------------------------------------------

DIFFERENT = [
    1,
    1.0,
    True,
    "1",
    0,
    0.0,
    -0.0,
    False,
    None,
    "",
    [],
    {},
    [None],
    {"a": None},
    {"a": 0},
    [[]],
    ["[]"],
    "[]",
]


def test_what_differs_in_type_differs() -> None:
    """1, 1.0, true and "1" are four values; null and missing are two; so they are within containers."""
    for wrap in (
        lambda value: value,
        lambda value: [value],
        lambda value: {"k": value},
        lambda value: [0, {"x": [value]}],
    ):
        hashes = [comparison_hash(wrap(value)) for value in DIFFERENT]
        assert len(set(hashes)) == len(DIFFERENT)
        for number, one in enumerate(DIFFERENT):
            for other_number, other in enumerate(DIFFERENT):
                assert same(wrap(one), wrap(copy.deepcopy(other))) == (number == other_number)


def test_the_order_of_keys_says_nothing() -> None:
    """Objects, and dicts in tagged form, are the same in any order; lists and ordered dicts are not."""
    assert same({"a": 1, "b": [2]}, {"b": [2], "a": 1})
    assert same(encode({1: "a", 2: "b"}).stored, encode({2: "b", 1: "a"}).stored)
    wide = {f"k{number}": number for number in range(200)}
    assert comparison_hash(wide) == comparison_hash(dict(reversed(wide.items())))
    assert not same([1, 2], [2, 1])
    ordered = {"$type": "ordereddict", "items": [["b", 1], ["a", 2]]}
    assert not same(ordered, {**ordered, "items": ordered["items"][::-1]})


@settings(max_examples=300, deadline=None)
@given(stored_values, stored_values)
def test_trees_are_the_same_just_when_their_hashes_are(one: Any, other: Any) -> None:
    """`same` and the comparison hash never disagree."""
    assert same(one, other) == (comparison_hash(one) == comparison_hash(other))
    twin = copy.deepcopy(one)
    assert same(one, twin)
    assert comparison_hash(twin) == comparison_hash(one)


@given(plain_values, st.data())
def test_any_change_of_a_leaf_is_seen(tree: Any, data: st.DataObject) -> None:
    """Replacing one scalar anywhere by another makes another tree."""
    changed = copy.deepcopy({"root": tree})
    places = []
    todo: list[Any] = [changed]
    while todo:
        node = todo.pop()
        for key, item in list(node.items()) if type(node) is dict else list(enumerate(node)):
            if type(item) in (dict, list):
                todo.append(item)
            else:
                places.append((node, key))
    if places:
        node, key = data.draw(st.sampled_from(places))
        node[key] = ["changed", node[key]]
        assert not same({"root": tree}, changed)
        assert comparison_hash({"root": tree}) != comparison_hash(changed)


def test_depth_and_shared_parts_are_no_limit() -> None:
    """Trees of fifty thousand levels are hashed and compared without recursion; shared parts are looked at once."""
    one: Any = []
    other: Any = []
    for _ in range(50_000):
        one, other = [one], [other]
    assert same(one, other)
    assert comparison_hash(one) == comparison_hash(other)
    assert not same(one, [other])
    shared: Any = [1]
    for _ in range(60):
        shared = [shared, shared]
    assert same(shared, [shared[0], shared[1]])
    assert comparison_hash(shared) == comparison_hash([shared[0], shared[1]])


# -- what a change costs -----------------------------------------------------------------------------------------------


def test_a_change_costs_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a megabyte of ten thousand nodes, a change is a handful of digests over little text, wherever it is."""
    digested: list[int] = []

    def counting(data: bytes) -> Any:
        digested.append(len(data))
        return sha256(data)

    tree: dict[str, Any] = {
        "rows": [{"id": number, "text": "x" * 400} for number in range(2_000)],
        "table": {f"k{i}": {f"f{j}": "y" * 40 for j in range(70)} for i in range(100)},
        "document": "z" * 300_000,
        "count": 0,
    }
    cache = SubtreeCache()
    comparison_hash(tree, cache)
    monkeypatch.setattr(merkle, "sha256", counting)
    rows = list(tree["rows"])
    rows[777] = {**rows[777], "id": -1}
    table = {**tree["table"], "k50": {**tree["table"]["k50"], "f7": "new"}}
    for changed, digests, size in [
        ({**tree, "count": 1}, 1, 200),
        ({**tree, "rows": rows}, 4, 6_000),
        ({**tree, "rows": [*tree["rows"], {"id": 5}]}, 4, 6_000),
        ({**tree, "table": table}, 5, 6_000),
        ({**tree, "new": [1]}, 2, 300),
        ({**tree, "document": "short"}, 1, 200),
    ]:
        digested.clear()
        found = comparison_hash(changed, cache)
        assert len(digested) <= digests
        assert sum(digested) <= size
        assert found == as_documented(changed)
        comparison_hash(tree, cache)


def test_a_long_run_does_not_grow_the_memory_of_hashes() -> None:
    """After thirty thousand changes the cache knows about as much as after a few, long texts included."""
    cache = SubtreeCache()
    tree: dict[str, Any] = {"rows": [{"n": number} for number in range(100)], "text": "", "count": 0}
    for count in range(30_000):
        rows = list(tree["rows"])
        rows[count % 100] = {"n": count}
        tree = {"rows": rows, "text": str(count) * 100, "count": count}
        comparison_hash(tree, cache)
        assert len(cache) <= 2 * 103 + 8 + 4
        assert len(cache.pieces) <= len(cache)
    assert comparison_hash(tree, cache) == comparison_hash(copy.deepcopy(tree))


@settings(max_examples=150, deadline=None)
@given(histories())
def test_a_cache_never_changes_a_hash(versions: list[Any]) -> None:
    """Along any run of versions, the hash by way of the cache is the hash computed anew."""
    cache = SubtreeCache()
    for tree in versions:
        assert comparison_hash(tree, cache) == as_documented(tree)


# -- the chain of events -----------------------------------------------------------------------------------------------

EVENT = {
    "uid": "u",
    "seq": 1,
    "round": 2,
    "kind": "k",
    "version": 3,
    "time_us": 4,
    "within": "w",
    "task": "0",
    "body_hash": "b",
}


def test_every_part_of_an_event_is_in_its_hash() -> None:
    """Changing any field of an event, or the event before it, changes its hash."""
    hashes = {event_hash("p", **EVENT), event_hash("q", **EVENT)}
    for name, value in EVENT.items():
        other = f"{value}x" if type(value) is str else 99
        hashes.add(event_hash("p", **{**EVENT, name: other}))
    hashes.add(event_hash("p", **{**EVENT, "within": None}))
    hashes.add(event_hash("p", **{**EVENT, "within": ""}))
    hashes.add(event_hash("p", **{**EVENT, "within": "-"}))
    assert len(hashes) == 2 + len(EVENT) + 3


texts = st.text(st.sampled_from("a:|-1\ud800"), max_size=4)


@given(st.lists(st.tuples(texts, texts, texts, st.none() | texts, texts, texts), min_size=2, max_size=2, unique=True))
def test_no_two_events_are_written_alike(events: list[tuple[Any, ...]]) -> None:
    """However the separators of the format occur in texts, other events have other hashes."""
    one, other = [
        event_hash(
            previous, uid=uid, seq=1, round=1, kind=kind, version=1, time_us=1, within=within, task=task, body_hash=body
        )
        for previous, uid, kind, within, task, body in events
    ]
    assert one != other
