"""A run as one file that any browser opens: no server, no network, nothing loaded.

The page brings its style, its script and its data. The data is JSON in an element that no recorded text can end; the
policy of the page names its one script and its one style by their hashes, so nothing else could run, and allows no
request to anywhere.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from ..recorder.store import EventStore, RunInfo, RunRef
from .export_data import Progress, data_of
from .export_values import as_script
from .rendering import STATIC, render

DISTRIBUTION: Final = "agentreplay-debugger"


def write_html(
    store: EventStore, run: RunRef, write: Callable[[bytes], object], progress: Progress | None = None
) -> int:
    """Write a run as a page, and give the number of its bytes.

    Args:
        store: where the run is.
        run: the run; one that is still running as far as it is now.
        write: called with the bytes.
        progress: called as it goes on.

    Raises:
        RunNotFound: there is no such run.
        CorruptLog: the log is damaged.
    """
    info = store.run(run.uid if isinstance(run, RunInfo) else run)
    page = html_of(store, info, progress)
    write(page)
    return len(page)


def html_of(store: EventStore, info: RunInfo, progress: Progress | None = None, *, in_part: bool = False) -> bytes:
    """The page of a run; see `write_html`.

    With `in_part` the page of a damaged run has the steps before the damage, and says so.
    """
    style = "\n".join([_colours(), _static("export.css")])
    halves = "\n".join([_static("export_values.js"), _static("export.js")])
    script = f"(() => {{\n{halves}\n}})();"
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"
    )
    return render(
        "export.html",
        policy=policy,
        title=info.agent,
        version=_version(),
        style=style,
        script=script,
        data=as_script(data_of(store, info, progress, in_part=in_part)),
    )


def _static(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8").strip()


def _colours() -> str:
    """The colours, faces and sizes of all pages: what app.css begins with."""
    return _static("app.css").partition("\n* {")[0]


def _hash(text: str) -> str:
    """The source expression of a content-security policy that allows just this text."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:  # the sources, not installed
        return "?"
