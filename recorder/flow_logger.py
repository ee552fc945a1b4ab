"""What a step says on its way: reports, lines of a log and notes, each a `report` event.

The recorder says where that was: the event belongs to a run and a round, and where the run is a workflow's it names the
node and the visit. A logger is there only if one was given. What it is told is recorded, and goes on to Python's
`logging`. A sub-logger is always there; without a logger its lines are recorded and go nowhere else.

Where code is executed again and answered from the log, lines are compared and go no further: a handler may send a mail
or write to a file, and has had them once. In a re-run they go on from where the code goes on live.
"""

from __future__ import annotations

import logging
from typing import Any, Final, TypeAlias

from .error_info import text_of
from .errors import UsageError
from .events import ReportData
from .introspection import clean
from .run_recorder import RunRecorder
from .scope import Visit

Logger: TypeAlias = logging.Logger | bool | None
"""Where lines go on to: a logger, True for "agentreplay.agent.NAME"; None and False for no logger."""

NO_LOGGER: Final = ""
"""What a log says of a run that was told to have no logger."""


def checked_logger(logger: Logger) -> Logger:
    """A logger as it was given.

    Raises:
        UsageError: it is none.
    """
    if logger is None or isinstance(logger, bool | logging.Logger):
        return logger
    raise UsageError(f"logger is a logging.Logger, or True for agentreplay.agent.NAME, not {type(logger).__name__}")


def logger_name(logger: Logger, agent: str) -> str | None:
    """What a log says of the logger that a run was given: its name, `NO_LOGGER` for False, None for none given."""
    if logger is None:
        return None
    if logger is False:
        return NO_LOGGER
    return _default_name(agent) if logger is True else clean(logger.name)


def recorded_logger(name: str | None) -> Logger:
    """The logger that a log names, for code that is executed again."""
    if name is None:
        return None
    return logging.getLogger(name) if name != NO_LOGGER else False


def _default_name(agent: str) -> str:
    return f"agentreplay.agent.{agent}"


def _child(logger: logging.Logger, name: str) -> logging.Logger:
    """A logger below another one; that itself where it is in no hierarchy, as one that was made by its class."""
    found = above = logger.getChild(name)
    while above is not logger:
        if above.parent is None:
            return logger
        above = above.parent
    return found


def visit_here(recorder: RunRecorder) -> Visit | None:
    """The visit of a node to which the running code belongs, where the run is a workflow's."""
    scope = recorder.here()
    return None if scope is None else scope.task.visit


def say(recorder: RunRecorder, **said: Any) -> None:
    """Record a `report`, and where it was said."""
    visit = visit_here(recorder)
    if visit is not None:
        said |= {"node": visit.node, "visit": visit.number}
    recorder.emit("report", ReportData(**said))


class FlowLogger:
    """A logger whose lines become `report` events.

    Args:
        recorder: of the run.
        name: of the logger.
        logger: of Python's, to which the lines go on; None if they go nowhere.

    Attributes:
        name: as given.
    """

    def __init__(self, recorder: RunRecorder, name: str, logger: logging.Logger | None) -> None:
        self._recorder = recorder
        self._logger = logger
        self.name = name

    @classmethod
    def of_run(cls, recorder: RunRecorder, logger: Logger) -> FlowLogger | None:
        """The logger of a run; None if there is none."""
        if logger is None or logger is False:
            return None
        found = logging.getLogger(_default_name(recorder.agent)) if logger is True else logger
        return cls(recorder, found.name, found)

    @classmethod
    def of_part(cls, recorder: RunRecorder, whole: FlowLogger | None, part: Visit | int) -> FlowLogger:
        """The logger of a part of a run.

        Args:
            recorder: of the run.
            whole: the run's logger.
            part: the visit of a node, or a round.
        """
        parts = [f"round{part}"] if isinstance(part, int) else [f"round{part.round}", part.node]
        name = ".".join([_default_name(recorder.agent) if whole is None else whole.name, *parts])
        given = None if whole is None else whole._logger
        return cls(recorder, name, None if given is None else _child(given, ".".join(parts)))

    def log(self, level: int, message: str, *args: Any, **content: Any) -> None:
        """Log `message % args` at a level of `logging`; keyword arguments are recorded with it."""
        self._log(level, message, args, content)

    def _log(self, level: int, message: Any, args: tuple[Any, ...], content: dict[str, Any]) -> None:
        try:
            text = text_of(message % args if args else message)
        except KeyboardInterrupt:
            raise
        except BaseException:  # the arguments do not fit, or one cannot be shown; `logging` does not raise either
            text = f"{text_of(message)} {text_of(args)}"
        name = clean(logging.getLevelName(level).lower())
        say(self._recorder, source="log", level=name, message=text, content=content or None)
        attachment = self._recorder.attachment  # asked now: what is said may be what the code goes on live with
        if self._logger is not None and (attachment is None or not attachment.is_answered):
            self._logger.log(level, "%s", text, stacklevel=3)

    def debug(self, message: str, *args: Any, **content: Any) -> None:
        """Log at level debug."""
        self._log(logging.DEBUG, message, args, content)

    def info(self, message: str, *args: Any, **content: Any) -> None:
        """Log at level info."""
        self._log(logging.INFO, message, args, content)

    def warning(self, message: str, *args: Any, **content: Any) -> None:
        """Log at level warning."""
        self._log(logging.WARNING, message, args, content)

    def error(self, message: str, *args: Any, **content: Any) -> None:
        """Log at level error."""
        self._log(logging.ERROR, message, args, content)


class Diagnostics:
    """The diagnostic context of the running round; what is noted becomes a `report` event."""

    def __init__(self, recorder: RunRecorder) -> None:
        self._recorder = recorder

    @property
    def run(self) -> str:
        """The run's id in this store."""
        return self._recorder.info.id

    @property
    def round(self) -> int:
        """The round that runs, from 1."""
        return self._recorder.round

    def note(self, message: str, **content: Any) -> None:
        """Record a note."""
        say(self._recorder, source="diagnostics", message=text_of(message), content=content or None)
