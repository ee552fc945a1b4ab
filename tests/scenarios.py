"""The recorded scenarios in `fixtures/cassettes`, and what is known of each."""

from __future__ import annotations

from typing import Any, NamedTuple

from agentreplay.examples import rates


class Change(NamedTuple):
    """A change of an example's code, and where a replay of the scenario has to part because of it."""

    old: str
    new: str
    step: int
    kind: str
    call: str | None = None
    path: str = ""


class Scenario(NamedTuple):
    """What a cassette is of.

    Attributes:
        code: what is executed, "example:name".
        status: how the run went.
        decisions: a word for each step.
        calls: each call of the run in the order of their ends: the step, what, how it ended.
        holds: how many events of the kinds it has that make the scenario.
        forks: how a fork from each step ends, from step 1 on.
        change: one of the code, which a replay tells of.
        edit: of the payload, for forks that would wait for ever without.
        raises: what forks may raise that end as failed.
    """

    code: str
    status: str
    decisions: tuple[str, ...]
    calls: tuple[str, ...]
    holds: dict[str, int]
    forks: tuple[str, ...]
    change: Change
    edit: dict[str, Any] | None = None
    raises: tuple[type[BaseException], ...] = ()


REFUNDS_DECISIONS = ("Actions", "Actions", "Retry", "Actions", "Sub-Agent", "Retry", "Retry", "Retry", "Actions")
REFUNDS_CALLS = (
    *("1 ask returned", "1 lookup_order returned", "2 ask returned", "2 lookup_customer returned", "3 ask returned"),
    *("4 ask returned", "4 find_policy returned", "5 ask returned", "6 ask returned", "7 ask returned"),
    *("8 ask returned", "9 ask returned"),
)

SCENARIOS = {
    "approval.answered": Scenario(
        "approval:step",
        "completed",
        ("Undecided", "Success"),
        ("1 read_claim returned", "2 pay returned"),
        {"interrupt.raised": 1, "run.suspended": 1, "run.resumed": 1},
        ("interrupted", "interrupted"),
        Change("pay(customer, amount)", "pay(customer, amount + 1)", 2, "other arguments", "2.2", "/amount"),
    ),
    "approval.declined": Scenario(
        "approval:step",
        "failed",
        ("Undecided", "Failed"),
        ("1 read_claim returned",),
        {"interrupt.raised": 1, "run.suspended": 1, "run.resumed": 1},
        ("interrupted", "interrupted"),
        Change("was not approved", "was refused", 2, "another decision", None, "/errorMessage"),
    ),
    "approval.interrupted": Scenario(
        "approval:step",
        "interrupted",
        ("Undecided",),
        ("1 read_claim returned",),
        {"interrupt.raised": 1, "run.suspended": 1, "run.resumed": 0},
        ("interrupted", "interrupted"),
        Change(
            '{"customer": customer, "amount": amount})',
            '{"customer": customer})',
            2,
            "another outcome",
            None,
            "/reason/amount",
        ),
    ),
    "backup.cancelled": Scenario(
        "backup:step",
        "cancelled",
        ("Actions", "Actions", "Undecided"),
        ("1 copy returned", "2 copy returned", "3 copy cancelled"),
        {"call.cancelled": 1, "report": 1},
        ("completed", "completed", "completed"),
        Change("was not copied", "is missing", 3, "another report", None, "/message"),
        edit={"/folders": ["letters", "photos", "music"]},
    ),
    "digest.parallel_tools": Scenario(
        "digest:step",
        "completed",
        ("Actions", "Success"),
        ("1 fetch returned", "1 fetch returned", "1 fetch returned", "2 summarise returned"),
        {"tool.called": 3, "model.called": 1},
        ("completed", "completed"),
        Change(
            "await fetch(source, context", "await fetch(source.upper(), context", 1, "other arguments", "1.1", "/source"
        ),
    ),
    "greenhouse.events_and_reports": Scenario(
        "greenhouse:step",
        "completed",
        ("Retry", "Success"),
        ("2 open_window returned",),
        {"x.too_warm": 1, "report": 4, "value.read": 5},
        ("completed", "completed"),
        Change("by=warmth - LIMIT", "by=LIMIT - warmth", 2, "another event", None, "/by"),
    ),
    "invoices.loops": Scenario(
        "invoices:step",
        "completed",
        ("ForEach", "While", "Success"),
        (
            *("1 decide returned", "1 read_invoice returned", "1 read_invoice returned", "1 read_invoice returned"),
            *("2 decide returned", *["2 remind returned"] * 5, "3 decide returned"),
        ),
        {"payload.changed": 8},
        ("completed", "completed", "completed"),
        Change("reminders += 1\n", "reminders += 2\n", 2, "other arguments", "2.2", "/reminders"),
    ),
    "mailbox.secrets": Scenario(
        "mailbox:step",
        "completed",
        ("Undecided", "Success"),
        ("1 log_in returned", "2 read_subjects returned", "2 choose returned"),
        {"tool.called": 2, "model.called": 1},
        (),
        Change('context.payload["user"]', '"eve"', 1, "other arguments", "1.1", "/user"),
    ),
    "newsletter.workflow": Scenario(
        "newsletter:newsletter",
        "completed",
        ("Retry", "Retry", "Success"),
        (
            *("1 write returned", "1 edit returned", "2 write returned", "2 edit returned"),
            *("3 write returned", "3 edit returned", "3 send returned"),
        ),
        {"report": 9, "payload.changed": 7},
        ("completed", "completed", "completed"),
        Change('letter.get("ready")', 'len(letter["remarks"]) == 2', 2, "another node"),
    ),
    "payout.crashed": Scenario(
        "payout:step",
        "running",
        ("Actions",),
        ("1 pay returned", "2 pay open"),
        {"run.finished": 0, "run.resumed": 0},
        ("completed", "completed"),
        Change("due[person])", "due[person] + 1)", 1, "other arguments", "1.1", "/amount"),
    ),
    "payout.crashed_and_resumed": Scenario(
        "payout:step",
        "completed",
        ("Actions", "Actions", "Actions", "Success"),
        ("1 pay returned", "2 pay returned", "3 pay returned"),
        {"run.resumed": 1, "run.finished": 1},
        ("completed", "completed", "completed", "completed"),
        Change("list(paid.values())", "sorted(paid)", 4, "another outcome", None, "/value/0"),
    ),
    "pictures.threads": Scenario(
        "pictures:step",
        "completed",
        ("Undecided", "Success"),
        (*["1 size_of returned"] * 3, *["2 shrink returned"] * 3),
        {"tool.called": 6},
        ("completed", "completed"),
        Change(
            "shrink(picture, width), wide", "shrink(picture, width + 1), wide", 2, "other arguments", None, "/width"
        ),
    ),
    "rates.failed_tool": Scenario(
        "rates:step",
        "failed",
        ("Retry", "Undecided"),
        ("1 fetch_rate failed", "2 fetch_rate failed"),
        {"tool.failed": 2, "tool.returned": 0},
        ("failed", "failed"),
        Change("            raise\n", "            return ar.Complete(0.0)\n", 2, "another error"),
        raises=(rates.MirrorDown,),
    ),
    "rates.forked": Scenario(
        "rates:step",
        "completed",
        ("Retry", "Retry", "Success"),
        ("1 fetch_rate failed", "2 fetch_rate failed", "3 fetch_rate returned"),
        {"run.forked": 1, "tool.failed": 2},
        ("failed", "completed", "completed"),
        Change("fetch_rate(mirror,", "fetch_rate(mirror[:2],", 1, "other arguments", "1.1", "/mirror"),
        raises=(rates.MirrorDown,),
    ),
    "rates.retried": Scenario(
        "rates:step",
        "completed",
        ("Retry", "Success"),
        ("1 fetch_rate failed", "2 fetch_rate returned"),
        {"tool.failed": 1, "tool.returned": 1},
        ("completed", "completed"),
        Change('"amount"] * rate, 2', '"amount"] * rate, -1', 2, "another outcome", None, "/value"),
    ),
    "refunds.completed": Scenario(
        "refunds:step",
        "completed",
        (*REFUNDS_DECISIONS, "Success"),
        (*REFUNDS_CALLS, "9 issue_refund returned", "10 ask returned"),
        {"subrun.started": 1, "tool.failed": 0},
        ("failed", *["completed"] * 9),
        Change("Work the request through. Answer", "Work it through. Answer", 1, "another message", None, "/content"),
        raises=(KeyError,),
    ),
    "refunds.failed": Scenario(
        "refunds:step",
        "failed",
        (*REFUNDS_DECISIONS, "Failed"),
        (*REFUNDS_CALLS, "9 issue_refund failed", "10 ask returned"),
        {"subrun.started": 1, "tool.failed": 1},
        ("failed",) * 10,
        Change('reason="the refund was refused"', 'reason="refused"', 9, "another change", None, "/reason"),
    ),
    "story.streamed": Scenario(
        "story:step",
        "completed",
        ("Retry", "Success"),
        ("1 tell returned", "2 tell returned"),
        {"model.returned": 2},
        ("completed", "completed"),
        Change('== payload["patience"]', '== payload["patience"] - 1', 2, "another message", None, "/content"),
    ),
    "trip.sub_agents": Scenario(
        "trip:step",
        "completed",
        ("Sub-Agent", "Sub-Agent", "Success"),
        (),
        {"subrun.started": 2, "subrun.finished": 2},
        ("completed", "completed", "completed"),
        Change('upstream=["hotel.*"]', "upstream=None", 2, "another payload", None, "/hotel"),
    ),
    "wordcount.workers": Scenario(
        "wordcount:count",
        "completed",
        ("Success",),
        ("1 count_words returned",) * 3,
        {"writer.joined": 3},
        ("completed",),
        Change(
            "repeat(run.id), chapters)",
            "repeat(run.id), [*chapters[:2], 'four'])",
            1,
            "other arguments",
            None,
            "/chapter",
        ),
    ),
}
