"""What every file of SWE-agent has around its steps: the configuration, how the run ended, and what has no place.

`info` tells the end: its `exit_status` is "submitted", or what stopped the run ("exit_cost", "exit_format" …);
"submitted (exit_cost)" is a run that was stopped and whose work was submitted all the same. `info.model_stats` has the
tokens, for the whole run only. `replay_config` names the model and the problem; it is JSON in a text in some versions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from .builder import RunBuilder
from .conversation import UNKNOWN_ENDING, Ending, completed, failed, first_task, within
from .importing import Importing

FOOTER: Final = re.compile(r"\(Open file: (.*)\)\r?\n\(Current directory: (.*)\)\r?\n(?:bash-)?\$\s*\Z")
"""The end of an observation as SWE-agent's own templates write it."""

FOOTER_LENGTH: Final = 10_000
"""Characters at the end of an observation in which its footer is looked for."""

INFO_FIELDS: Final = frozenset(("exit_status", "submission", "model_stats"))
TOP_FIELDS: Final = frozenset(("trajectory", "history", "info"))


@dataclass(slots=True)
class Frame:
    """What both kinds of file have in common: the run's frame."""

    work: Importing
    document: dict[str, Any]
    history: list[Any] = field(init=False)
    info: dict[str, Any] = field(init=False)
    config: Any = field(init=False)
    builder: RunBuilder = field(init=False)

    def __post_init__(self) -> None:
        history, info = self.document.get("history"), self.document.get("info")
        self.history = history if type(history) is list else []
        self.info = info if type(info) is dict else {}
        self.config = _parsed(self.document.get("replay_config"))

    def open(self, opening: Sequence[Any]) -> None:
        """Begin the run, with everything that is known before its first round."""
        task = within(self.config, "problem_statement")
        start: Any = {}
        for message in opening:
            if type(message) is dict and not message.get("is_demo"):
                start = footer_of(message.get("content")) or start
        self.builder = self.work.run(
            self.work.format,
            payload=start,
            input=first_task(self.history) if task is None else task,
        )
        for name, value in self.document.items():
            if name not in TOP_FIELDS:
                self.work.keep(self.builder, name, value)
        if "info" in self.document:
            open_info(self.work, self.builder, self.document["info"])
        for name in ("trajectory", "history"):
            if name in self.document and type(self.document[name]) is not list:
                self.work.damage(self.builder, f"`{name}` is no list", self.document[name])
                self.work.tally.damaged += 1

    @property
    def model(self) -> dict[str, Any]:
        """The model and its parameters, where the configuration names them."""
        model = within(self.config, "agent", "model")
        name = model.get("name") if type(model) is dict else None
        if type(model) is not dict or type(name) is not str:
            return {}
        return {"model": name, "parameters": {key: model[key] for key in ("temperature", "top_p") if key in model}}

    def ending(self, submitted: bool) -> Ending:
        """How the run ended, from its exit status or, without one, from whether it submitted its work."""
        status = self.info.get("exit_status")
        if type(status) is str and status:
            return completed(status) if status.lower().startswith("submitted") else failed(status)
        if submitted:
            self.work.tally.notes.append("the file has no exit status; its last action submits, so the run succeeded")
            return completed("submitted")
        self.work.tally.notes.append("the file does not say how the run ended; it counts as failed")
        return UNKNOWN_ENDING

    def close(self, ending: Ending) -> None:
        """End the run."""
        stats = self.info.get("model_stats")
        stats = stats if type(stats) is dict else {}
        sent, received = stats.get("tokens_sent"), stats.get("tokens_received")
        usage = None
        if type(sent) is int and type(received) is int:
            usage = {"inputTokens": sent, "outputTokens": received, "totalTokens": sent + received}
        metrics: dict[str, Any] = {"modelStats": stats} if stats else {}
        if "instance_cost" in stats:
            metrics["cost"] = stats["instance_cost"]
        self.builder.finish(
            ending.status,
            ending.stop_reason,
            value=self.info.get("submission"),
            usage=usage,
            metrics=metrics,
        )


def open_info(work: Importing, builder: RunBuilder, info: Any) -> None:
    """Count the record `info`, and keep what is not read from it later."""
    sound = type(info) is dict
    if not sound:
        work.damage(builder, "`info` is no object", info)
        work.tally.count(False)
        return
    for name, shapes in (("exit_status", (str, type(None))), ("model_stats", (dict, type(None)))):
        if type(info.get(name)) not in shapes:
            sound = False
            work.damage(builder, f"`info.{name}` is not of its type", info[name])
    for name, value in info.items():
        if name not in INFO_FIELDS:
            work.keep_field(builder, f"info.{name}", value)
    work.tally.count(sound)


def footer_of(text: Any) -> dict[str, str] | None:
    """The state that the footer of an observation names, or None when it has none."""
    if type(text) is not str:
        return None
    found = FOOTER.search(text[-FOOTER_LENGTH:])
    return {"open_file": found[1], "working_dir": found[2]} if found else None


def _parsed(value: Any) -> Any:
    """A configuration that some versions hold as JSON in a text."""
    if type(value) is not str:
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
