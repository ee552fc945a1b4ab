"""Type-check the installed package, and prove that every module it ships was checked.

mypy finds the modules of a package by itself. One that it overlooks (a missing `__init__.py`, a folder that shadows
the package) would pass unseen; so what it reports to have read is compared with what was installed.
"""

from __future__ import annotations

import sys
from importlib.metadata import files
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

from mypy import api


def module_name(file: PurePath) -> str:
    """Name the module that an installed file is: `agentreplay/replay/__init__.py` is `agentreplay.replay`."""
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def main() -> int:
    """Return 0 if the types are right in every shipped module, 1 otherwise."""
    with TemporaryDirectory() as report:
        out, err, status = api.run(["--linecount-report", report])
        sys.stdout.write(out)
        sys.stderr.write(err)
        counts = Path(report, "linecount.txt")
        lines = counts.read_text(encoding="utf-8").splitlines() if counts.exists() else []
    # A folder of templates is none of ours to check, though it can be imported: mypy counts no line in it.
    checked = {line.split()[-1] for line in lines if line.split()[0] != "0"} - {"total"}
    shipped = {module_name(file) for file in files("agentreplay-debugger") or () if file.suffix == ".py"}
    for name in sorted(shipped - checked):
        print(f"{name}: installed, but not seen by the type check")
    for name in sorted(checked - shipped):
        print(f"{name}: seen by the type check, but not part of the installed wheel (run `make lint`)")
    return 1 if status or shipped != checked else 0


if __name__ == "__main__":
    sys.exit(main())
