"""The pages of several runs: two side by side, aligned step by step, and the tree of forks that a run belongs to.

A comparison is made once and kept while neither run grows; it holds hashes, not values. One pair of steps is looked
into at a time, the first that differs unless another is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from flask import Blueprint, Flask, Response, current_app, redirect, request
from werkzeug.exceptions import NotFound
from werkzeug.wrappers import Response as AnyResponse

from ..recorder.errors import CorruptLog
from ..recorder.store import RunInfo
from ..replay.changes import Change
from ..replay.compare import RunComparison, StepPair, compare_runs
from ..replay.divergence import CALL_KINDS
from ..replay.excerpt import Skipped, excerpt
from ..replay.forks import RunTree, tree_of
from ..replay.readable import count
from ..replay.run_difference import RunDifference
from ..replay.step_prints import StepPrint
from .addresses import diff_url, event_values, place, run_url, state_values, step_url
from .answers import html_answer
from .differences import ChangeRow, change_rows
from .export_html import html_of
from .pages import page
from .rendering import path_url, query
from .run_pages import run_named
from .site import Kept, site
from .sound import NO_STEP
from .tree_views import tree_view
from .trees import Address
from .views import RunRow, run_row

blueprint = Blueprint("compare", __name__)

FEATURES: Final = frozenset({"compare", "tree", "export"})
"""What these pages offer, as templates ask for it."""

KEPT: Final = 8
"""Comparisons that are kept."""

CONTEXT: Final = 3
PAIRS: Final = 100
"""Pairs that are shown on either side of one that differs, and pairs that differ, unless all are asked for."""

MOST: Final = 3_000
"""Pairs that are shown at all."""

CHANGES: Final = 40
"""Changes of one difference that are listed."""

VALUE: Final = 600
"""Characters of a value that has no path."""

SUGGESTED: Final = 12
"""Runs that are offered to compare with."""

SIGNS: Final = {"same": "=", "payload": "~", "differs": "≠", "missing": "−", "extra": "+"}
WORDS: Final = {
    "same": "the same",
    "payload": "the same, on another payload",
    "differs": "different",
    "missing": "only in the first",
    "extra": "only in the second",
}
"""A sign for each status of a pair of steps, and what it means."""

RELATIONS: Final = {
    "same": "the same run",
    "fork": "{b} is a fork of {a}",
    "parent": "{a} is a fork of {b}",
    "forks": "both are forks of one run",
    "none": "aligned by what their steps did",
}


def register(app: Flask) -> None:
    """Add these pages to an application, and say that it has them."""
    app.register_blueprint(blueprint)
    app.extensions["agentreplay.compared"] = Kept[Compared](KEPT)
    app.extensions["agentreplay"].features.update(FEATURES)


class Compared(NamedTuple):
    """Two runs compared; of damaged ones as far as they are sound, and `problems` say which events are damaged."""

    runs: RunComparison
    problems: tuple[str, ...] = ()


def comparison_of(a: RunInfo, b: RunInfo) -> Compared:
    """Two runs compared, as they are now.

    Raises:
        CorruptLog: not even the start of one of them can be worked out.
    """
    kept: Kept[Compared] = current_app.extensions["agentreplay.compared"]
    key = (a.uid, a.head_seq, a.head_hash, b.uid, b.head_seq, b.head_hash)
    return kept.get(key, lambda: _compared(a, b))


def _compared(a: RunInfo, b: RunInfo) -> Compared:
    store, reader = site().store, site().reader
    try:
        return Compared(compare_runs(a, b, store))
    except CorruptLog:
        sound = [reader.sound(info, reader.last_step(info), from_start=True) for info in (a, b)]
        problems = tuple([one.problem for one in sound if one.problem])
        if not problems or any(one.step == NO_STEP for one in sound):
            raise
        first, second = [one.seq if one.problem else None for one in sound]
        return Compared(compare_runs(a, b, store, until=(first, second)), problems)


# -- comparing ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PairRow:
    """A pair of steps in the list, or what is left out of it.

    Attributes:
        href: the page on which it is looked into; empty of what both runs have as events.
        sides: of either run the step's number, word and calls; None where it has none.
        differs: in which respects, in words.
        skipped: how much is not shown here, in words; the rest is empty then.
    """

    href: str = ""
    status: str = ""
    sign: str = ""
    label: str = ""
    sides: tuple[tuple[int, str, str] | None, tuple[int, str, str] | None] = (None, None)
    differs: str = ""
    is_first: bool = False
    is_chosen: bool = False
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class DifferenceView:
    """A difference as it is told.

    Attributes:
        what: a sentence.
        where: the call or line that it is about.
        rows: what differs, place by place; `more` are those that are not listed.
        sides: of what has no places, both sides in a line.
        children: the two child runs that it is about, or empty.
    """

    headline: str
    what: str
    where: str
    rows: tuple[ChangeRow, ...]
    more: int
    sides: tuple[str, str] | None
    nearest: str
    children: str


@blueprint.get("/compare")
def start() -> AnyResponse:
    """Ask which runs to compare; `a` and `b` name them."""
    a, b = [request.args.get(name, "").strip() for name in ("a", "b")]
    if a and b:
        return redirect(path_url("compare", run_named(a).id, run_named(b).id), 302)
    chosen = run_named(a) if a else None
    return page("compare_start.html", a="" if chosen is None else chosen.id, runs=_suggested(chosen))


def _suggested(chosen: RunInfo | None) -> list[tuple[RunRow, str]]:
    """Runs to compare a run with, each with the address of the comparison: its kin first, then the newest."""
    names = site().names()
    infos = [info for info in reversed(site().runs()) if chosen is None or info.uid != chosen.uid]
    if chosen is not None:
        kin = {chosen.fork_of, chosen.uid, chosen.parent} - {None}
        infos.sort(key=lambda info: (not kin & {info.uid, info.fork_of}, info.agent != chosen.agent))
    return [
        (run_row(info, names), "" if chosen is None else path_url("compare", chosen.id, info.id))
        for info in infos[:SUGGESTED]
    ]


@blueprint.get("/compare/<a>/<b>")
def compare(a: str, b: str) -> Response:
    """Two runs side by side; `at` is the pair that is looked into, "7:8", "7:" or ":8"; `all=1` lists every step."""
    return page("compare.html", **compare_context(run_named(a), run_named(b)))


def compare_context(old: RunInfo, new: RunInfo) -> dict[str, Any]:
    """What a template is given of two runs side by side, at the pair that the query asks for, or the first difference.

    Raises:
        NotFound: there is no such pair.
    """
    found, problems = comparison_of(old, new)
    chosen = _pair_wanted(found)
    names = site().names()
    rows = list(_rows(found, chosen, full=request.args.get("all") == "1"))
    context: dict[str, Any] = {
        "a": run_row(old, names),
        "b": run_row(new, names),
        "relation": RELATIONS[found.relation].format(a=old.id, b=new.id),
        "is_same": found.is_same,
        "problems": problems,
        "rows": rows,
        "all_url": path_url("compare", old.id, new.id)
        + query(at=request.args.get("at", ""), all="" if request.args.get("all") else "1"),
        "is_all": request.args.get("all") == "1",
        "counts": [(SIGNS[status], number, WORDS[status]) for status, number in found.counts.items() if number],
        "swapped": path_url("compare", new.id, old.id),
        "command": f"agentreplay compare {old.id} {new.id}",
        "chosen": None,
        "told": [],
        "earlier": "",
        "later": "",
    }
    if chosen is not None:
        try:
            context |= _chosen(found, chosen)
        except CorruptLog as error:  # the steps can be told apart, and what is in them cannot be read
            context |= {"problems": (*problems, str(error)), "is_same": False}
    return context


def _pair_wanted(found: RunComparison) -> int | None:
    """The number of the pair that the query asks for, or of the first that differs.

    Raises:
        NotFound: there is no such pair.
    """
    text = request.args.get("at", "")
    if not text:
        return found.first
    numbers = re.fullmatch(r"([0-9]{0,9}):([0-9]{0,9})", text)
    wanted = None if numbers is None else tuple([int(number) if number else None for number in numbers.groups()])
    for at, pair in enumerate(found.pairs):
        if pair.numbers == wanted:
            return at
    raise NotFound(
        f"the runs have no pair of steps {text[:30]!r}; a pair is named as 7:8, or 7: if only the first has it"
    )


def _at(pair: StepPair) -> str:
    return ":".join(["" if number is None else str(number) for number in pair.numbers])


def _pair_url(found: RunComparison, pair: StepPair) -> str:
    return path_url("compare", *[info.id for info in found.runs]) + query(at=_at(pair), all=request.args.get("all", ""))


def _rows(found: RunComparison, chosen: int | None, *, full: bool) -> Iterator[PairRow]:
    """The list of pairs, what is the same shortened."""
    before = found.shared_steps(found.shared or 0 if full and (found.shared or 0) <= MOST else CONTEXT)
    left_out = (found.shared or 0) - len(before)
    if left_out > 0:
        yield PairRow(skipped=f"{count(left_out, 'step')} that both have as events")
    for step in before:
        yield PairRow("", "same", "=", _label(step, step, "shared"), (_side(step), _side(step)))
    shown = 0
    for piece in excerpt(found.pairs, found.first, context=CONTEXT, most=PAIRS, full=full):
        if isinstance(piece, Skipped):
            yield PairRow(skipped=str(piece))
            continue
        if shown >= MOST:
            yield PairRow(skipped=f"more than {MOST:,} steps")
            return
        shown += 1
        at, pair = piece
        told = ", ".join(pair.differs)
        yield PairRow(
            _pair_url(found, pair),
            pair.status,
            SIGNS[pair.status],
            _label(pair.old, pair.new, WORDS[pair.status], told),
            (None if pair.old is None else _side(pair.old), None if pair.new is None else _side(pair.new)),
            told,
            at == found.first,
            at == chosen,
        )


def _side(step: StepPrint) -> tuple[int, str, str]:
    names: dict[str, int] = {}
    for call in step.calls:
        name = call.partition(" ")[2]
        names[name] = names.get(name, 0) + 1
    calls = ", ".join([name + (f" ×{number}" if number > 1 else "") for name, number in names.items()])
    return step.step, step.word or ("–" if step.step else "start"), calls


def _label(old: StepPrint | None, new: StepPrint | None, *words: str) -> str:
    steps = [f"step {step.step}" for step in (old, new) if step is not None]
    return ", ".join([" and ".join(steps), *filter(None, words)])


def _chosen(found: RunComparison, chosen: int) -> dict[str, Any]:
    """What the template is given of the pair that is looked into."""
    pair = found.pairs[chosen]
    odd = [at for at, one in enumerate(found.pairs) if one.status != "same"]
    earlier = next((at for at in reversed(odd) if at < chosen), None)
    later = next((at for at in odd if at > chosen), None)
    numbers = pair.numbers
    both = numbers[0] is not None and numbers[1] is not None
    return {
        "chosen": numbers,
        "chosen_status": WORDS[pair.status],
        "is_first": chosen == found.first,
        "told": [_told(found, difference) for difference in found.differences_at(chosen)],
        "step_urls": [
            None if number is None else step_url(info.id, number)
            for info, number in zip(found.runs, numbers, strict=True)
        ],
        "diff_url": diff_url(*[place(info, number or 0) for info, number in zip(found.runs, numbers, strict=True)])
        if both
        else "",
        "earlier": "" if earlier is None else _pair_url(found, found.pairs[earlier]),
        "later": "" if later is None else _pair_url(found, found.pairs[later]),
    }


def _told(found: RunComparison, difference: RunDifference) -> DifferenceView:
    """A difference as it is told."""
    changes: list[Change] = [change for change in difference.changes if change.keys]
    old_at, new_at = _addresses(found, difference)
    rows = tuple(change_rows(changes[:CHANGES], lambda change: None, old_at, new_at))
    nearest = difference.nearest
    children = ""
    if difference.effect == "agent" and difference.call and difference.call2:
        children = path_url("compare", difference.call, difference.call2)
    return DifferenceView(
        difference.headline,
        difference.what,
        difference.where,
        rows,
        max(len(changes) - CHANGES, 0),
        None if rows else difference.shown(VALUE),
        "" if nearest is None or nearest.call == difference.call else str(nearest),
        children,
    )


def _addresses(found: RunComparison, difference: RunDifference) -> tuple[Address, Address]:
    """Where the values of a difference are, in either run; nowhere if they are not in one place."""
    fields = {
        "another decision": "decision",
        "other arguments": "request" if difference.effect == "model" else "arguments",
        "another result": "response" if difference.effect == "model" else "result",
    }
    sides: list[Address] = []
    for info, step, seq in zip(
        found.runs, (difference.step, difference.step2), (difference.seq, difference.seq2), strict=True
    ):
        if difference.kind == "another payload" and difference.why is None and step is not None:
            sides.append(state_values(info.id, step))
        elif difference.kind in fields and difference.kind not in CALL_KINDS and seq is not None:
            sides.append(event_values(info.id, seq, f"/{fields[difference.kind]}"))
        else:
            sides.append(_nowhere)
    return sides[0], sides[1]


def _nowhere(pointer: str, start: int) -> str:
    return ""


# -- the tree of forks ----------------------------------------------------------------------------------------------


def tree_named(name: str) -> RunTree:
    """The tree of the run that an address names."""
    return tree_of(run_named(name), site().store)


@blueprint.get("/runs/<run>/tree")
def tree(run: str) -> Response:
    """The forks and child runs of a run, and what it comes from."""
    info = run_named(run)
    found = tree_named(run)
    return page(
        "tree.html",
        run=run_row(info, site().names()),
        tree=tree_view(found),
        run_url=run_url(info.id),
        command=f"agentreplay tree {info.id}",
    )


# -- a run as a file ------------------------------------------------------------------------------------------------


@blueprint.get("/runs/<run>/export")
def export(run: str) -> Response:
    """The run as one file that opens without a server; of a damaged one what is sound of it."""
    info = run_named(run)
    answer = html_answer(html_of(site().store, info, in_part=True))
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", info.agent[:60]).strip("-") or "run"
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}.{info.uid[:13]}.html"'
    return answer
