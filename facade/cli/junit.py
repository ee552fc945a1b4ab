"""What came of many replays as JUnit XML, which every CI system shows: a recording is a test case."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from ..recorder.errors import ExportFailed
from ..recorder.replacing import replacing
from ..replay.readable import visible
from .replay_jobs import Done

_NOT_IN_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(path: str, results: Sequence[Done], seconds: float) -> None:
    """Write a report, which takes the place of the file as a whole; its folder is made.

    Raises:
        ExportFailed: it cannot be written.
    """
    diverged = sum(done.verdict == "diverged" for done in results)
    errors = sum(done.verdict in ("error", "unreadable") for done in results)
    counts = {"tests": str(len(results)), "failures": str(diverged), "errors": str(errors), "time": f"{seconds:.3f}"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "agentreplay", **counts, "skipped": "0"})
    for done in results:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            {"classname": "agentreplay.replay", "name": _text(done.job.name), "time": f"{done.seconds:.3f}"},
        )
        if done.verdict != "identical":
            kind = "failure" if done.verdict == "diverged" else "error"
            found = ElementTree.SubElement(case, kind, {"type": done.verdict, "message": _text(done.why)})
            differences = () if done.result is None else done.result.divergences
            found.text = _text("\n\n".join(one.message() for one in differences) or done.error)
        if done.output:
            ElementTree.SubElement(case, "system-out").text = _text(done.output)
    ElementTree.indent(suites)
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExportFailed(f"cannot write {path}: {error.strerror}; expected a folder. Nothing was changed.") from error
    with replacing(path) as file:
        file.write(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True) + b"\n")


def _text(text: str) -> str:
    """A text as XML can hold it, in which nothing acts on a terminal either."""
    lines = [visible(line) for line in text.replace("\r\n", "\n").split("\n")]
    return _NOT_IN_XML.sub("\ufffd", "\n".join(lines))
