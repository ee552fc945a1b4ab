"""G9: what starting the command line costs, against importing its library."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

from .measuring import Row, duration, medians


def _command(*arguments: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def rows() -> Iterator[Row]:
    """Measure `agentreplay --help`."""
    times = medians(
        {"click": _command("-c", "import click"), "help": _command("-m", "agentreplay", "--help")}, repeat=3, rounds=15
    )
    yield Row("G9", "agentreplay --help", duration(times["help"]), times["help"] / times["click"], 1.3)
