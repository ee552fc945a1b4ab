"""The verbs about files and their soundness: `import`, `export`, `verify`, `schema`."""

from __future__ import annotations

from typing import Any, Final

import click

from .group import DIFFERENCE
from .options import VerbCommand, json_option, store_option
from .streams import encodable


def list_formats(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Print the formats that can be imported, and end."""
    if value:
        from ..recorder.importers import IMPORTERS

        width = max(map(len, IMPORTERS))
        for name, importer in IMPORTERS.items():
            click.echo(encodable(f"{name:{width}}  {importer.reads}"))
        ctx.exit()


@click.command(
    name="import",
    cls=VerbCommand,
    examples=[
        "agentreplay import trajectory.traj",
        "agentreplay import runs/*.json --format mini-swe-agent",
        "agentreplay import damaged.jsonl --salvage",
    ],
)
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE…", type=click.Path(), help="Cassettes, or files of other tools."
)
@store_option
@click.option("--format", "wanted", metavar="NAME", help="The format, where it is not to be detected.")
@click.option(
    "--formats", is_flag=True, is_eager=True, expose_value=False, callback=list_formats, help="List the formats."
)
@click.option("--salvage", is_flag=True, help="Of what is damaged, keep what is sound and list what is not.")
@json_option
def import_(files: tuple[str, ...], store: str | None, wanted: str | None, salvage: bool, as_json: bool) -> int:
    """Import cassettes, and recorded runs of other tools.

    The format is detected; --formats lists those that are known. A file is imported entirely or not at all, and once:
    importing it again finds the runs that are there. Of another tool's file, what has no place in a run is kept in it
    as a report and counted as unknown. The runs of a cassette are added as they were recorded; one that is here already
    is completed by what it lacks, and one that differs from it is refused.

    A cassette that is damaged is refused, with exit code 3 and nothing stored, and so is a session directory of Strands
    with a file that is damaged or missing. With --salvage what is sound of it is kept, and what is not is listed.

    With --json: {runs, read, imported, unknown, damaged}, of all files together.
    """
    from .importing import import_files

    return import_files(files, store, wanted, salvage=salvage, as_json=as_json)


@click.command(
    cls=VerbCommand,
    examples=[
        "agentreplay export run42 refunds.failed.jsonl",
        "agentreplay export @last | ssh elsewhere agentreplay import /dev/stdin",
        "agentreplay export run42 refunds.html --format html",
    ],
)
@click.argument("run", metavar="RUN", help="The run.")
@click.argument(
    "file", required=False, metavar="[FILE]", type=click.Path(), help="The file; stdout unless given, or -."
)
@store_option
@click.option("--format", "wanted", default="cassette", metavar="NAME", help="The format: cassette, or html.")
def export(run: str, file: str | None, store: str | None, wanted: str) -> None:
    """Write a run to a file, for git and for sharing.

    A cassette holds the run with its child runs, and with the events that it shares if it is a fork, as lines of JSON.
    It loses nothing: importing it elsewhere and exporting it there gives the same bytes. The file is replaced as a
    whole or not at all. Secrets that were replaced when the run was recorded stay replaced; nothing else is taken out.

    With --format html it is a page that opens from disk in any browser, without a server or a network: the steps, the
    payload after each, what changed it and why, calls and messages. Values of more than 20 KB, and the steps in the
    middle of a run of more than 2,000, are left out, and the page says so.
    """
    from .exporting import export as write_export

    write_export(run, None if file == "-" else file, store, wanted)


@click.command(cls=VerbCommand, examples=["agentreplay verify", "agentreplay verify run42 --json"])
@click.argument("runs", nargs=-1, metavar="[RUN…]", help="The runs; all of them unless given.")
@store_option
@json_option
def verify(runs: tuple[str, ...], store: str | None, as_json: bool) -> int:
    """Check that no recorded event was changed or lost.

    Every event is chained to the one before by a hash over its stored bytes; the chain, its end, and every message and
    large value are checked, of all runs unless some are named. Exit code 1 if anything was changed, lost or cut off.

    With --json: {ok, problems: [{run, seq, what}]}.
    """
    from .verifying import verify_runs

    return DIFFERENCE if verify_runs(runs, store, as_json=as_json) else 0


@click.command(cls=VerbCommand, examples=["agentreplay schema > events.json", "agentreplay schema --kind tool.called"])
@click.option("--kind", metavar="KIND", help="Of this kind of event only, such as tool.called.")
def schema(kind: str | None) -> None:
    """Print the JSON Schema of the events.

    It describes every kind of event as it is read from a log. Kinds that begin with `x.` are a user's own; their data
    may be anything.
    """
    from .output import print_json

    print_json(event_schema(kind))


def event_schema(kind: str | None) -> dict[str, Any]:
    """The JSON Schema of all events, or of those of one kind.

    Raises:
        UsageError: there is no such kind.
    """
    from pydantic import TypeAdapter

    from ..recorder.errors import UsageError
    from ..recorder.events import EVENT_OF_KIND, KnownEvent

    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    if kind is None:
        return {**head, "title": "An event of a run", **TypeAdapter(KnownEvent).json_schema()}
    if kind not in EVENT_OF_KIND:
        raise UsageError(f"there is no kind {kind!r}; there are {', '.join(EVENT_OF_KIND)}")
    return {**head, **EVENT_OF_KIND[kind].model_json_schema()}


COMMANDS: Final = {"import": import_, "export": export, "verify": verify, "schema": schema}
