"""The options that verbs have in common which execute code against a recording: which code, with what, within what."""

from __future__ import annotations

import click

from .editing import listed, secrets, single
from .options import Function
from .record import parameters


def app_option(verb: Function) -> Function:
    """`--app`, the code that is executed."""
    return click.option(
        "--app",
        metavar="FILE:NAME",
        help="The code to execute: FILE.py:NAME or MODULE:NAME, an agent, a step, or a function that opens "
        "agentreplay.record. By default what [tool.agentreplay] app= in pyproject.toml says, else what recorded the "
        "run into this store on this machine.",
    )(verb)


def ignore_option(verb: Function) -> Function:
    """`--ignore RULE`, any number of times."""
    return click.option(
        "--ignore",
        multiple=True,
        metavar="RULE",
        help="What is different each time, such as 'tool:search:$.request_id'. May be repeated.",
    )(verb)


def allow_option(verb: Function) -> Function:
    """`--allow NAME`, any number of times."""
    return click.option(
        "--allow",
        multiple=True,
        metavar="NAME",
        help="An irreversible tool that a re-run may call. May be repeated.",
    )(verb)


def secret_option(verb: Function) -> Function:
    """`--secret PATH=env:VAR`, any number of times."""
    return click.option(
        "--secret",
        "hidden",
        multiple=True,
        metavar="PATH=env:VAR",
        callback=secrets,
        help="The secret that a token stands for in the payload, from a variable.",
    )(verb)


def max_rounds_option(verb: Function) -> Function:
    """`--max-rounds N`."""
    return click.option(
        "--max-rounds",
        type=click.IntRange(min=1),
        metavar="N",
        help="End the run after N rounds, counted from its start. By default what it was given when it was recorded.",
    )(verb)


def given_options(verb: Function) -> Function:
    """`--add-message`, `--param` and `--input`: what a re-run is given beside the payload."""
    messages = click.option(
        "--add-message", "messages", multiple=True, metavar="JSON", callback=listed, help="Add to the conversation."
    )
    params = click.option(
        "--param", "params", multiple=True, metavar="NAME=VALUE", callback=parameters, help="A parameter."
    )
    input = click.option(
        "--input", "given_input", multiple=True, metavar="JSON", callback=single, help="Another input; once."
    )
    return messages(params(input(verb)))


def reuse_option(verb: Function) -> Function:
    """`--reuse`."""
    return click.option(
        "--reuse", is_flag=True, help="Give live calls that ask what was recorded the recorded answers."
    )(verb)
