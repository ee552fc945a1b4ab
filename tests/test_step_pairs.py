"""Which step is which: an alignment keeps the order, loses nothing, and finds what is like what."""

from __future__ import annotations

from agentreplay.replay.step_pairs import by_content, by_number
from agentreplay.replay.step_prints import StepPrint, respects
from hypothesis import given, settings
from hypothesis import strategies as st


def a_step(step: int, word: str = "Actions", calls: str = "", asked: str = "", payload: str = "p") -> StepPrint:
    """A print with some of its parts; `calls` are names of a letter each."""
    return StepPrint(
        step, step * 10, step * 10 + 9, word, tuple(f"tool {name}" for name in calls), b"", asked.encode(),
        asked.encode(), b"", word.encode(), b"", b"", b"", payload,
    )  # fmt: skip


WORDS = st.sampled_from(["Actions", "Retry", "Chat"])
STEPS = st.lists(st.tuples(WORDS, st.sampled_from(["", "a", "ab"]), st.sampled_from("xyz")), max_size=12)


def steps_of(drawn: list[tuple[str, str, str]]) -> list[StepPrint]:
    return [a_step(number, word, calls, asked) for number, (word, calls, asked) in enumerate(drawn)]


@given(STEPS, STEPS)
@settings(max_examples=200, deadline=None)
def test_an_alignment_has_every_step_once_and_in_order(
    old: list[tuple[str, str, str]], new: list[tuple[str, str, str]]
) -> None:
    """On both sides, whatever is paired with what."""
    pairs = by_content(steps_of(old), steps_of(new))
    assert [a for a, _ in pairs if a is not None] == list(range(len(old)))
    assert [b for _, b in pairs if b is not None] == list(range(len(new)))


@given(STEPS)
def test_equal_runs_are_aligned_step_by_step(drawn: list[tuple[str, str, str]]) -> None:
    """A run beside itself shifts nothing, also where steps repeat."""
    steps = steps_of(drawn)
    assert by_content(steps, steps) == [(at, at) for at in range(len(steps))]


@given(STEPS, st.data())
def test_as_many_steps_as_can_be_are_paired_where_one_is_left_out(
    drawn: list[tuple[str, str, str]], data: st.DataObject
) -> None:
    """All but the one that only one side has; steps that repeat may stand for each other."""
    steps = steps_of([("Start", "", ""), *drawn])
    at = data.draw(st.integers(1, len(steps))) if len(steps) > 1 else 1
    shorter = [*steps[: at - 1], *steps[at:]] if len(steps) > 1 else steps
    pairs = by_content(steps, shorter)
    assert sum(None in pair for pair in pairs) == len(steps) - len(shorter)
    left = [(a, b) for a, b in pairs if a is not None and b is not None]
    if at > 1:
        assert all(steps[a].whole == shorter[b].whole for a, b in left)


def test_a_step_that_was_replaced_stands_beside_the_new_one() -> None:
    """Nothing of them is alike, and they are in the same place."""
    old = [a_step(0), a_step(1, calls="a", asked="1"), a_step(2, "Chat"), a_step(3, calls="b", asked="3")]
    new = [a_step(0), a_step(1, calls="a", asked="1"), a_step(2, calls="ccc"), a_step(3, calls="b", asked="3")]
    assert by_content(old, new) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_steps_go_by_what_they_call_where_their_arguments_differ() -> None:
    """A step more at the front, and arguments that all differ: names of calls and decisions say which is which."""
    old = [a_step(0), a_step(1, calls="a", asked="1"), a_step(2, "Retry", "b", "2"), a_step(3, "Chat", "c", "3")]
    new = [
        a_step(0),
        a_step(1, "Plan", "z", "0"),
        a_step(2, calls="a", asked="4"),
        a_step(3, "Retry", "b", "5"),
        a_step(4, "Chat", "c", "6"),
    ]
    assert by_content(old, new) == [(0, 0), (None, 1), (1, 2), (2, 3), (3, 4)]


def test_the_best_fit_decides_where_nothing_is_equal() -> None:
    """Of two steps the one that calls more of the same is the one that was there."""
    old = [a_step(0), a_step(1, "Retry", "abc")]
    new = [a_step(0), a_step(1, "Chat", "z"), a_step(2, "Actions", "abd")]
    assert by_content(old, new) == [(0, 0), (None, 1), (1, 2)]


def test_too_much_to_fit_is_taken_in_order() -> None:
    """Three hundred steps against two hundred that have nothing in common are paired one by one."""
    old = [a_step(at, f"w{at}") for at in range(300)]
    new = [a_step(at, f"v{at}") for at in range(250)]
    pairs = by_content(old, new)
    assert pairs[:250] == [(at, at) for at in range(250)]
    assert pairs[250:] == [(at, None) for at in range(250, 300)]


def test_forks_are_aligned_by_number() -> None:
    """Also where one of them ends early, or begins later."""
    old, new = [a_step(3), a_step(4)], [a_step(4), a_step(5)]
    assert by_number(old, new) == [(0, None), (1, 0), (None, 1)]


def test_a_difference_says_in_which_respects() -> None:
    """Equal steps differ in none; how a payload came about counts only where it is another one."""
    one = a_step(1, calls="a", asked="1")
    assert respects(one, a_step(2, calls="a", asked="1")) == ()
    assert respects(one, a_step(1, "Chat", "a", "2", "q")) == ("calls", "decision", "payload")
