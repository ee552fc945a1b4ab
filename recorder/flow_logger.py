"""What a step says on its way: lines of a log and notes, each a `report` event."""

from __future__ import annotations

import logging
from typing import Any

from .events import ReportData
from .introspection import clean
from .run_recorder import RunRecorder, text_of


class FlowLogger:
    """A logger whose lines become `report` events, and go on to Python's `logging` as usual."""

    def __init__(self, recorder: RunRecorder, name: str) -> None:
        self._recorder = recorder
        self._logger = logging.getLogger(name)
        self.name = name

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
        self._logger.log(level, "%s", text, stacklevel=3)
        name = clean(logging.getLevelName(level).lower())
        self._recorder.emit("report", ReportData(source="log", level=name, message=text, content=content or None))

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
        self._recorder.emit(
            "report", ReportData(source="diagnostics", message=text_of(message), content=content or None)
        )
