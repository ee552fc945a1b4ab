"""One place where two recorded runs differ: a divergence, told of two runs instead of code and its recording."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from .changes import MISSING
from .divergence import CALL_KINDS, Difference
from .wording import change_in_a_sentence, shown_name

_STEPS: Final = ("missing step", "extra step")


@dataclass(frozen=True, slots=True)
class RunDifference(Difference):
    """One place where a run differs from another.

    `step`, `seq`, `call` and `expected` are those of the first run, `actual` is of the second. Of an extra step, or one
    that is missing, `expected` or `actual` is `{decision, calls}`.

    Attributes:
        runs: what the two runs are called.
        step2, seq2, call2: of the second run, as far as it has them.
        why: the reason that was given for a change of the payload.
    """

    runs: tuple[str, str] = ("", "")
    step2: int | None = None
    seq2: int | None = None
    call2: str | None = None
    why: str | None = None

    @property
    def headline(self) -> str:
        """Where it is and what kind of difference: `step 7, call 7.2: other arguments`."""
        kind = f"another {self.name}" if self.kind == "another record" and self.name else self.kind
        if self.kind in _STEPS:
            at = 0 if self.kind == "missing step" else 1
            return f"step {(self.step, self.step2)[at]} of {shown_name(self.runs[at])}: {kind}"
        step = f"step {self.step}" if self.step else "before step 1"
        if self.step2 is not None and self.step2 != self.step:
            step += f" (step {self.step2} of {shown_name(self.runs[1])})"
        call = self.call or self.call2
        return f"{step}, call {shown_name(call)}: {kind}" if call else f"{step}: {kind}"

    @property
    def where(self) -> str:
        """What it is about, as in `tool search`; empty if the headline says that."""
        return "" if self.kind == "another record" else super(RunDifference, self).where

    @property
    def what(self) -> str:
        """What happened, in a sentence without its values."""
        first, second = [shown_name(run) for run in self.runs]
        if self.kind == "another call":
            alike = self.nearest is not None and not self.nearest.changes
            return f"{second} calls something else" + (" with the same arguments" if alike else "")
        if self.kind == "missing call":
            return f"{second} does not make this call"
        if self.kind == "extra call":
            return f"{first} does not make this call"
        if self.kind in _STEPS:
            return f"{second if self.kind == 'missing step' else first} has no such step"
        if any(change.keys for change in self.changes):
            noun = {"other arguments": "argument", "another result": "item"}.get(self.kind, "key")
            told = change_in_a_sentence(self.changes, noun)
        elif self.expected is MISSING or self.actual is MISSING:
            told = f"{first if self.expected is MISSING else second} has none here"
        else:
            told = ""
        return ": ".join(filter(None, (told, shown_name(self.why or ""))))

    def to_json(self) -> dict[str, Any]:
        """As of any difference, and `other`, `{step, seq, call}` of the second run, and `why`."""
        other = {"step": self.step2, "seq": self.seq2, "call": self.call2}
        return {**Difference.to_json(self), "other": other, "why": self.why}


def of_two_runs(found: Difference, runs: tuple[str, str], **more: Any) -> RunDifference:
    """A difference that was found as one of code from its recording, as one of two runs.

    Args:
        found: what was found.
        runs: what the runs are called.
        more: other attributes of a `RunDifference`.
    """
    known = {field.name: getattr(found, field.name) for field in fields(Difference)}
    return RunDifference(**{**known, "hint": "", "runs": runs, **more})


__all__ = ["CALL_KINDS", "RunDifference", "of_two_runs"]
