"""Builds logs by hand for tests: events in order, with gapless seqs, rounds and right payload hashes.

The payload is changed live beside the log, so that a test can compare what a fold makes of the events with what an
agent would have seen.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from agentreplay.recorder.events import EVENT_OF_KIND, Event, UnknownEvent
from agentreplay.recorder.hashes import comparison_hash
from agentreplay.recorder.payload import LATEST, apply_change

START = datetime(2026, 1, 1, tzinfo=UTC)


def build(seq: int, round: int, kind: str, data: dict[str, Any] | None = None, **envelope: Any) -> Event:
    """One event, as a store would read it; a second passes with each seq."""
    cls = EVENT_OF_KIND.get(kind, UnknownEvent)
    return cls(seq=seq, round=round, kind=kind, time=START + timedelta(seconds=seq), data=data or {}, **envelope)


class EventBuilder:
    """A log that grows event by event.

    Attributes:
        events: the log so far.
        payload: the live payload.
        payloads: the live payload after each event, by seq.
        round: the round that goes on, or the last.
    """

    def __init__(self, payload: Any = None, *, applier: str = "memberjunction", **data: Any) -> None:
        self.events: list[Event] = []
        self.payloads: list[Any] = []
        self.payload = payload
        self.round = 0
        self.applier: dict[str, Any] = {"name": applier, "version": LATEST[applier]}
        self.add(
            "run.started",
            agent="refunds",
            payload=payload,
            payload_hash=comparison_hash(payload),
            applier=self.applier,
            **data,
        )

    def add(self, kind: str, *, within: str | None = None, in_round: int | None = None, **data: Any) -> Event:
        """Append an event of any kind."""
        event = build(len(self.events), self.round if in_round is None else in_round, kind, data, within=within)
        self.events.append(event)
        self.payloads.append(self.payload)
        return event

    def begin(self) -> Event:
        """Start the next round."""
        self.round += 1
        return self.add("round.started")

    def end(self, outcome: str = "continue") -> Event:
        """Finish the round."""
        return self.add("round.finished", outcome=outcome, payload_hash=comparison_hash(self.payload))

    def change(self, request: Any, applier: str | None = None, **data: Any) -> Event:
        """Change the payload live, and append the event that says so."""
        name = applier or self.applier["name"]
        before = comparison_hash(self.payload)
        outcome = apply_change(self.payload, request, name, **data.get("options", {}))
        self.payload = outcome.result
        if outcome.applied_request is not request:
            data["applied_request"] = outcome.applied_request
        return self.add(
            "payload.changed",
            request=request,
            applier={"name": name, "version": LATEST[name]},
            counts=outcome.applied,
            hash_before=before,
            hash_after=comparison_hash(self.payload),
            **data,
        )

    def call(self, call: str, name: str = "lookup", kind: str = "tool", **data: Any) -> Event:
        """Call a tool or model."""
        return self.add(f"{kind}.called", call=call, name=name, **data)

    def give(self, call: str, kind: str = "tool", **data: Any) -> Event:
        """Let a call return."""
        return self.add(f"{kind}.returned", call=call, **data)

    def finish(self, status: str = "completed", **data: Any) -> Event:
        """End the run."""
        return self.add("run.finished", status=status, **({"stop_reason": "endTurn"} | data))


def refund_log() -> EventBuilder:
    """A short run with an event of nearly every kind: three rounds, the last of which completes it."""
    log = EventBuilder({"order": "A-17", "notes": []}, input={"ticket": 7}, params={"tone": "kind"})
    log.add("message.added", message={"role": "user", "content": "refund me"})
    log.begin()
    log.call("c1", "ask", "model", request={"messages": []})
    log.give("c1", "model", response={"content": "look it up"}, usage={"input_tokens": 10, "output_tokens": 2})
    log.call("c2", arguments={"order_id": "A-17"})
    looking = {"newElements": {"status": "looking"}}
    log.change(looking, source={"kind": "model", "call": "c1"}, reason="to look it up")
    log.give("c2", result={"total": 30})
    log.add("step.decided", decision={"step": "Actions", "actions": [{"name": "lookup"}]})
    log.add("x.note", anything=[1])
    log.end()
    log.change({"updateElements": {"status": "found"}}, source={"kind": "action", "call": "c2"})
    log.begin()
    log.add("scratchpad.changed", change={"notes": "n"}, scratchpad={"notes": "n"})
    log.add("memory.written", write={"type": "Context", "note": "likes tea"})
    log.add("skill.activated", skill={"name": "sums"})
    log.add("plan.proposed", plan={"steps": ["pay"]})
    log.add("media.promoted", media={"id": "m1"})
    log.add("subrun.started", run="u-child", name="auditor", call="c3")
    log.add("subrun.finished", run="u-child", status="completed", result="fine", merge={"mode": "none"})
    log.add("interrupt.raised", interrupt="i1", name="approve", reason={"amount": 30})
    log.add("run.suspended", reason="interrupt", interrupts=["i1"])
    log.add("run.resumed", answers={})
    log.add("interrupt.answered", interrupt="i1", response="yes")
    log.add("value.read", source="clock", value=1.5)
    log.add("timer.fired", timer=0)
    log.add("step.decided", decision={"step": "Chat"})
    log.end()
    log.begin()
    log.add("messages.replaced", start=0, stop=1, messages=[{"role": "user", "content": "…"}], why="compaction")
    log.change([{"op": "add", "path": "/notes/-", "value": "paid"}], "json-patch")
    log.add("step.decided", decision={"step": "Success"})
    log.end("complete")
    log.add("report", message="done")
    log.finish(value="refunded", payload_hash=comparison_hash(log.payload))
    return log
