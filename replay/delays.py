"""Timers whose length is not the one that was recorded, and timers that were not recorded at all.

A timer fires by the log, so its length changes nothing in a replay, and much in the world: a time limit of half a
minute does not run out where one of ten milliseconds did. So a limit that has changed is a divergence. A pause that has
is another matter, since the code does the same after it; that is worth a note. And so is a length that the code has
worked out, perhaps from the clock or by chance, which is another one each time: only one that the code names, as a
literal or a variable of a module, can be told to have been changed.
"""

from __future__ import annotations

import ast
import linecache
from contextlib import suppress
from dataclasses import replace
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from ..recorder.ambient_frames import site_of
from ..recorder.delays import Asked
from ..recorder.events import Event
from .changes import MISSING
from .divergence import Difference, hint_for, value_difference

if TYPE_CHECKING:
    from .recorded_run import RecordedRun

PAUSE: Final = "asyncio.sleep"

_NEAR: Final = 0.02, 0.001
"""Seconds, and part of the length, by which one that asyncio has worked out may differ from what it was asked for.

`asyncio.timeout(x)` notes when it is over, and is asked for what is left of that some microseconds later. Nothing else
of the loop runs in between; but the system may, for as long as it lets other processes have their turn.
"""

_DIGITS: Final = 6
"""Digits that a number has at most which a person has written."""

_ARGUMENTS: Final = {"sleep": (0, "delay"), "wait_for": (1, "timeout"), "wait": (1, "timeout"), "timeout": (0, "delay")}
"""By the name of a function, which of its arguments is the length."""


def compare(run: RecordedRun, asked: Asked, fired: Event) -> None:
    """Compare what is asked for with the timer that the recording has there."""
    recorded = getattr(fired.data, "delay", None)
    if recorded is None or _is_near(asked, recorded):
        return
    site = site_of(asked.frame)
    if asked.by != PAUSE and _is_written(asked.delay) and _is_written(recorded) and is_constant(asked):
        trees = {"delay": recorded}, {"delay": asked.recorded}
        where: dict[str, Any] = {"step": fired.round, "seq": fired.seq, "name": asked.by, "site": site}
        difference = value_difference("other arguments", *trees, **where, run=run.info.id)
        # Nothing is raised here: asyncio has not taken over yet what it was given.
        of_child = None if run.parent is None else run.info.id
        run.course.parts_while_closing(replace(difference, effect="timer", run=of_child))
        return
    run.course.coverage.note(
        f"step {fired.round}: {asked.by} at {site} is given {asked.recorded:g} s, and was given {recorded:g} s when it "
        "was recorded; it fires by the log all the same",
        once=(run, "delay", site),
    )


def unexpected(run: RecordedRun, by: str, delay: float, site: str) -> Difference:
    """The difference that a timer makes for which the code waits, and which the recording does not have."""
    step = run.log.round
    return Difference(
        "extra call",
        step,
        name=by,
        expected=MISSING,
        actual={"kind": "timer", "name": by, "arguments": {"delay": delay}},
        site=site,
        hint=hint_for("extra call", run.info.id, step),
        effect="timer",
    )


def _is_near(asked: Asked, recorded: float) -> bool:
    if asked.delay == recorded:
        return True
    if asked.exact and (asked.by != "asyncio.wait_for" or (_is_written(asked.delay) and _is_written(recorded))):
        return False  # what is left until some deadline is given to `wait_for` as a rule, and is never quite the same
    least, part = _NEAR
    return abs(asked.delay - recorded) <= least + part * max(asked.delay, recorded)


def _is_written(number: float) -> bool:
    return float(f"{number:.{_DIGITS}g}") == round(number, 3) or float(f"{number:.{_DIGITS}g}") == number


def is_constant(asked: Asked) -> bool:
    """Whether the code that asks for a length names a number, or a variable of a module that holds one."""
    frame = asked.frame
    found = [call for call in _calls(frame) if _name(call.func) == asked.by.rpartition(".")[2]]
    if len(found) != 1:
        return False
    at, name = _ARGUMENTS.get(asked.by.rpartition(".")[2], (0, "delay"))
    given = [word.value for word in found[0].keywords if word.arg == name] or found[0].args[at : at + 1]
    return len(given) == 1 and type(_value(given[0], frame)) in (int, float)


def _calls(frame: FrameType) -> list[ast.Call]:
    """The calls in the expression that a frame is at."""
    position = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    first, last, start, end = position
    if first is None or last is None or start is None or end is None:
        return []
    lines = [
        linecache.getline(frame.f_code.co_filename, line, frame.f_globals).encode() for line in range(first, last + 1)
    ]
    if not all(lines):
        return []
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    return [node for tree in _parsed(b"".join(lines), start) for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _parsed(source: bytes, indent: int) -> list[ast.AST]:
    """An expression; or what a statement `async with` enters, whose body does not count."""
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    with suppress(SyntaxError, ValueError):
        return [compile(b"(" + source + b")", "<delay>", "eval", flags, dont_inherit=True)]
    with suppress(SyntaxError, ValueError):
        whole: Any = ast.parse(b"async def _():\n" + b" " * indent + source)
        return [item.context_expr for item in getattr(whole.body[0].body[0], "items", ())]
    return []


def _name(called: ast.expr) -> str | None:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else None


def _value(node: ast.expr, frame: FrameType) -> Any:
    """What an expression of literals and variables of modules gives; None if it is anything else."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            code = frame.f_code
            inner = name in code.co_varnames or name in code.co_cellvars or name in code.co_freevars
            is_module = frame.f_locals is frame.f_globals
            return frame.f_globals.get(name) if is_module or not inner else None
        case ast.Attribute(value=inside, attr=name):
            module = _value(inside, frame)
            return vars(module).get(name) if type(module) is ModuleType else None
    return None
