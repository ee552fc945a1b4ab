"""A sample as a run: what frames its events.

Who ran is the task and its solver; the input is the sample's. How the run was set up (target, metadata, model, limits)
are its parameters. It ends as the sample did: an error or a limit fails it, unless the error is a cancellation; a
sample that is not known to have been finished, in an evaluation that was not, shares the fate of the evaluation. Its
value is the text of the model's output; scores and usage are metrics. What else the sample has is kept as reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ..hashes import same
from .conversation import within
from .importing import Importing
from .inspect_events import Events
from .inspect_file import SamplePart
from .inspect_messages import Conversation, End, add_rounds, messages_in, text_of
from .inspect_payload import Documents, starting_payload
from .inspect_refs import References
from .inspect_run import SampleRun
from .source import clean_text, time_of

PARAMETERS: Final = [
    "id",
    "epoch",
    "uuid",
    "target",
    "choices",
    "description",
    "metadata",
    "sandbox",
    "files",
    "setup",
    "message_limit",
    "time_limit",
    "token_limit",
    "token_limit_type",
]
"""Fields of a sample that say how it was set up."""

METRICS: Final = [
    "scores",
    "score",
    "model_usage",
    "role_usage",
    "total_time",
    "working_time",
    "turn_count",
    "token_limit_usage",
    "model_fallbacks",
    "limit",
]
"""Fields of a sample that say what came of it."""

READ: Final = frozenset(
    [
        "input",
        "messages",
        "message_refs",
        "output",
        "store",
        "events",
        "transcript",
        "attachments",
        "events_data",
        "message_pool",
        "call_pool",
        "started_at",
        "completed_at",
        "error",
    ]
)

CANCELLATIONS: Final = ("CancelledError(", "Cancelled(")
"""What the error of a sample that was cancelled begins with."""

SHAPES: Final[dict[str, tuple[type, ...]]] = {
    "id": (str, int),
    "epoch": (int,),
    "input": (str, list),
    "messages": (list, type(None)),
    "events": (list, type(None)),
    "store": (dict, type(None)),
    "attachments": (dict, type(None)),
    "events_data": (dict, type(None)),
    "output": (dict, type(None)),
    "scores": (dict, type(None)),
    "error": (dict, str, type(None)),
    "limit": (dict, type(None)),
}
"""Fields of a sample that are read here, and their types."""

SETUP: Final = [
    "task",
    "task_version",
    "task_args",
    "model",
    "model_args",
    "model_generate_config",
    "model_base_url",
    "model_roles",
    "solver",
    "solver_args",
    "config",
    "sandbox",
]
"""Fields of the evaluation that are parameters of each of its runs."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is known of the evaluation that a sample belongs to.

    Attributes:
        spec: its `eval`.
        plan: its solvers.
        status: started, success, cancelled or error; "" when it is not known.
        created: when it was started.
    """

    spec: Mapping[str, Any]
    plan: Any
    status: str
    created: datetime | None

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Evaluation:
        """From the fields of a log."""
        spec, status = fields.get("eval"), fields.get("status")
        return cls(
            spec if type(spec) is dict else {},
            fields.get("plan"),
            clean_text(status) if type(status) is str else "",
            time_of(within(fields, "stats", "started_at")) or time_of(within(spec, "created")),
        )

    @property
    def agent(self) -> str:
        """The name of the agent: the task, and the solver that was named for it, or else the last of its plan."""
        steps = [step.get("solver") for step in messages_in(within(self.plan, "steps"))]
        solver = next((name for name in [self.spec.get("solver"), *reversed(steps)] if type(name) is str and name), "")
        task = self.spec.get("task")
        return "/".join(name for name in (task, solver) if type(name) is str and name) or "inspect"

    @property
    def setup(self) -> dict[str, Any]:
        """The parameters that all runs of the evaluation share."""
        shared = {name: self.spec[name] for name in SETUP if self.spec.get(name) not in (None, {}, [])}
        return {**shared, "plan": self.plan} if self.plan else shared

    @property
    def source(self) -> dict[str, Any]:
        """What names the evaluation, for where a run comes from."""
        names = ("task", "task_id", "run_id", "eval_id")
        return {name: self.spec[name] for name in names if type(self.spec.get(name)) is str and self.spec[name]}


def begin(
    work: Importing, evaluation: Evaluation, *, payload: Any, input: Any, started: datetime | None, **source: Any
) -> SampleRun:
    """Begin a run; without a time of its own it has that of the evaluation."""
    return SampleRun(
        work.redactor,
        evaluation.agent,
        payload=payload,
        input=input,
        time=started or evaluation.created or work.source.modified,
        source={
            "format": work.format,
            "file": work.source.name,
            "sha256": work.source.address,
            "times": "none" if started is None else "recorded",
            **evaluation.source,
            **source,
        },
    )


class SampleImport:
    """Builds the run of a sample."""

    def __init__(self, work: Importing, evaluation: Evaluation, part: SamplePart) -> None:
        self.work = work
        self.evaluation = evaluation
        self.where = part.where
        self.sample: dict[str, Any] = part.value if type(part.value) is dict else {}
        self.broken = None if type(part.value) is dict else part.value
        self.refs = References.of(self.sample)
        transcript = self.sample.get("transcript")
        events = self.sample.get("events", within(transcript, "events"))
        self.events: list[Any] = events if type(events) is list else []

    def begin(self) -> SampleRun:
        """Begin the run."""
        init = next((event for event in self.events if within(event, "event") == "sample_init"), None)
        self.started_from = within(init, "state")
        self.fields: dict[str, Any] = {
            name: value if name in HEAVY else self.refs.resolve(value) for name, value in self.sample.items()
        }
        times = [
            time_of(self.sample.get("started_at")),
            *(time_of(within(event, "timestamp")) for event in self.events),
        ]
        self.run = begin(
            self.work,
            self.evaluation,
            payload=starting_payload(self.refs.resolve(self.started_from)),
            input=self.fields.get("input"),
            started=next((time for time in times if time is not None), None),
            sample=self.sample.get("id"),
            epoch=self.sample.get("epoch"),
        )
        parameters = {name: self.fields[name] for name in PARAMETERS if self.fields.get(name) not in (None, {}, [])}
        self.run.note(params={**self.evaluation.setup, "sample": parameters})
        return self.run

    def finish(self) -> None:
        """Add what happened in the sample, and end the run."""
        run, end, fields = self.run, self.end(), self.fields
        flaws = self.flaws()
        messages = fields.get("messages")
        if messages is None and fields.get("message_refs") is not None:
            messages = self.refs.expand(fields["message_refs"], "messages")
            if messages is None:
                flaws.append("`message_refs` are no references to messages")
        final = messages_in(messages)
        talk = Conversation(run, final)
        events = Events(self.work, run, self.refs, Documents(run), talk, end, self.started_from)
        if self.events:
            events.add(self.events, f"{self.where}.events")
            if type(messages) is list:
                talk.become(final, "the conversation that the sample ended with")
        elif type(messages) is list:
            add_rounds(self.work, run, talk, messages, end)
        store = fields.get("store")
        if type(store) is dict and not same(store, run.payload["store"]):
            reason = "the store that the sample ended with; no event of the file says what changed it"
            run.change_payload({**run.payload, "store": store}, reason=reason)
        self.leftovers(events.outputs)
        if self.broken is not None:
            flaws = ["it is no object"]
        if flaws:
            self.work.damage(run, f"{self.where}: {'; '.join(flaws)}", self.broken or self.damaged_fields())
        for what, count in self.refs.missing.items():
            text = f"{count} references to {what} lead to nothing and stay as they are"
            self.work.tally.notes.append(f"{self.where}: {text}")
            run.report(text, {"reference": what, "count": count}, level="warning")
        self.work.tally.count(not flaws and not self.refs.missing)
        if self.events and run.round:
            run.end_round(end.outcome)
        self.close(end)

    def flaws(self) -> list[str]:
        """What of the sample is not of its type."""
        return [
            f"`{name}` is not of its type"
            for name, types in SHAPES.items()
            if name in self.sample and type(self.sample[name]) not in types
        ]

    def damaged_fields(self) -> dict[str, Any]:
        """The fields that are not of their type."""
        return {
            name: self.sample[name]
            for name, types in SHAPES.items()
            if name in self.sample and type(self.sample[name]) not in types
        }

    def end(self) -> End:
        """How the run ended."""
        error, limit = self.sample.get("error"), self.sample.get("limit")
        if error:
            message = error.get("message") if type(error) is dict else error
            message = message if type(message) is str else ""
            cancelled = message.startswith(CANCELLATIONS)
            return End("cancelled" if cancelled else "failed", "cancelled" if cancelled else "error", message)
        if limit:
            kind, reason = within(limit, "type"), within(limit, "reason")
            told = reason if type(reason) is str and reason else "a limit stopped the sample"
            return End("failed", f"{kind if type(kind) is str else 'unknown'} limit", told)
        stop = within(self.fields.get("output"), "choices")
        reason = within(stop[0], "stop_reason") if type(stop) is list and stop else None
        finished = any(self.sample.get(name) for name in ("scores", "score", "completed_at", "total_time"))
        if finished or self.evaluation.status in ("success", ""):
            return End("completed", reason if type(reason) is str and reason else "success")
        status = {"cancelled": "cancelled", "started": "interrupted"}.get(self.evaluation.status, "failed")
        return End(status, self.evaluation.status, f"the status of the evaluation is {self.evaluation.status}")

    def leftovers(self, outputs: list[Any]) -> None:
        """Keep what has no place in a run."""
        for name, value in self.fields.items():
            placed = name in READ or name in PARAMETERS or name in METRICS
            if not placed and value not in (None, [], {}):
                self.work.keep_field(self.run, f"sample.{clean_text(name)}", value, f"{self.where}.{clean_text(name)}")
        output = self.fields.get("output")
        told = type(output) is not dict or any(value for name, value in output.items() if name != "model")
        if output and told and self.events and output not in outputs:
            self.work.keep_field(self.run, "sample.output", output, f"{self.where}.output")
        unused = {key: text for key, text in self.refs.attachments.items() if key not in self.refs.used}
        if unused:
            self.work.keep_field(self.run, "sample.attachments", unused, f"{self.where}.attachments (unused)")

    def close(self, end: End) -> None:
        """End the run."""
        metrics = {name: self.fields[name] for name in METRICS if self.fields.get(name) not in (None, {}, [])}
        output = self.fields.get("output")
        choices = within(output, "choices")
        first = choices[0] if type(choices) is list and choices else None
        value = within(output, "completion") or text_of(within(first, "message")) or None
        if self.run.timed:
            times = [time for time in (self.run.latest, time_of(self.sample.get("completed_at"))) if time is not None]
            self.run.at(max(times, default=None))
        self.run.finish(end.status, end.stop_reason, value=value, metrics=metrics)
        if self.sample.get("error"):
            self.run.fail_with(self.fields["error"])


HEAVY: Final = frozenset(("events", "transcript", "attachments", "events_data", "message_pool", "call_pool"))
"""Fields of a sample that are read piece by piece, or refer to nothing."""
