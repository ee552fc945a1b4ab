"""The options that verbs share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from .streams import encodable

TYPED: Final = "agentreplay.typed"
"""Where a verb's context has the words that followed the verb."""


class VerbCommand(click.Command):
    """A verb whose help ends in examples.

    Args:
        examples: commands, as they are typed.
    """

    def __init__(self, *args: Any, examples: Sequence[str], **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words that followed the verb, and keep them as they were typed."""
        ctx.meta[TYPED] = list(args)
        return super().parse_args(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        """The help, as the encoding of stdout allows."""
        return encodable(super().get_help(ctx))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, one a line."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")


Function = TypeVar("Function", bound=Callable[..., Any])


def _own_or_the_groups(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    return value or (ctx.parent.params.get("store") if ctx.parent is not None else None)


def store_option(verb: Function) -> Function:
    """`--store URL`, on a verb or before it."""
    return click.option(
        "--store",
        metavar="URL",
        callback=_own_or_the_groups,
        help="Where the runs are: a file, or a database URL. By default what AGENTREPLAY_STORE says, else the nearest "
        ".agentreplay/store.db from here upwards.",
    )(verb)


def json_option(verb: Function) -> Function:
    """`--json`: nothing but JSON on stdout."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(verb)


def run_argument(verb: Function) -> Function:
    """RUN, by default the last one."""
    return click.argument("run", default="@last", metavar="[RUN]", help="The run; the last one unless given.")(verb)
