"""The edits of a re-run, as people give them: values in options, or the payload in an editor.

A value is JSON; a tagged one (`{"$type": …}`) is what it stands for. A bare word is a text, with a note, since `tru`
may have been meant to be `true`. `@FILE` reads the value from a file.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .streams import say

if TYPE_CHECKING:
    from ..replay.changes import Changes

_JSON: Final = re.compile(r"\s*(?:[\[{\"]|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?\s*\Z|(?:NaN|-?Infinity)\s*\Z)")
"""What is meant as JSON, and as no word: what begins like it, a number, and what other readers take for one."""

NOT_DONE: Final = "=not-done"
"""Says of a call that it was not done."""


def no_constant(name: str) -> Any:
    """Refuse NaN and the infinities, which JSON does not have."""
    raise ValueError(f"{name} is no JSON")


def value_of(text: str, what: str) -> Any:
    """The value that a text stands for, in stored form.

    Args:
        text: JSON, @FILE, or a word.
        what: where it stands, for the note.

    Raises:
        BadParameter: the file cannot be read; or the text is meant as JSON and is none, says something twice, or holds
            a number or a tag that stands for no value.
    """
    from ..recorder.errors import UsageError
    from ..webui.edited_json import read_json, stored_of

    whole = text.startswith("@")
    if whole:
        text = _file(text[1:])
    try:
        return stored_of(read_json(text))
    except UsageError as error:
        if whole or _JSON.match(text):
            raise click.BadParameter(f"{what}: this is no JSON: {error}") from None
    say(f"note: {what}: taken as the text {json.dumps(text, ensure_ascii=False)}")
    return text


def _file(name: str) -> str:
    """What is in a file, or comes by standard input."""
    if not name:
        raise click.BadParameter("expected the name of a file after @. A text with @ stands in quotes: '\"@…\"'")
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"cannot read {name}: {error}. A text with @ stands in quotes: '\"@…\"'") from None


def values(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    """Read PLACE=JSON options, in stored form by place."""
    read: dict[str, Any] = {}
    for one in given:
        place, equals, text = one.partition("=")
        if not equals:
            raise click.BadParameter(f"expected {parameter.metavar}, not {one!r}")
        if place in read:
            raise click.BadParameter(f"{place} is given twice")
        read[place] = value_of(text, f"{parameter.opts[0]} {place}")
    return read


def assumed(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    """Read CALL=JSON and CALL=not-done options; the latter as `...`."""
    undone = [one.removesuffix(NOT_DONE) for one in given if one.endswith(NOT_DONE)]
    read = values(ctx, parameter, tuple([one for one in given if not one.endswith(NOT_DONE)]))
    if twice := read.keys() & set(undone):
        raise click.BadParameter(f"{', '.join(twice)} is given twice")
    return {**read, **dict.fromkeys(undone, ...)}


def listed(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> list[Any]:
    """Read options that are a value each."""
    return [value_of(one, parameter.opts[0]) for one in given]


def single(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Any:
    """Read an option that is a value, and can be given once; `...` where it was not given, since it may be null."""
    return value_of(_once(given), parameter.opts[0]) if given else ...


def _once(given: tuple[str, ...]) -> str:
    """The one that was given; of two, one would be forgotten without a word."""
    if len(given) > 1:
        raise click.BadParameter("it is given twice")
    return given[0]


def secrets(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Read PLACE=env:VARIABLE options: secrets by place. They stand in the environment, never in a command."""
    read = {}
    for one in given:
        place, _, source = one.rpartition("=")
        variable = source.removeprefix("env:")
        if variable == source or not variable:
            raise click.BadParameter(f"expected {parameter.metavar}, not {place}=…: a secret is read from a variable")
        if variable not in os.environ:
            raise click.BadParameter(f"the variable {variable}, which is to hold the secret for {place}, is not set")
        read[place] = os.environ[variable]
    return read


def patch_of(ctx: click.Context, parameter: click.Parameter, files: tuple[str, ...]) -> list[dict[str, Any]] | None:
    """Read a JSON Patch from a file, or standard input for `-`; its values are in stored form."""
    if not files:
        return None
    file = _once(files)
    patch = value_of(f"@{file}", file)
    if not isinstance(patch, list) or not all(isinstance(one, dict) for one in patch):
        raise click.BadParameter(
            f'{file} holds no JSON Patch, which is a list such as [{{"op": "remove", "path": "/a"}}]'
        )
    return patch


def decoded(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The values that stored ones stand for."""
    from ..recorder.values import decode

    return {name: decode(value) for name, value in stored.items()}


def edited(stored: Any) -> Changes:
    """What somebody changes of a value in stored form in their editor, as JSON ($VISUAL, $EDITOR).

    Raises:
        UsageError: the editor failed or left nothing; or it left no JSON, which is kept in a file that is named.
    """
    from ..recorder.errors import UsageError
    from ..replay.changes import Changes
    from ..webui.edited_json import changes_to, text_of

    text = text_of(stored) + "\n"
    try:
        made = click.edit(text, extension=".json")
    except (click.ClickException, OSError, UnicodeDecodeError) as error:
        why = error.format_message() if isinstance(error, click.ClickException) else str(error)
        raise UsageError(f"the editor gave nothing back, so nothing was done: {why}") from None
    if made is None or made == text:
        return Changes(())
    if not made.strip():
        raise UsageError("the editor left nothing, so nothing was done; a payload that is nothing is written as null")
    try:
        return changes_to(stored, made)
    except UsageError as error:
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False, encoding="utf-8") as kept:
            kept.write(made)
        raise UsageError(
            f"what was edited is no JSON: {error}. It is kept in {kept.name}; once it is put right, give it whole: "
            f"--set '=@{kept.name}'"
        ) from None
