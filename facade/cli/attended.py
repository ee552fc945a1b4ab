"""A verb that another program attends: it is told what to do on standard input, and does not outlive that program.

The first line is what is asked for, as JSON. Standard input then stays open for as long as the re-run is wanted: when
it ends, because whoever started it closed it or is gone, the agent is stopped as Ctrl-C stops it, and ended if that
does not help. So nothing is left running when the web debugger is killed, and no file ever holds the edits.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from ..recorder.errors import UsageError
from ..recorder.scope import BackgroundThread
from .editing import no_constant

GRACE_SECONDS: Final = 4.0
"""How long an agent may take to stop, before the process ends as it is."""

ENDED: Final = 130
"""The exit code then, as of a program that Ctrl-C ended."""


def asked_by_attendant() -> Any:
    """What is asked for: the first line of standard input, as JSON. From then on its end stops the process.

    The agent finds standard input empty: what comes there is not for it.

    Raises:
        UsageError: the line is no JSON.
    """
    line = sys.stdin.buffer.readline()
    kept = os.dup(sys.stdin.fileno())
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    # A shell that starts a server beside itself has it ignore Ctrl-C, and so would this process.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    BackgroundThread(target=_until_left, args=[kept, stop_main], name="agentreplay-attended", daemon=True).start()
    try:
        return json.loads(line, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the first line of standard input is no JSON: {error}") from None


def _until_left(descriptor: int, stop: Callable[[], None]) -> None:
    """Wait for the end of a file, then stop the process, and end it if it goes on."""
    try:
        while os.read(descriptor, 4096):
            pass
    except OSError:
        pass  # it is gone, as at its end
    stop()
    threading.Event().wait(GRACE_SECONDS)
    os._exit(ENDED)


def stop_main() -> None:
    """Raise KeyboardInterrupt in the main thread, also where it waits for something."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)
