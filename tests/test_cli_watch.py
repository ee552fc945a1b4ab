"""`watch`: an expression over the steps of a run, from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.cli.render_watch import chart
from agentreplay.replay.watching import Expression, watch_in
from cli_runs import invoke, json_of, output


@pytest.fixture(autouse=True)
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the example agent failed, as run1."""
    monkeypatch.chdir(tmp_path)
    output("run", "agentreplay.examples.refunds:step", "--payload", '{"order_id": "A-17", "request": "?"}', code=1)
    return tmp_path


def drawn(values: list[Any], text: str = "n") -> str:
    return chart(watch_in(enumerate([{"n": value} for value in values]), Expression(text)))


def test_a_chart_and_the_changes_are_shown() -> None:
    """With what the steps decided, and what to type to see who is to blame."""
    assert output("watch", "run1", "order.total").splitlines() == [
        "run1  refunds  failed  order.total",
        "",
        " ·██████▁▁▁▁  steps 0 to 10, 77.7 to 129.5",
        "",
        "  0  –",
        "  1  129.5  Actions      “The request names an order.”",
        "  7  77.7   Retry        “The coupon SPRING takes 40 % off the total.”",
        "changed in 2 of 10 steps",
        "",
        "  agentreplay blame run1 /order/total   what changed it, and why",
        "  agentreplay diff run1 --step 7        what else the last of these steps did",
    ]
    assert "step 7, event 64" in output("blame", "run1", "/order/total")


def test_json_tells_spans_without_a_gap() -> None:
    """A missing value is told from null."""
    assert json_of("watch", "run1", "order.total") == {
        "run": "run1",
        "expression": "order.total",
        "path": "/order/total",
        "changed": [1, 7],
        "spans": [
            {"first": 0, "last": 0, "value": None, "missing": True, "problem": None},
            {"first": 1, "last": 6, "value": 129.5, "missing": False, "problem": None},
            {"first": 7, "last": 10, "value": 77.7, "missing": False, "problem": None},
        ],
    }


def test_expressions_that_are_none_are_refused_with_exit_code_2() -> None:
    """The message points at the place."""
    for text, message in [("order..x", "column 6"), ("nothing", "did you mean"), ("sum(reason)", "applies to no step")]:
        result = invoke("watch", "run1", text)
        assert (result.exit_code, result.stdout) == (2, "")
        assert message in result.stderr


def test_numbers_are_bars_and_other_values_letters() -> None:
    """Equal values have equal letters; what is not there is a dot; one number alone is a low bar."""
    assert drawn([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert drawn([5, 5, 5]) == "▁▁▁"
    assert drawn(["a", "b", "a", None, "c"]) == "abacd"
    assert drawn([True, False]) == "█▁"
    assert drawn([1, "one"]) == "ab"
    assert drawn([[n] for n in range(30)]) == "abcdefghijklmnopqrstuvwxyz****"


def test_a_long_run_has_sixty_columns_and_loses_no_peak() -> None:
    """One step of ten thousand that is different is seen."""
    flat = drawn([1] * 4_321 + [9] + [1] * 5_678)
    assert (len(flat), flat.count("█"), flat.count("▁")) == (60, 1, 59)
    assert drawn(["x"] * 5_000 + ["y"] + ["x"] * 5_000).count("b") == 1


def test_many_changes_are_cut_in_the_middle_unless_all_are_wanted() -> None:
    """The line says how many are left out, and how to see them."""
    with ar.record("counter", payload={"n": 0}) as run:
        for n in range(1, 101):
            with run.round() as r:
                r.change(payload={"n": n})
    lines = output("watch", run.id, "n").splitlines()
    assert "      … 61 more changes; --full writes all" in lines
    assert len(lines) == 4 + 41 + 1 + 3
    assert len(output("watch", run.id, "n", "--full").splitlines()) == 4 + 101 + 1 + 3


def test_recorded_text_does_not_act_on_a_terminal() -> None:
    """Nor does the expression."""
    with ar.record("evil", payload={"n": "\x1b[31m\u202e", "\x1b": 1}) as run, run.round():
        pass
    assert "\x1b" not in output("watch", run.id, "n") + output("watch", run.id, '"\\u001b"')
