"""`python -m bench`: measure every gate and print the table; exit 1 if one fails twice."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.table import Table

from . import append, startup
from .measuring import Row

GROUPS: tuple[Callable[[], Iterable[Row]], ...] = (append.rows, startup.rows)


def main() -> int:
    """Measure, print, and say whether every gate holds. A gate that is missed is measured once more."""
    rows: list[Row] = []
    for group in GROUPS:
        found = list(group())
        if not all(row.passed for row in found):
            again = {(row.gate, row.what): row for row in group()}
            found = [row if row.passed else again[row.gate, row.what] for row in found]
        rows.extend(found)
    table = Table("gate", "what", "measured", "ratio", "goal", "")
    for row in rows:
        verdict = "[green]ok[/]" if row.passed else "[red]missed[/]"
        table.add_row(row.gate, row.what, row.measured, f"{row.ratio:.2f}x", f"≤ {row.goal}x", verdict)
    Console(width=100).print(table)
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
