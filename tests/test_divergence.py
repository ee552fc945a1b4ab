"""A divergence says where it is, what was expected, what was found and what to do next, whatever was recorded."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.cli.render_divergence import render_coverage, render_difference, render_differences, to_type
from agentreplay.recorder.hashes import same
from agentreplay.replay.changes import MISSING, Change
from agentreplay.replay.diff import diff_values
from agentreplay.replay.divergence import (
    Difference,
    Kind,
    Nearest,
    arguments_differ,
    call_difference,
    classify_call,
    missing_call,
    nearest_of,
    value_difference,
)
from agentreplay.replay.ignoring import IgnoreRules
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

HOSTILE = "\x1b[31mred\x1b[0m \x9b31m \x07\x7f [bold]markup[/] [/nope] \u202ereversed\n \ud800"


@dataclass
class Recorded:
    call: str
    seq: int
    kind: str
    name: str
    arguments: Any


SEARCH = Recorded("7.2", 41, "tool", "search", {"q": "refund", "options": {"limit": 5, "request_id": "r-1"}})
LATER = Recorded("7.3", 44, "tool", "search", {"q": "parcel", "options": {"limit": 5}})
ASK = Recorded("7.4", 47, "model", "ask", {"messages": [{"role": "user", "content": "Hi"}]})


def message(difference: Difference) -> list[str]:
    return difference.message().splitlines()


def shown(*differences: Difference, encoding: str = "utf-8", colours: bool = False, full: bool = False) -> str:
    """What `render_differences` writes to a file, or to a terminal."""
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace", newline="")
    page = Console(file=file, width=100_000, force_terminal=colours, color_system="standard" if colours else None)
    render_differences(page, differences, full=full)
    file.flush()
    return raw.getvalue().decode(encoding)


# -- which kind it is ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "strand", "others", "kind", "call"),
    [
        (("tool", "search", {"q": "x"}), [SEARCH, LATER], [], "other arguments", "7.2"),
        (("tool", "search", {"q": "parcels", "options": {"limit": 5}}), [SEARCH, LATER], [], "other arguments", "7.2"),
        (("tool", "search", {"q": "x"}), [ASK, LATER], [], "other arguments", "7.3"),
        (("tool", "search", {"q": "x"}), [ASK], [LATER], "other arguments", "7.3"),
        (("tool", "search", {"q": "x"}), [], [LATER], "other arguments", "7.3"),
        (("tool", "search", LATER.arguments | {"n": 1}), [ASK, SEARCH, LATER], [], "other arguments", "7.3"),
        (("tool", "find", SEARCH.arguments), [SEARCH, LATER], [], "another call", "7.2"),
        (("model", "search", SEARCH.arguments), [SEARCH], [], "another call", "7.2"),
        (("tool", "find", LATER.arguments), [SEARCH, LATER], [], "extra call", "7.3"),
        (("tool", "find", {"q": "refund"}), [LATER, SEARCH], [], "extra call", "7.2"),
        (("tool", "find", {"q": "refund"}), [], [ASK], "extra call", "7.4"),
        (("tool", "find", {"q": "refund"}), [], [], "extra call", None),
    ],
)
def test_a_call_parts_by_its_name_or_by_its_arguments(
    asked: tuple[str, str, Any], strand: list[Recorded], others: list[Recorded], kind: Kind, call: str | None
) -> None:
    """The same name asks something else; the same arguments go to another tool; otherwise it is one more call."""
    found, candidate = classify_call(*asked, strand, others)
    assert found == kind
    assert (candidate.call if candidate else None) == call


def test_the_nearest_call_has_the_same_name_and_the_fewest_differences() -> None:
    """A name outweighs any number of differences; of equally near calls the first one is meant."""
    near = Recorded("1.1", 1, "tool", "find", {"q": "refund"})
    far = Recorded("1.2", 2, "tool", "search", {"q": "something else", "n": 1})
    closer = Recorded("1.3", 3, "tool", "search", {"q": "refunds"})
    again = replace(closer, call="1.4")
    found = nearest_of("tool", "search", {"q": "refund"}, [near, far, closer, again])
    assert found == Nearest("1.3", "tool", "search", diff_values({"q": "refunds"}, {"q": "refund"}))
    assert str(found) == 'call 1.3, tool search: q "refunds" → "refund"'
    assert str(nearest_of("tool", "find", {"q": "refund"}, [near])) == "call 1.1, tool find: with the same arguments"
    assert str(nearest_of("tool", "other", {"q": "refund"}, [far, near])) == (
        "call 1.1, tool find: with the same arguments"
    )
    assert nearest_of("tool", "search", {}, []) is None


def test_a_list_with_one_more_item_is_nearer_than_another_list() -> None:
    """An insertion is one difference, not one for each item after it."""
    one_more = Recorded("1.1", 1, "model", "ask", {"m": [0, *range(10)]})
    another = Recorded("1.2", 2, "model", "ask", {"m": [*range(7), 11, 12, 13]})
    found = nearest_of("model", "ask", {"m": list(range(10))}, [another, one_more])
    assert found is not None
    assert found.call == "1.1"


def test_of_very_many_calls_some_are_looked_at() -> None:
    """The first twenty of that name; however large they are, they are found without a look at the others."""
    messages = [{"role": "user", "content": f"message {at} " * 60} for at in range(300)]
    calls = [Recorded(f"1.{at}", at, "tool", "other", {}) for at in range(100)]
    calls += [Recorded(f"2.{at}", at, "model", "ask", {"m": messages[: 250 + at]}) for at in range(40)]
    found = nearest_of("model", "ask", {"m": messages}, calls)
    assert found is not None
    assert found.call == "2.19"


# -- what it says --------------------------------------------------------------------------------------


def test_other_arguments_name_the_place_and_the_rule_that_ignores_it() -> None:
    """Where, what, path, expected, actual, what else, and what to type."""
    asked = {"q": "refund", "options": {"limit": 10, "request_id": "r-1"}, "verbose": True}
    difference = call_difference("tool", "search", asked, [SEARCH, LATER], step=7, site="agent.py:123")
    assert message(difference) == [
        "step 7, call 7.2: other arguments",
        "  where     agent.py:123, tool search",
        '  what      key "limit" of options has another value',
        "  path      /options/limit",
        "  expected  5",
        "  actual    10",
        "  also      verbose is new: true",
        "  next      If this is different each time: --ignore 'tool:search:$.options.limit' --ignore "
        "'tool:search:$.verbose'. If the code is meant to ask for this, record the run again; --collect shows what "
        "else differs.",
    ]


def test_a_nearer_call_than_the_next_one_is_named() -> None:
    """The next call of that name is what was expected; another one may be what was meant."""
    asked = {"q": "parcels", "options": {"limit": 5}}
    difference = call_difference("tool", "search", asked, [SEARCH, LATER], step=7)
    assert difference.call == "7.2"
    assert message(difference)[-2] == '  nearest   call 7.3, tool search: q "parcel" → "parcels"'


@pytest.mark.parametrize(
    ("expected", "actual", "what", "path"),
    [
        ({"q": 1}, {"q": 2}, 'argument "q" has another value', "/q"),
        ({"q": 1}, {"q": "1"}, 'argument "q" has another value', "/q"),
        ({"q": 1}, {"q": 1, "n": 5}, 'argument "n" is new', "/n"),
        ({"q": 1, "n": None}, {"q": 1}, 'argument "n" is gone', "/n"),
        ({"q": 1}, {"query": 1}, 'argument "q" is called "query" now', "/query"),
        ({"q": 1}, {"query": 2}, 'argument "query" is new', "/query"),
        ({"o": {"a/b": 1}}, {"o": {"c": 1}}, 'key "a/b" of o is called "c" now', "/o/c"),
        ({"o": {"x": [{"k": 1}]}}, {"o": {"x": [{"k": 2}]}}, 'key "k" of o.x[0] has another value', "/o/x/0/k"),
        ({"l": [1, 2]}, {"l": [1, 2, 3]}, "item 2 of l is new", "/l/2"),
        ({"l": [1, 2, 3]}, {"l": [1, 3]}, "item 1 of l is gone", "/l/1"),
        ({"l": ["a", "b"]}, {"l": ["b", "a"]}, 'argument "l" is in another order: [1] was [0]', "/l"),
        ([1], [1, 2], "item 1 of the list is new", "/1"),
        ([{"id": 1}, {"id": 2}], [{"id": 2}, {"id": 1}], "the whole is in another order: [1] was [0]", ""),
        (1, 2, "the whole has another value", ""),
    ],
)
def test_a_changed_value_is_told_from_a_changed_name(expected: Any, actual: Any, what: str, path: str) -> None:
    """What is new, gone, renamed or moved is said as such."""
    recorded = replace(SEARCH, arguments=expected)
    difference = call_difference("tool", "search", actual, [recorded], step=1)
    assert (difference.what, difference.path) == (what, path)
    assert difference.changes == arguments_differ(expected, actual)[0]


def test_what_differs_is_what_stands_at_the_path() -> None:
    """Expected and actual are the values there, or missing, or the lists whose order differs."""
    renamed = call_difference("tool", "search", {"query": "x"}, [replace(SEARCH, arguments={"q": "x"})], step=1)
    assert (renamed.expected, renamed.actual) == (MISSING, "x")
    assert message(renamed)[4:6] == ["  expected  nothing", '  actual    "x"']
    lists = {"a": {"l": ["x", "y"]}}, {"a": {"l": ["y", "x"]}}
    moved = value_difference("another payload", *lists, step=1)
    assert (moved.path, moved.expected, moved.actual) == ("/a/l", ["x", "y"], ["y", "x"])


def test_another_call_shows_both_calls() -> None:
    """As people write them."""
    difference = call_difference("tool", "find", SEARCH.arguments, [SEARCH], step=7, site="agent.py:9")
    assert message(difference) == [
        "step 7, call 7.2: another call",
        "  where     agent.py:9, tool find",
        "  what      the code calls something else with the same arguments",
        '  expected  tool search(q="refund", options={"limit": 5, "request_id": "r-1"})',
        '  actual    tool find(q="refund", options={"limit": 5, "request_id": "r-1"})',
        "  next      If the code is meant to call this instead, record the run again; --collect shows what else "
        "differs.",
    ]


def test_an_extra_call_names_the_nearest() -> None:
    """With what differs from it; the recording's next event is where it parts."""
    difference = call_difference("tool", "find", {"q": "refund"}, [SEARCH, LATER], step=7)
    assert (difference.seq, difference.call, difference.expected) == (41, None, MISSING)
    assert message(difference) == [
        "step 7: extra call",
        "  where     tool find",
        "  what      the code makes a call that the recording does not have here",
        "  expected  nothing",
        '  actual    tool find(q="refund")',
        '  nearest   call 7.2, tool search: options is gone: {"limit": 5, "request_id": "r-1"}',
        "  next      If the code is meant to make this call, record the run again; --collect shows what else differs.",
    ]


def test_a_missing_call_shows_what_was_recorded() -> None:
    """There is no line of code to name but where the code was waiting."""
    assert message(missing_call(ASK, step=7)) == [
        "step 7, call 7.4: missing call",
        "  where     model ask",
        "  what      the code does not make this call",
        '  expected  model ask(messages=[{"role": "user", "content": "Hi"}])',
        "  actual    nothing",
        "  next      If the code is meant to leave this call out, record the run again; --collect shows what else "
        "differs.",
    ]


@pytest.mark.parametrize(
    ("kind", "ignored"),
    [
        ("another decision", "decision:$.step"),
        ("another payload", "payload:$.step"),
        ("another outcome", "outcome:$.step"),
        ("another error", "error:$.step"),
    ],
)
def test_another_result_offers_to_start_from_the_recorded_state(kind: Kind, ignored: str) -> None:
    """The code changed at this step; the steps before need not run again."""
    difference = value_difference(kind, {"step": "Chat"}, {"step": "Retry"}, step=7, seq=50, run="run42")
    assert message(difference) == [
        f"step 7: {kind}",
        '  what      key "step" has another value',
        "  path      /step",
        '  expected  "Chat"',
        '  actual    "Retry"',
        "  next      The code, or something it reads unrecorded, changed at step 7: `agentreplay rerun run42 --step 7 "
        "--prefix=fold` starts from the recorded state, without executing the steps before. If this is different each "
        f"time: --ignore '{ignored}'.",
    ]


def test_a_result_that_only_one_side_has_is_missing_on_the_other() -> None:
    """Nothing is compared, and no rule can leave it out; before the first step there is none to start from but it."""
    more = value_difference("another decision", MISSING, {"step": "Chat"}, step=0)
    assert message(more) == [
        "before step 1: another decision",
        "  what      the recording has none here",
        "  expected  nothing",
        '  actual    {"step": "Chat"}',
        "  next      The code, or something it reads unrecorded, changed before step 1: `agentreplay rerun RUN --step "
        "1 --prefix=fold` starts from the recorded state, without executing the steps before.",
    ]
    less = value_difference("another error", {"type": "KeyError"}, MISSING, step=2)
    assert message(less)[1:4] == [
        "  what      the code does not come to this",
        '  expected  {"type": "KeyError"}',
        "  actual    nothing",
    ]


def test_a_whole_result_is_not_offered_to_be_ignored() -> None:
    """A replay that ignores all that a round decided compares nothing; a value that was read may be ignored."""
    assert "--ignore" not in value_difference("another outcome", "continue", "complete", step=1).hint
    assert value_difference("another value read", 1, 2, step=1, name="clock", site="a.py:5").hint == (
        "If this is different each time: --ignore read:clock. Read what is different each time through context.now(), "
        "context.random, context.uuid4() or context.read(), or record with capture=, so that a replay can answer it."
    )


def test_a_read_of_a_name_is_not_told_to_be_read_through_the_context() -> None:
    """It is already: another value of it follows from other code."""
    assert value_difference("another value read", MISSING, {"source": "orders"}, step=1, name="orders").hint == (
        "If the code is meant to read this here, record the run again; --collect shows what else differs."
    )


def test_another_conversation_at_the_start_says_where_it_may_come_from() -> None:
    """Only before the first step: later ones are edited by the code itself."""
    then, now = ({"start": 0, "stop": 0, "messages": messages} for messages in (["a"], ["a", "b"]))
    brought = "The conversation that the code brings with it is another one than then"
    assert value_difference("another message", then, now, step=0).hint.startswith(brought)
    assert brought not in value_difference("another message", then, now, step=1).hint
    assert brought not in value_difference("another message", {"message": "a"}, {"message": "b"}, step=0).hint


def test_a_read_names_its_source_and_line() -> None:
    """What differs is what was read."""
    difference = value_difference("another value read", 1, 2, step=3, name="clock", site="a.py:5")
    assert message(difference)[:5] == [
        "step 3: another value read",
        "  where     a.py:5, reading clock",
        "  what      the whole has another value",
        "  expected  1",
        "  actual    2",
    ]


def test_a_hint_names_at_most_three_rules() -> None:
    """More are not worth typing."""
    arguments = dict.fromkeys("abcde", 1)
    recorded = replace(SEARCH, arguments=arguments)
    hint = call_difference("tool", "search", dict.fromkeys(arguments, 2), [recorded], step=1).hint
    assert hint.startswith(
        "If this is different each time: --ignore 'tool:search:$.a' --ignore 'tool:search:$.b' "
        "--ignore 'tool:search:$.c' and 2 more rules. "
    )


def test_what_is_ignored_is_not_what_differs() -> None:
    """Rules are applied to both sides before they are compared, in calls and in results."""
    rules = IgnoreRules(["$..request_id", "decision:$.confidence"])
    asked = {"q": "refund", "options": {"limit": 10, "request_id": "r-2"}}
    difference = call_difference("tool", "search", asked, [SEARCH, LATER], step=7, ignore=rules)
    assert [change.path for change in difference.changes] == ["/options/limit"]
    assert difference.hint.startswith("If this is different each time: --ignore 'tool:search:$.options.limit'. ")
    found = {"confidence": 0.5, "step": "Chat"}, {"confidence": 0.75, "step": "Retry"}
    decided = value_difference("another decision", *found, step=7, ignore=rules)
    assert (decided.path, decided.expected, decided.actual) == ("/step", "Chat", "Retry")
    later = {"q": "parcel", "options": {"limit": 5, "request_id": "r-3"}}
    renamed = call_difference("tool", "find", later, [LATER], step=7, ignore=rules)
    assert renamed.kind == "another call"


def test_a_long_text_is_shown_where_it_differs() -> None:
    """With its length, and cut on either side."""
    before, after = ["x" * 300 + f" was {word} to " + "y" * 300 for word in ("shipped", "delivered")]
    difference = value_difference("another payload", {"notes": before}, {"notes": after}, step=1)
    assert difference.shown() == (
        f'…"{"x" * 25} was shipped to {"y" * 89}"… (616 characters)',
        f'…"{"x" * 25} was delivered to {"y" * 87}"… (618 characters)',
    )


def test_values_that_look_alike_are_told_apart() -> None:
    """In ASCII, or by a fingerprint of their content; also in a long text."""
    assert value_difference("another payload", {"a": "é"}, {"a": "e\u0301"}, step=1).shown() == (
        '"\\xe9"',
        '"e\\u0301"',
    )
    assert value_difference(
        "another payload", {"a": "x" * 300 + "é"}, {"a": "x" * 300 + "e\u0301"}, step=1
    ).shown() == (
        f'…"{"x" * 30}\\xe9" (301 characters)',
        f'…"{"x" * 30}e\\u0301" (302 characters)',
    )
    first, second = value_difference("another payload", {"a": [0] * 200}, {"a": {"b": [0] * 200}}, step=1).shown()
    assert first == "[200 items, 401 bytes]"
    assert second == "{1 key, 407 bytes}"


def test_a_message_is_short_however_large_the_values_are() -> None:
    """Arguments of a megabyte, a hundred differences, a name of ten thousand characters."""
    old = {"messages": [{"role": "user", "content": f"{at} " * 300, "id": at} for at in range(1000)]}
    new = {"messages": [{**item, "id": item["id"] + (item["id"] < 100)} for item in old["messages"]]}
    changed = call_difference("model", "ask", new, [replace(ASK, arguments=old)], step=1)
    assert len(changed.message()) < 1200
    extra = call_difference("tool", "f" * 10_000, new, [replace(ASK, arguments=old)], step=1)
    assert len(extra.message()) < 2500


def test_nothing_recorded_acts_in_a_message() -> None:
    """Names, keys, values and places may hold anything; a message has the lines that we gave it."""
    recorded = Recorded(HOSTILE, 1, "tool", HOSTILE, {HOSTILE[:-1]: HOSTILE, "a": 1})
    asked = {HOSTILE[:-1]: HOSTILE + "!", "a": 1, HOSTILE[:3]: 2}
    for difference in (
        call_difference("tool", HOSTILE, asked, [recorded], step=1, site=HOSTILE),
        call_difference("tool", "other" + HOSTILE, asked, [recorded], step=1, site=HOSTILE),
        missing_call(recorded, step=1, site=HOSTILE),
        value_difference("another value read", HOSTILE, "x", step=1, name=HOSTILE, site=HOSTILE),
    ):
        assert all(line.isprintable() for line in message(difference))
        assert all(line.isprintable() for line in shown(difference).splitlines())


# -- as data -------------------------------------------------------------------------------------------


def test_a_difference_as_json_says_all() -> None:
    """The fields in order; what is missing is null there, and told from null in `changes`."""
    difference = call_difference(
        "tool", "search", {"q": "refund"}, [SEARCH, LATER], step=7, site="agent.py:123", run="run42"
    )
    data = difference.to_json()
    hint = data.pop("hint")
    assert hint.startswith("If this is different each time: --ignore 'tool:search:$.options'. ")
    assert list(difference.to_json())[:10] == [
        *("step", "seq", "kind", "path", "expected", "actual", "call", "name", "site", "hint"),
    ]
    gone = {"limit": 5, "request_id": "r-1"}
    assert data == {
        "step": 7,
        "seq": 41,
        "kind": "other arguments",
        "path": "/options",
        "expected": gone,
        "actual": None,
        "call": "7.2",
        "name": "search",
        "site": "agent.py:123",
        "nearest": {"call": "7.2", "kind": "tool", "name": "search"},
        "changes": [{"path": "/options", "display": "options", "kind": "remove", "old": gone, "cause": None}],
    }
    assert json.loads(json.dumps(difference.to_json())) == difference.to_json()


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=4),
    max_leaves=12,
)


@given(TREES, TREES)
def test_every_difference_can_be_told(expected: Any, actual: Any) -> None:
    """By message, as JSON and on a terminal; and its two sides never look the same."""
    difference = value_difference("another payload", expected, actual, step=1)
    before, after = difference.shown()
    assert (before == after) == (not difference.changes) == same(expected, actual)
    assert difference.message().splitlines()[0] == "step 1: another payload"
    json.dumps(difference.to_json())
    assert shown(difference).startswith("step 1: another payload\n")


@given(TREES, st.lists(TREES, max_size=5))
def test_the_nearest_is_one_of_the_candidates(arguments: Any, candidates: list[Any]) -> None:
    """One that asks the same if there is one."""
    calls = [Recorded(str(at), at, "tool", "f", tree) for at, tree in enumerate(candidates)]
    found = nearest_of("tool", "f", arguments, calls)
    equal = [call.call for call in calls if same(call.arguments, arguments)]
    assert (found.call if found else None) in (equal[:1] or [call.call for call in calls] or [None])


# -- as an error ---------------------------------------------------------------------------------------


def test_a_divergence_is_an_error_that_says_what_its_difference_says() -> None:
    """Its attributes hold the same as data."""
    difference = missing_call(ASK, step=7)
    error = ar.Divergence(difference, notes=["two results came in another order"])
    assert isinstance(error, ar.AgentReplayError)
    assert error.difference is difference
    assert error.differences == (difference,)
    assert str(error) == difference.message() + "\nnote: two results came in another order"


def test_a_divergence_of_many_differences_lists_the_first_ones() -> None:
    """The first as a whole, the others by a line each, and how many there are besides."""
    first = missing_call(ASK, step=7)
    more = [value_difference("another outcome", "continue", "complete", step=at) for at in range(8, 8 + 25)]
    lines = str(ar.Divergence(first, *more)).splitlines()
    assert lines[:6] == message(first)
    assert lines[6:9] == ["25 more:", "  step 8: another outcome", "  step 9: another outcome"]
    assert lines[26:] == ["  step 27: another outcome", "  and 5 more"]


def test_a_divergence_passes_between_processes() -> None:
    """As an error of a pool's worker does."""
    difference = call_difference("tool", "find", {"q": "refund"}, [SEARCH], step=7)
    error = pickle.loads(pickle.dumps(ar.Divergence(difference, notes=["n"])))
    assert str(error) == str(ar.Divergence(difference, notes=["n"]))
    assert error.difference == difference
    assert error.difference.expected is MISSING


# -- on a terminal -------------------------------------------------------------------------------------


def test_changed_arguments_stand_like_the_lines_of_a_diff() -> None:
    """Under where it is; the recorded value is the left one."""
    asked = {"q": "refund", "options": {"limit": 10, "request_id": "r-1"}, "verbose": True}
    difference = call_difference("tool", "search", asked, [SEARCH], step=7, site="agent.py:123")
    assert shown(difference).splitlines() == [
        "step 7, call 7.2: other arguments",
        "  agent.py:123, tool search",
        '  key "limit" of options has another value',
        "~ options.limit  5 → 10",
        "+ verbose  true",
        f"  next  {difference.hint}",
        "",
    ]


def test_whole_calls_stand_under_each_other() -> None:
    """What was recorded with a minus, what the code does with a plus; only what there is."""
    extra = call_difference("tool", "find", {"q": "refund"}, [LATER], step=7, site="agent.py:123")
    other = call_difference("tool", "find", LATER.arguments, [LATER], step=7)
    assert shown(other, extra, missing_call(LATER, step=7)).splitlines() == [
        "step 7, call 7.3: another call",
        "  tool find",
        "  the code calls something else with the same arguments",
        '- tool search(q="parcel", options={"limit": 5})',
        '+ tool find(q="parcel", options={"limit": 5})',
        f"  next  {other.hint}",
        "",
        "step 7: extra call",
        "  agent.py:123, tool find",
        "  the code makes a call that the recording does not have here",
        '+ tool find(q="refund")',
        '  nearest  call 7.3, tool search: q "parcel" → "refund"; options is gone: {"limit": 5}',
        f"  next  {extra.hint}",
        "",
        "step 7, call 7.3: missing call",
        "  tool search",
        "  the code does not make this call",
        '- tool search(q="parcel", options={"limit": 5})',
        "  next  If the code is meant to leave this call out, record the run again; --collect shows what else differs.",
        "",
        "3 differences",
    ]


def test_few_of_many_changes_are_shown_unless_all_are_asked_for() -> None:
    """The first eight, and how many there are besides."""
    old, new = {str(at): "a" * 200 for at in range(10)}, {str(at): "b" * 200 for at in range(10)}
    difference = value_difference("another payload", old, new, step=1)
    lines = shown(difference).splitlines()
    assert [line for line in lines if line.startswith("~")][7] == '~ ["7"]  text, 200 → 200 characters'
    assert "  … 2 more changes" in lines
    assert shown(difference, full=True).count("~ ") == 10
    assert "…" not in shown(difference, full=True).split("next")[0]
    whole = replace(difference, changes=(), expected="a" * 300, actual="b" * 300)
    assert f'- "{"a" * 300}"' in shown(whole, full=True).splitlines()


def test_colours_are_for_terminals() -> None:
    """Anything else gets the same text without them; what cannot be encoded is escaped."""
    difference = missing_call(LATER, step=7)
    assert "\x1b[31m" in shown(difference, colours=True)
    assert "\x1b" not in shown(difference)
    assert "\\u2026" in shown(replace(difference, hint="…"), encoding="ascii")


def test_commands_in_a_hint_work_where_they_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """They name this program, however it is called; the rest of a hint stays."""
    monkeypatch.setattr("agentreplay.cli.render_divergence.command", lambda words: f"./agentreplay {words} --store s")
    hint = value_difference("another payload", {"a": 1}, {"a": 2}, step=7, run="run42").hint
    assert to_type(hint) == hint.replace(
        "`agentreplay rerun run42 --step 7 --prefix=fold`",
        "`./agentreplay rerun run42 --step 7 --prefix=fold --store s`",
    )
    assert to_type("--ignore 'payload:$.a'") == "--ignore 'payload:$.a'"


def coverage_lines(coverage: dict[str, int], notes: Sequence[str] = (), rules: Sequence[str] = ()) -> list[str]:
    file = io.StringIO()
    render_coverage(Console(file=file, width=100_000), coverage, notes, unused_rules=rules)
    return file.getvalue().splitlines()


def test_coverage_is_one_line_and_its_notes() -> None:
    """What was answered, made live, never captured and not asked for; and rules that may be misspelt."""
    assert coverage_lines({"recorded": 1200, "live": 0, "uncaptured": 0, "unused": 0}) == [
        "coverage  1,200 answered from the recording · 0 made live · 0 never captured · 0 recorded and not asked for"
    ]
    assert coverage_lines({"recorded": 3, "live": 2, "uncaptured": 1, "unused": 4}, [HOSTILE[:3]], ["$.x"]) == [
        "coverage  3 answered from the recording · 2 made live · 1 never captured · 4 recorded and not asked for",
        "  note  \\x1b[3",
        "  note  the ignore rule $.x matched nothing",
    ]


def test_one_difference_can_be_rendered_by_itself() -> None:
    """A difference that somebody made by hand needs no more than a kind and a step."""
    file = io.StringIO()
    page = Console(file=file, width=100_000)
    render_difference(page, Difference("another payload", 2, changes=(Change("/a", "add", new=1),)))
    assert file.getvalue().splitlines() == ["step 2: another payload", '  key "a" is new', "+ a  1"]
