"""What is said of code that did not come to a verdict, in the same words wherever it was executed."""

from __future__ import annotations

import signal


def ended_with(code: int) -> str:
    """Of code that has ended its process, with an exit code, or by a signal where that is negative."""
    if code >= 0:
        return f"the code ended its process, with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the code ended its process, by {name}"


def took_longer(seconds: float | None) -> str:
    """Of code that did not come to its end in time."""
    return f"took longer than {seconds:g} s; --timeout says how long it may take"
