"""Templates, and how what was recorded gets into them: as text, whatever it holds.

Everything is escaped by default, and a name that a template does not know is an error. Characters that act or hide
(escape sequences, marks that turn text round, lone surrogates) become backslash escapes that can be seen (`shown`).
Nothing here needs a server: what writes a page to a file uses the same templates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..replay.listing import how_long, moment, when
from ..replay.readable import count, size_of, visible
from .views import short_cost, short_number

HERE: Final = Path(__file__).parent
STATIC: Final = HERE / "static"

LINE: Final = 300
"""Characters of a recorded text that are shown where it must not take more than a line."""


@cache
def environment() -> Environment:
    """The templates of all pages, with what they may call."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # a server that runs shows pages of one version
    )
    made.filters.update(
        shown=shown,
        line=line,
        exact=exact,
        short=short_number,
        cost=short_cost,
        how_long=how_long,
        when=when,
        size=size_of,
        thousands=thousands,
        iso=iso,
        encoded=encoded,
    )
    made.globals.update(count=count, query=query, static=static_url, path=path_url)
    return made


def compile_templates() -> None:
    """Read all templates, so that no page has to."""
    for name in environment().list_templates():
        environment().get_template(name)


def render(template: str, /, **context: Any) -> bytes:
    """Render a template; what UTF-8 cannot say, which `shown` would have escaped, is escaped at last."""
    return environment().get_template(template).render(context).encode("utf-8", "backslashreplace")


def shown(text: object) -> str:
    """A recorded text, in which nothing acts or hides."""
    return visible(str(text))


def line(text: object, limit: int = LINE) -> str:
    """A recorded text that people read on one line, cut to `limit` characters; how it was laid out is lost."""
    words = str(text)
    cut = visible(" ".join(words[: limit * 4].split()))
    return cut if len(cut) <= limit and len(words) <= limit * 4 else cut[: limit - 1].rstrip() + "…"


def exact(text: object, limit: int = LINE) -> str:
    """A recorded name or value on one line, in which every character counts, cut to `limit` of them."""
    words = str(text)
    cut = visible(words[: limit * 4])
    return cut if len(cut) <= limit and len(words) <= limit * 4 else f"{cut[: limit - 1]}…"


def thousands(number: int) -> str:
    """A number with separators: 30,000."""
    return f"{number:,}"


def iso(microseconds: int) -> str:
    """A time for programs."""
    return moment(microseconds).isoformat()


def query(given: Mapping[str, Any] | None = None, /, **changed: Any) -> str:
    """The query of an address, "?" included: `given` with some of it changed; what is empty is left out."""
    wanted = {**(given or {}), **changed}
    kept = {name: _utf8(str(value)) for name, value in wanted.items() if value not in (None, "")}
    return f"?{urlencode(kept)}" if kept else ""


def path_url(*parts: object) -> str:
    """An address made of parts, each of which stays one part whatever it holds."""
    return "/" + "/".join([quote(_utf8(str(part)), safe="") for part in parts])


def encoded(pointer: str) -> str:
    """A JSON Pointer as it stands in an address, or in an attribute from which one is made."""
    return quote(_utf8(pointer), safe="/")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@cache
def static_url(name: str) -> str:
    """The address of a file in `static`, which is another one when the file is."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"
