"""The verb `ui`: the web debugger."""

from __future__ import annotations

from typing import Final

import click

from .options import VerbCommand, store_option


@click.command(
    cls=VerbCommand,
    examples=[
        "agentreplay ui",
        "agentreplay ui --app agent.py:step",
        "agentreplay ui --host 0.0.0.0 --token $(openssl rand -hex 16) --read-only",
    ],
)
@store_option
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8710,
    show_default=True,
    metavar="N",
    help="The port; 0 for any that is free.",
)
@click.option("--app", metavar="FILE:NAME", help="The agent that re-runs execute. Nothing is executed without it.")
@click.option("--read-only", is_flag=True, help="Show runs, and change nothing.")
@click.option("--token", metavar="TEXT", help="Ask for this; required beyond loopback.")
def ui(store: str | None, host: str, port: int, app: str | None, read_only: bool, token: str | None) -> None:
    """Look at recorded runs in a browser.

    It prints the address of the list of runs. Ctrl-C ends it; the runs that are recorded meanwhile go on.

    Only this machine can open it, unless --host names another address than one of loopback: then it asks for a token.
    What is executed is what --app names here, never what a recording or a browser says.
    """
    from ..recorder.locate import open_store
    from ..webui.app import check_address, create_app, serve
    from .streams import say

    names = check_address(host, token)
    found = open_store(store, create=not read_only)
    application = create_app(found, app=app, read_only=read_only, token=token, names=names)

    def ready(address: str) -> None:
        click.echo(address if token is None else f"{address}?token={token}")
        say("Ctrl-C ends it.")

    serve(application, host, port, ready)


COMMANDS: Final = {"ui": ui}
