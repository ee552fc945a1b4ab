"""What a sample holds once and refers to: attachments, and the pools of messages.

A long text or an image stands once in `attachments`, and `attachment://KEY` (`tc://KEY` in the oldest logs) wherever it
belongs. The messages of a conversation stand once in a pool; a model event then has `input_refs`, and its raw call
`call_refs`: a list of ranges `[start, end)` of the pool. Here all of them are put back. A reference to nothing stays as
it is, and is counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

PREFIXES: Final = ("attachment://", "tc://")

KEY: Final = re.compile(r"[0-9a-f]{32}|\d{1,9}")
"""What a key looks like. Other texts that begin with a prefix are what someone wrote."""

EXPANDED_LIMIT: Final = 1_000_000
"""Messages that the references of one event may come to."""


@dataclass(slots=True)
class References:
    """Puts back what a sample refers to.

    Attributes:
        attachments: key → text.
        messages, calls: the pools, as the file has them.
        used: keys of the attachments that something referred to.
        missing: references to nothing: their texts, or "messages" and "calls".
    """

    attachments: Mapping[str, Any] = field(default_factory=dict)
    messages: Sequence[Any] = ()
    calls: Sequence[Any] = ()
    used: set[str] = field(default_factory=set)
    missing: dict[str, int] = field(default_factory=dict)
    _pools: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, sample: Mapping[str, Any]) -> References:
        """The references of a sample, from wherever its version keeps them."""
        attachments = sample.get("attachments")
        transcript = sample.get("transcript")
        if attachments is None and type(transcript) is dict:
            attachments = transcript.get("content")
        data = sample.get("events_data")
        data = data if type(data) is dict else {}
        messages, calls = data.get("messages", sample.get("message_pool")), data.get("calls", sample.get("call_pool"))
        return cls(
            attachments if type(attachments) is dict else {},
            messages if type(messages) is list else (),
            calls if type(calls) is list else (),
        )

    def resolve(self, value: Any) -> Any:
        """A value with its attachments put back; the same object where it has none."""
        if type(value) is str:
            return self._attachment(value) if value.startswith(PREFIXES) else value
        if type(value) is list:
            items = [self.resolve(item) for item in value]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        if type(value) is dict:
            fields = {key: self.resolve(item) for key, item in value.items()}
            return fields if any(fields[key] is not item for key, item in value.items()) else value
        return value

    def _attachment(self, text: str) -> str:
        key = text.partition("://")[2]
        content = self.attachments.get(key)
        if type(content) is str:
            self.used.add(key)
            return content
        if KEY.fullmatch(key):
            self._miss(text, 1)
        return text

    def _miss(self, what: str, count: int) -> None:
        self.missing[what] = self.missing.get(what, 0) + count

    def expand(self, refs: Any, pool: str) -> list[Any] | None:
        """The items that a list of references names; None when it is no such list, or names too many.

        Args:
            refs: ranges `[start, end)` or single indexes.
            pool: "messages" or "calls".
        """
        if type(refs) is not list:
            return None
        if pool not in self._pools:
            self._pools[pool] = [self.resolve(item) for item in (self.messages if pool == "messages" else self.calls)]
        items = self._pools[pool]
        found: list[Any] = []
        for ref in refs:
            pair = (ref, ref + 1) if type(ref) is int else tuple(ref) if type(ref) is list else ()
            if len(pair) != 2 or not all(type(place) is int and place >= 0 for place in pair) or pair[1] < pair[0]:
                return None
            part = items[pair[0] : pair[1]]
            if len(found) + len(part) > EXPANDED_LIMIT:
                return None
            found += part
            if len(part) < pair[1] - pair[0]:
                self._miss(pool, pair[1] - pair[0] - len(part))
        return found

    def resolve_event(self, event: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """A model event with its messages and attachments put back, and what of that could not be done."""
        flaws: list[str] = []
        resolved: dict[str, Any] = self.resolve({name: value for name, value in event.items() if name != "input_refs"})
        if event.get("input_refs") is not None:
            messages = self.expand(event["input_refs"], "messages")
            if messages is None:
                flaws.append("`input_refs` are no references to messages")
                resolved = {**resolved, "input_refs": event["input_refs"]}
            elif not resolved.get("input"):
                resolved = {**resolved, "input": messages}
        call = resolved.get("call")
        if type(call) is dict and call.get("call_refs") is not None:
            messages = self.expand(call["call_refs"], "calls")
            request, key = call.get("request"), call.get("call_key")
            if messages is None or type(request) is not dict or type(key) not in (str, type(None)):
                flaws.append("`call_refs` are no references to messages")
            else:
                rest = {name: value for name, value in call.items() if name not in ("call_refs", "call_key")}
                resolved = {**resolved, "call": {**rest, "request": {**request, key or "messages": messages}}}
        return resolved, flaws
