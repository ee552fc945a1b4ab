"""Watching an expression: what it comes to at each step, exactly, and where that changes."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.examples import refunds
from agentreplay.recorder.errors import UsageError
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.values import decode, encode
from agentreplay.replay.changes import MISSING
from agentreplay.replay.watching import LONGEST, Expression, numbers_of, watch_in
from hypothesis import given
from hypothesis import strategies as st


@dataclass
class Order:
    sku: str
    price: Decimal
    when: date


def over(text: str, payload: Any) -> Any:
    """What an expression comes to over a payload, as a value again."""
    value, problem = Expression(text).over(encode(payload).stored)
    assert problem is None, problem
    return value if value is MISSING else decode(value)


def values_of(told: ar.Watched) -> list[tuple[int, int, Any]]:
    return [(span.first, span.last, span.value) for span in told.spans]


def recorded(payloads: list[Any]) -> MemoryStore:
    """A run of which each step leaves one of these payloads; the first is what it starts with."""
    store = MemoryStore()
    with ar.record("watched", payload=payloads[0], store=store) as run:
        for payload in payloads[1:]:
            with run.round() as r:
                r.change(payload=payload)
    return store


def test_a_value_is_told_with_the_steps_in_which_it_stayed() -> None:
    """The example takes a coupon off in step 7; in step 0 there is no order yet."""
    store = MemoryStore()
    refunds.step.run(refunds.START, store=store)
    told = ar.watch("run1", "order.total", store)
    assert values_of(told) == [(0, 0, MISSING), (1, 6, 129.5), (7, 10, 77.7)]
    assert (told.changed, told.path, told.last) == ((1, 7), "/order/total", 10)
    assert told.values() == [MISSING, *[129.5] * 6, *[77.7] * 4]


@given(st.lists(st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.floats(), st.text(max_size=2)), min_size=1))
def test_spans_are_the_values_of_all_steps(values: list[Any]) -> None:
    """Without a gap, each beginning where the value is another, types included."""
    told = watch_in(enumerate([{"n": encode(value).stored} for value in values]), Expression("n"))
    assert [span.first for span in told.spans] == [0, *[span.last + 1 for span in told.spans[:-1]]]
    assert told.last == len(values) - 1
    kept = told.values()
    assert [repr(decode(value)) for value in kept] == [repr(value) for value in values]
    for span, after in zip(told.spans, told.spans[1:], strict=False):
        assert repr(decode(span.value)) != repr(decode(after.value))


def test_values_are_exact_and_types_count_as_changes() -> None:
    """1, 1.0 and true are three values, null is not missing, and large integers keep all digits."""
    payloads = [{"n": 1}, {"n": 1.0}, {"n": True}, {"n": None}, {}, {"n": 2**70}, {"n": 2**70 + 1}, {"n": 2**70 + 1}]
    told = ar.watch("run1", "n", recorded(payloads))
    assert told.changed == (1, 2, 3, 4, 5, 6)
    found = [span.value if span.value is MISSING else decode(span.value) for span in told.spans]
    assert [repr(value) for value in found if value is not MISSING] == [
        "1",
        "1.0",
        "True",
        "None",
        str(2**70),
        str(2**70 + 1),
    ]
    assert found[4] is MISSING
    assert [span["missing"] for span in told.to_json()["spans"]] == [False, False, False, False, True, False, False]


def test_expressions_see_a_payload_as_its_user_does() -> None:
    """Tuples are lists, objects their fields, dicts with other keys objects; and what is found is what stood there."""
    order = Order("A", Decimal("12.50"), date(2026, 5, 1))
    payload = {
        "order": order,
        "pair": (1, 2, 3),
        "last": deque([1, 2], maxlen=5),
        "by_number": {1: "one", 2: "two"},
        "odd": {"$type": "mine", "n": 4},
        "sorted": OrderedDict(b=1, a=2),
        "big": 2**65,
        "nothing": float("nan"),
        "secret": b"\x00\x01",
        "orders": [order, Order("B", Decimal("3.25"), date(2025, 5, 1))],
    }
    assert over("order.sku", payload) == "A"
    assert over("order.price", payload) == Decimal("12.50")
    assert over("order.price == '12.50'", payload) is True
    assert over("order.when < '2027'", payload) is True
    assert over("pair[1]", payload) == 2
    assert over("pair[-1]", payload) == 3
    assert over("length(pair)", payload) == 3
    assert over("sum(pair)", payload) == 6
    assert over("last[0]", payload) == 1
    assert over('by_number."1"', payload) == "one"
    assert over('odd."$type"', payload) == "mine"
    assert over("odd", payload) == {"$type": "mine", "n": 4}
    assert over("[odd, sorted.a]", payload) == [{"$type": "mine", "n": 4}, 2]
    assert over("big > `1`", payload) is True
    assert over("big", payload) == 2**65
    assert over("max([big, `1`])", payload) == 2**65
    assert str(over("nothing", payload)) == "nan"
    assert over("secret", payload) == b"\x00\x01"
    assert over("secret.data", payload) is MISSING
    assert over("secret.data || 'none'", payload) == "none"
    assert over("orders[].sku", payload) == ["A", "B"]
    assert over("orders[].price", payload) == [Decimal("12.50"), Decimal("3.25")]
    assert over("sum(orders[].to_number(price))", payload) == 15.75
    assert over("orders[?to_number(price) > `10`].sku", payload) == ["A"]
    assert over("sort_by(orders, &when)[].sku", payload) == ["B", "A"]
    assert over("max_by(orders, &to_number(price)).sku", payload) == "A"
    assert over("{n: pair[0], s: order.sku}", payload) == {"n": 1, "s": "A"}
    assert over("type(order.price)", payload) == "string"
    assert over("[pair, last][]", payload) == [1, 2, 3, 1, 2]
    assert over("pair[::2]", payload) == [1, 3]


def test_where_an_expression_does_not_apply_it_says_why() -> None:
    """It is no value, and another than a missing one; if it never applies, that is an error."""
    store = recorded([{}, {"items": [1, 2]}, {"items": [1, 2, 3]}])
    told = ar.watch("run1", "sum(items)", store)
    assert [(span.value, span.problem is None) for span in told.spans] == [(MISSING, False), (3, True), (6, True)]
    assert "sum()" in str(told.spans[0].problem)
    with pytest.raises(UsageError) as refused:
        ar.watch("run1", "sum(nothing)", store)
    assert "sum(nothing) applies to no step of run1: In function sum()" in str(refused.value)


def test_a_path_to_what_never_was_is_an_error_that_names_the_nearest() -> None:
    """A mistyped path would look like a value that never came."""
    with pytest.raises(UsageError) as refused:
        ar.watch("run1", "order.totl", recorded([{"order": {"total": 1}}]))
    assert str(refused.value) == "run1 has no order.totl at any step; did you mean order.total?"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("order..total", "column 6"),
        ("", "empty"),
        ("nosuch(@)", "Unknown function"),
        ("x" * 2_001, "2,000 characters at most"),
        ("(" * 1_500, "JMESPath"),
    ],
)
def test_what_is_no_expression_is_refused(text: str, message: str) -> None:
    """The message says where."""
    with pytest.raises(UsageError) as refused:
        ar.watch("run1", text, recorded([{"n": 1}, {"n": 2}]))
    assert message in str(refused.value)


def test_the_whole_state_can_be_watched() -> None:
    """Messages and usage too; a path into the payload is known as one."""
    store = MemoryStore()
    refunds.step.run(refunds.START, store=store)
    told = ar.watch("run1", "length(messages)", store, whole=True)
    assert told.values() == [0, *range(3, 22, 2)]
    assert told.path is None
    assert ar.watch("run1", "payload.order.total", store, whole=True).path == "/order/total"
    assert ar.watch("run1", "status", store, whole=True).path is None
    assert ar.watch("run1", "status", store, whole=True).values()[-1] == "failed"


def test_numbers_for_a_chart_are_numbers_only() -> None:
    """Truth is 0 or 1, a Decimal a number, and what no chart has room for is left out."""
    given_values: list[Any] = [1, 2.5, True, "3", None, MISSING, float("nan"), float("inf"), Decimal("1.5"), 10**400]
    stored = [value if value is MISSING else encode(value).stored for value in given_values]
    assert list(numbers_of(stored)) == [1.0, 2.5, 1.0, None, None, None, None, None, 1.5, None]


def test_a_run_that_has_not_begun_a_round_has_one_step() -> None:
    """Step 0, the start."""
    told = ar.watch("run1", "n", recorded([{"n": 1}]))
    assert (told.changed, told.last, told.values()) == ((), 0, [1])


HOSTILE = [
    "|".join(["[@,@]"] * 60),
    "|".join(["{a:@,b:@}"] * 60),
    "|".join(["[@,@]"] * 60 + ["to_string(@)"]),
    "|".join(["[@,@]"] * 60 + ["length(to_string(@))"]),
    "|".join(["[@,@]"] * 60) + "|" + "[]" * 60,
    "[" + "|".join(["[@,@]"] * 60) + "," + "|".join(["[@,@]"] * 60) + "]|[0]==[1]",
    "'x'|" + "|".join(["join('y',[@,@,@,@])"] * 60),
    "'x'|" + "|".join(["join(@,[@,@,@,@,@,@,@])"] * 50),
    "|".join(["[@,@]"] * 60 + ["sort_by(@,&to_string(@))"]),
    "|".join(["[@,@]"] * 60 + ["contains(@,@)"]),
    "|".join(["[@,@]"] * 60 + ["map(&to_string(@),@)"]),
    "|".join(["[@,@]"] * 60 + ["[*]"] * 8),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_short_expression_cannot_ask_for_more_than_there_is(text: str) -> None:
    """What doubles sixty times ends as an expression that does not apply, before it takes memory or hours."""
    assert len(text) <= LONGEST
    value, problem = Expression(text).over({"a": [1, "b"], "c": {"d": None}})
    assert value is MISSING
    assert problem is not None
    assert "500,000 parts" in problem


def test_comparisons_within_comparisons_are_evaluated_once_each() -> None:
    """A hundred of them are a hundred, not two to the hundredth."""
    nested = "a"
    for _ in range(100):
        nested = f"({nested}==a)"
    assert Expression(nested).over({"a": False}) == (False, None)


def test_values_that_are_large_by_themselves_are_watched() -> None:
    """A payload of a hundred thousand parts is none that is made up."""
    large = {"items": [{"price": at, "name": f"item {at}"} for at in range(50_000)]}
    assert Expression("sum(items[].price)").over(large) == (sum(range(50_000)), None)
    assert Expression("items[?price > `49998`].name").over(large) == (["item 49999"], None)


def test_an_expression_that_applies_nowhere_is_told_by_a_value_that_was_there() -> None:
    """Not by the start, at which the path leads to nothing yet, nor by an end at which it was removed again."""
    trees = [(0, {}), (1, {"n": 3}), (2, {"n": 4}), (3, {})]
    with pytest.raises(UsageError, match=r'length\(n\) applies to no step of run1: .*received: "number"$'):
        watch_in(trees, Expression("length(n)"), run="run1")
    with pytest.raises(UsageError, match=r'applies to no step of run1: .*received: "null"$'):
        watch_in(trees[:1], Expression("length(n)"), run="run1")
