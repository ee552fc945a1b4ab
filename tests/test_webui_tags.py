"""Values that JSON cannot say, on the pages: what is inside is shown, marked and blamed by the paths of `diff`."""

from __future__ import annotations

import html
import random
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.values import encode
from agentreplay.replay.blame import blame_of
from agentreplay.replay.changes import MISSING
from agentreplay.replay.diff import diff_values
from agentreplay.replay.difference import Asked, changes_asked_for
from agentreplay.replay.equality import same
from agentreplay.replay.insides import inside_of
from agentreplay.replay.paths import keys_of, split
from agentreplay.webui.addresses import blamed_at
from agentreplay.webui.differences import side_by_side
from agentreplay.webui.trees import Node, rest_of, tree_of, value_at
from flask.testing import FlaskClient
from hypothesis import given, settings
from hypothesis import strategies as st
from test_insides import VALUES, Client, Purchase, Spot, edited, log_of, places, stored
from web import client_of, page

BEFORE = {
    "order": Purchase(50, [{"sku": "lamp"}]),
    "pair": (1, Decimal("1.1")),
    "seats": {1: "free", 2: "free"},
    "client": Client(name="Ada"),
    "same": (1, 2),
}
AFTER = {
    "order": Purchase(5, [{"sku": "lamp"}, {"sku": "bulb"}]),
    "pair": (1, Decimal("1.2")),
    "seats": {1: "taken"},
    "client": Client(name="Bob"),
    "same": (1, 2),
}
CHANGED = [
    ("replace", "/order/n"),
    ("add", "/order/lines/1"),
    ("replace", "/pair/1"),
    ("replace", "/seats/1"),
    ("replace", "/client/name"),
    ("remove", "/seats/2"),
]


def store_of(*payloads: Any, another: Any = None) -> MemoryStore:
    """A store with run1, which went through these payloads; and run2, which had another one from the start."""
    store = MemoryStore()
    for start, *later in [payloads, *([] if another is None else [(another,)])]:
        with ar.record("refunds", start, store=store, applier="replace") as run:
            for payload in later:
                with run.round() as round:
                    round.change(payload=payload)
    return store


def told(text: str) -> list[tuple[str, str]]:
    """The changes that a page lists: kind and path."""
    found = re.findall(r'<li class="change (\w+)" data-path="([^"]*)"', text)
    return [(kind, unquote(html.unescape(path), errors="surrogatepass")) for kind, path in found]


def blames(text: str) -> list[str]:
    """The addresses of what ever changed a value, as a page links them."""
    return [html.unescape(href) for href in re.findall(r'href="([^"]+)" data-blame', text)]


def test_a_page_of_differences_goes_inside_as_the_command_line_does() -> None:
    """Fields of instances, items of tuples, keys that are no texts: the same kinds and paths, in the same order."""
    store = store_of(BEFORE, AFTER)
    client = client_of(store)
    text = page(client, "/diff?to=run1:1")
    assert told(text) == CHANGED
    assert [(change.kind, change.path) for change in changes_asked_for(store, Asked("run1")).changes] == CHANGED
    assert told(page(client, "/runs/run1/steps/1")) == CHANGED
    api = client.get("/api/v1/diff?to=run1:1").get_json()["changes"]
    assert [(change["kind"], change["path"]) for change in api] == CHANGED
    page(client, "/runs/run1/picture?wait=5")
    assert re.search(r'aria-label="step 1, [^"]*6 changes', page(client, "/runs/run1/rows"))


def test_two_runs_are_told_apart_inside_of_tags() -> None:
    """Like two steps of one; what the second lacks is blamed where it was."""
    client = client_of(store_of(BEFORE, another=AFTER))
    text = page(client, "/diff?from=run1:0&to=run2:0")
    assert told(text) == CHANGED
    assert "/runs/run1/blame?step=0&path=%2Fseats%2F2" in blames(text)
    assert "/runs/run2/blame?step=0&path=%2Forder%2Fn" in blames(text)
    assert [client.get(href).status_code for href in blames(text)] == [200] * len(blames(text))


def test_both_states_stand_side_by_side_inside_of_tags() -> None:
    """The way to what changed is open through tags, and each place is named as it is read."""
    changes = diff_values(stored(BEFORE), stored(AFTER), inside_tags=True)
    sides = side_by_side(stored(AFTER), changes)
    assert [(side.depth, side.kind, side.key, side.old, side.new) for side in sides] == [
        (0, "inside", "order", "", ""),
        (1, "replace", "n", "50", "5"),
        (1, "inside", "lines", "", ""),
        (2, "add", "1", "", "{1 key}"),
        (2, "fold", "", "", ""),
        (0, "inside", "pair", "", ""),
        (1, "replace", "1", "Decimal('1.1')", "Decimal('1.2')"),
        (1, "fold", "", "", ""),
        (0, "inside", "seats", "", ""),
        (1, "remove", '"2"', '"free"', ""),
        (1, "replace", '"1"', '"free"', '"taken"'),
        (0, "inside", "client", "", ""),
        (1, "replace", "name", '"Ada"', '"Bob"'),
        (1, "fold", "", "", ""),
        (0, "fold", "", "", ""),
    ]
    assert "Purchase(" in sides[0].text


def test_a_payload_that_is_a_tag_itself_is_gone_into() -> None:
    """A dataclass as the payload: its fields side by side, and in the tree."""
    a, b = stored(Purchase(1, [])), stored(Purchase(2, []))
    changes = diff_values(a, b, inside_tags=True)
    assert [(side.kind, side.key, side.text) for side in side_by_side(b, changes)] == [
        ("replace", "n", ""),
        ("fold", "", "1 unchanged"),
    ]
    (root,) = tree_of(b, address, changes)
    assert [(node.key, node.mark) for node in root.children] == [("n", "replace"), ("lines", "")]


@given(VALUES, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_every_change_of_a_page_can_be_blamed(value: Any, chance: random.Random) -> None:
    """Whichever way round two steps are compared: each link leads to the history of that very value."""
    store = store_of({"p": edited(value, chance)}, {"p": value})
    client = client_of(store)
    for query in ("from=run1:0&to=run1:1", "from=run1:1&to=run1:0"):
        text = page(client, f"/diff?{query}")
        for href in blames(text):
            assert client.get(href).status_code == 200, href


@given(VALUES, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_a_link_of_a_change_leads_to_the_value_that_it_tells(value: Any, chance: random.Random) -> None:
    """The newest entry there holds the value as it is on that side; of what is gone, the removal or what it was."""
    before, after = {"p": edited(value, chance)}, {"p": value}
    log = log_of(before, after)
    address_of = blamed_at(("run1", 0), ("run1", 1))
    for change in diff_values(stored(before), stored(after), inside_tags=True):
        asked = parse_qs(urlsplit(address_of(change)).query, keep_blank_values=True, errors="surrogatepass")
        newest = blame_of(log.events, asked.get("path", [""])[0], int(asked["step"][0]))[0]
        if change.kind in ("add", "replace"):
            assert same(newest.new, change.new)
        elif change.kind == "remove":
            assert same(newest.old if newest.new is MISSING else newest.new, change.old)


# -- trees -----------------------------------------------------------------------------------------------------------


def address(pointer: str, start: int) -> str:
    return f"/value?path={quote(pointer, safe='')}&from={start}"


def nodes_in(nodes: list[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from nodes_in(node.children)


def test_a_tree_opens_a_tag_in_which_something_changed() -> None:
    """With marks inside, and what was; one that stayed is a line."""
    changes = diff_values(stored(BEFORE), stored(AFTER), inside_tags=True)
    tree = tree_of(stored(AFTER), address, changes)
    assert [(node.key, node.mark, node.open) for node in tree] == [
        ("order", "inside", True),
        ("pair", "inside", True),
        ("seats", "inside", True),
        ("client", "inside", True),
        ("same", "", False),
    ]
    marked = {(node.pointer, node.mark, node.was) for node in nodes_in(tree) if node.mark not in ("", "inside")}
    assert marked == {
        ("/order/n", "replace", "50"),
        ("/order/lines/1", "add", ""),
        ("/pair/1", "replace", "Decimal('1.1')"),
        ("/seats/1", "replace", '"free"'),
        ("/seats/2", "remove", ""),
        ("/client/name", "replace", '"Ada"'),
    }


@given(VALUES, st.randoms(use_true_random=False))
def test_every_mark_of_a_tree_is_a_change_and_every_node_a_place(value: Any, chance: random.Random) -> None:
    """The path of a node is one that a user knows, and what is there is what the node shows."""
    before, after = stored({"p": edited(value, chance)}), stored({"p": value})
    changes = diff_values(before, after, inside_tags=True)
    nodes = list(nodes_in(tree_of(after, address, changes)))
    known = {path for path, _ in places({"p": value})}
    assert {node.pointer for node in nodes if node.mark not in ("", "inside")} <= {change.path for change in changes}
    for node in nodes:
        if node.mark != "remove" and node.kind != "rest" and not any(name in node.pointer for name in ("(", "'")):
            assert node.pointer in known
            assert value_at(after, split(node.pointer)) is not MISSING


def test_what_is_too_long_for_a_line_is_opened_as_a_user_sees_it() -> None:
    """By keys and fields, whose paths `blame` takes; a single value, such as a set, by its stored form."""
    whole = stored({"d": dict.fromkeys(range(100), "x" * 20), "s": {"x" * 200, "y" * 300}})
    first, second = tree_of(whole, address)
    assert (first.rest, first.href) == ("fields", "/value?path=%2Fd&from=0")
    children = rest_of(whole["d"], address, at=("d",), start=0)
    assert [children[0].pointer, children[0].text, children[20].rest] == ["/d/0", '"' + "x" * 20 + '"', "80 more keys"]
    assert second.rest == "fields"
    assert [child.key for child in rest_of(whole["s"], address, at=("s",), start=0)] == ['"$type"', "items"]


@pytest.mark.parametrize(
    ("payload", "path", "there"),
    [
        (Purchase(5, [1]), "/n", 5),
        (Purchase(5, [1]), "/lines/0", 1),
        (Purchase(5, [1]), "/fields/n", 5),
        (Spot(1, 2), "/1", 2),
        ((1, (2, 3)), "/1/0", 2),
        ({1: {2: "x"}}, "/1/2", "x"),
        ({1: {2: "x"}}, "/items/0/0", 1),
    ],
)
def test_the_value_at_a_path_is_found_inside_of_tags(payload: Any, path: str, there: Any) -> None:
    """By the path of a difference; by that of the stored form where it is no other."""
    client: FlaskClient = client_of(store_of({"o": payload}))
    assert client.get(f"/api/v1/runs/run1/steps/0/state?path=/o{path}").get_json() == there
    tree = encode({"o": payload}).stored
    assert value_at(tree, split(f"/o{path}")) == there
    assert client.get(f"/runs/run1/steps/0/value?path=/o{path}").status_code == 200


def test_what_a_path_of_a_tag_means_is_what_it_means_everywhere() -> None:
    """A key that is called like a part of the stored form is the key."""
    tree = stored({"d": {1: "x", "items": "mine", "$type": "yours"}})
    assert (value_at(tree, ("d", "items")), value_at(tree, ("d", "$type"))) == ("mine", "yours")
    assert keys_of("/d/items", tree) == ("d", "items")
    assert inside_of(tree["d"]) == {"1": "x", "items": "mine", "$type": "yours"}
