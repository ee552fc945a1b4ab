"""The logs of Inspect AI, an evaluation framework: one run for each sample and epoch.

| in the file | in the run |
|---|---|
| task and solver | the agent, `task/solver` |
| a sample, in an epoch | a run; its `input` is the run's |
| `events` | rounds, calls, changes of the payload and reports: see `inspect_events` |
| the state, the store | the payload, `{"state": …, "store": …}`: see `inspect_payload` |
| attachments and pools of messages | put back wherever they are referred to: see `inspect_refs` |
| model, configuration, plan, target, metadata | parameters of the run |
| output, scores, usage, error, limit | how the run ended |

What belongs to the evaluation and not to one sample (results, statistics) is kept in the first run, as reports. A log
without samples gives one run that has nothing else. `inspect_file` reads both shapes of file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from .builder import RunBuilder
from .importing import Importing
from .inspect_file import READS, EvaluationFile, likeness, read_evaluation
from .inspect_messages import End
from .inspect_payload import starting_payload
from .inspect_run import SampleRun
from .inspect_sample import SETUP, Evaluation, SampleImport, begin
from .source import SourceFile, clean_text

FIELDS: Final[dict[str, tuple[type, ...]]] = {"version": (int,), "status": (str,), "eval": (dict,), "plan": (dict,)}
"""Fields of a log that have a place in its runs, and their types."""

STATUSES: Final = {"success": "completed", "cancelled": "cancelled", "started": "interrupted"}
"""Status of an evaluation → that of the run that stands for it; failed for all others."""


class InspectAi:
    """The importer of Inspect AI's evaluation logs."""

    name = "inspect"
    reads = READS

    def detects(self, source: SourceFile) -> float:
        """How surely the file is one, from 0 to 1."""
        return likeness(source)

    def runs(self, work: Importing) -> Iterator[RunBuilder]:
        """The runs in the file, in the order of its samples."""
        file = read_evaluation(work.source)
        evaluation = Evaluation.of(file.fields)
        work.tally.notes += file.notes
        if not file.samples:
            yield self._alone(work, file, evaluation)
        seen: dict[str, str] = {}
        for place, part in enumerate(file.samples):
            sample = SampleImport(work, evaluation, part)
            run = sample.begin()
            name = f"sample {sample.sample.get('id')!r}, epoch {sample.sample.get('epoch')!r}"
            if sample.sample and name in seen:
                work.tally.notes.append(f"{seen[name]} and {part.where} are both {clean_text(name)}; each is a run")
            seen[name] = part.where
            if place == 0:
                self._of_the_file(work, file, run)
            sample.finish()
            yield run

    def _alone(self, work: Importing, file: EvaluationFile, evaluation: Evaluation) -> SampleRun:
        """The run that stands for an evaluation without samples."""
        work.tally.notes.append("the log has no samples; one run stands for the evaluation")
        run = begin(work, evaluation, payload=starting_payload(None), input=None, started=None)
        run.note(params=evaluation.setup)
        self._of_the_file(work, file, run)
        status = STATUSES.get(evaluation.status, "failed")
        end = End(status, evaluation.status or "unknown")
        run.finish(end.status, end.stop_reason)
        if file.fields.get("error"):
            run.fail_with(file.fields["error"])
        return run

    def _of_the_file(self, work: Importing, file: EvaluationFile, run: SampleRun) -> None:
        """Put in a run what belongs to the evaluation, and what is wrong with the file."""
        for note in file.notes:
            run.report(note)
        for defect in file.damaged:
            work.tally.damaged += 1
            work.tally.notes.append(defect.message)
            run.report(defect.message, defect.content, level="warning")
        work.tally.imported += file.restated
        for name, value in file.fields.items():
            types = FIELDS.get(name)
            if types is None:
                work.keep(run, clean_text(name), value)
                continue
            if type(value) not in types:
                work.damage(run, f"`{name}` is not of its type", value)
            work.tally.count(type(value) in types)
        spec: Any = file.fields.get("eval")
        rest = {name: value for name, value in spec.items() if name not in SETUP} if type(spec) is dict else {}
        if rest:
            run.report("the evaluation, but for what is a parameter", rest, event="eval")
        for name, value in file.kept.items():
            work.keep(run, name, value)
