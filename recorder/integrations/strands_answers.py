"""What a model's stream says as a whole: the message, put together beside the raw events for whoever reads the record.

The SDK puts its own message together from the same events, and a replay has it do so again; this one is for people and
queries. So it is patient: what it does not understand is left out, and never raises.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any


class AnswerSoFar:
    """The message of one stream, event by event."""

    __slots__ = ("_content", "_reasoning", "_role", "_text", "_use")

    def __init__(self) -> None:
        self._role = "assistant"
        self._content: list[dict[str, Any]] = []
        self._text: list[str] = []
        self._reasoning: dict[str, Any] = {}
        self._use: dict[str, Any] | None = None

    def add(self, event: Any) -> None:
        """Take the next event."""
        with suppress(AttributeError, KeyError, TypeError):  # of a provider that has another form
            if "contentBlockDelta" in event:
                self._delta(event["contentBlockDelta"]["delta"])
            elif "contentBlockStart" in event:
                use = (event["contentBlockStart"].get("start") or {}).get("toolUse")
                self._use = None if use is None else {"toolUseId": use["toolUseId"], "name": use["name"]}
            elif "contentBlockStop" in event:
                self._end()
            elif "messageStart" in event:
                self._role = str(event["messageStart"]["role"])

    def _delta(self, delta: Mapping[str, Any]) -> None:
        if "text" in delta:
            self._text.append(str(delta["text"]))
        elif "toolUse" in delta:
            self._text.append(str(delta["toolUse"].get("input", "")))
        elif "reasoningContent" in delta:
            for name, part in delta["reasoningContent"].items():
                self._reasoning[name] = self._reasoning[name] + part if name in self._reasoning else part

    def _end(self) -> None:
        text, use, reasoning = "".join(self._text), self._use, self._reasoning
        self._text, self._use, self._reasoning = [], None, {}
        if use is not None:
            self._content.append({"toolUse": {**use, "input": _input_of(text)}})
        elif reasoning:
            redacted = reasoning.pop("redactedContent", None)
            block = {"reasoningText": reasoning} if redacted is None else {"redactedContent": redacted}
            self._content.append({"reasoningContent": block})
        elif text:
            self._content.append({"text": text})

    @property
    def message(self) -> dict[str, Any] | None:
        """The message; None if the stream has said nothing."""
        return {"role": self._role, "content": self._content} if self._content else None


def _input_of(text: str) -> Any:
    """The input of a tool; as a text where it is no JSON."""
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return text
