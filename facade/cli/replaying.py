"""The verbs that execute code against a recording: `replay`, `rerun` and `resume`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import click

from .code_options import (
    allow_option,
    app_option,
    given_options,
    ignore_option,
    max_rounds_option,
    reuse_option,
    secret_option,
)
from .editing import assumed, patch_of, values
from .options import VerbCommand, json_option, run_argument, store_option


@click.command(
    cls=VerbCommand,
    examples=[
        "agentreplay replay run42",
        "agentreplay replay run42 --app agent.py:step --ignore 'tool:search:$.request_id'",
        "agentreplay replay fixtures/*.jsonl --app agent.py:step --junit-xml report.xml",
        "agentreplay replay run40 run41 run42 --app new_agent.py:step --collect",
    ],
)
@click.argument("recordings", nargs=-1, metavar="[RUN|FILE]…")
@store_option
@app_option
@ignore_option
@click.option("--collect", is_flag=True, help="Go on after a difference as far as can be.")
@click.option("--shallow", is_flag=True, help="Answer child runs as wholes, instead of executing them, too.")
@click.option("--full", is_flag=True, help="Write long values whole.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Replay several recordings N at a time; by default as many as there are cores.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End what takes longer, for each recording; loading its code counts. By default it may take for ever.",
)
@click.option("--junit-xml", metavar="FILE", help="Write a report for CI, too. Its folder is made.")
@json_option
def replay(
    recordings: tuple[str, ...],
    store: str | None,
    app: str | None,
    ignore: tuple[str, ...],
    collect: bool,
    shallow: bool,
    full: bool,
    jobs: int | None,
    timeout: float | None,
    junit_xml: str | None,
    as_json: bool,
) -> int:
    """Execute code against recorded runs, and say if it does the same.

    Every effect is answered from the log, and nothing is recorded: no model, tool or clock is asked, and a call that
    the recording does not hold is never made. The first difference stops it. The last line says what was covered.

    A recording is a run, by default the last one, or a cassette, which needs no store; a pattern in quotes names all
    files that fit. Of several there is a table with the first difference of each; they are replayed beside each other.
    Each is executed in a process of its own, so code that ends its process, or takes longer than --timeout, is an error
    of that recording.

    Exit code 0 if the code did the same, 1 if it did not in one of them; else 3 if one cannot be read. Ctrl-C ends
    all of it, with 130.

    With --json: {run, verdict, divergences, coverage, complete, notes}. `verdict` is "identical" or "diverged",
    `divergences` a list of {step, seq, kind, path, expected, actual, …}, `coverage` {recorded, live, uncaptured,
    unused}: how many effects were answered from the log, were made, were never captured, and were not asked for.
    Of files, or several recordings, a list of such, each with {file, agent, rounds, error, seconds}, too; `verdict` may
    be "error" or "unreadable" then.
    """
    from .guarding import can_guard, guarded
    from .replaying_many import expanded, is_file, replay_file, replay_many

    names = expanded(recordings or ("@last",))
    name, guards = names[0], can_guard()
    if (
        len(names) > 1
        or jobs is not None
        or junit_xml is not None
        or (as_json and is_file(name))
        or (timeout is not None and not guards)
    ):
        return replay_many(
            names,
            store,
            app=app,
            ignore=ignore,
            collect=collect,
            shallow=shallow,
            jobs=jobs,
            timeout=timeout,
            junit_xml=junit_xml,
            as_json=as_json,
        )

    def replay_one() -> int:
        if is_file(name):
            return replay_file(name, app=app, ignore=ignore, collect=collect, shallow=shallow, full=full)
        from .replays import replay_run
        from .runs import open_for_reading

        found = open_for_reading(store)
        info = found.run(name)
        how: dict[str, Any] = {
            "ignore": ignore,
            "collect": collect,
            "shallow": shallow,
            "full": full,
            "as_json": as_json,
        }
        return replay_run(found, info, app, **how)

    return guarded(replay_one, name, timeout) if guards else replay_one()


@click.command(
    cls=VerbCommand,
    examples=[
        "agentreplay rerun run42 --step 7 --set /order/total=129.5",
        "agentreplay rerun run42 --from-failure --edit --allow issue_refund",
        "agentreplay rerun run42 --step 7 --tool-result '7.2={\"hits\": []}' --dry-run",
    ],
)
@run_argument
@store_option
@click.option("--step", type=int, metavar="N", help="The first step that is run live; -1 is the last.")
@click.option("--from-failure", is_flag=True, help="Instead: the step in which the run failed.")
@app_option
@click.option(
    "--set",
    "places",
    multiple=True,
    metavar="PATH=JSON",
    callback=values,
    help="Create or replace a value of the payload: /order/total=5, or order.total=5.",
)
@click.option(
    "--patch",
    multiple=True,
    metavar="FILE",
    callback=patch_of,
    help="Apply a JSON Patch (RFC 6902) to the payload; once, after --set.",
)
@click.option("--edit", is_flag=True, help="Edit the payload, as JSON, in $EDITOR.")
@click.option(
    "--tool-result",
    "tool_results",
    multiple=True,
    metavar="CALL=JSON",
    callback=values,
    help="What a tool call of step N gives, instead of being made.",
)
@click.option(
    "--model-response",
    "model_responses",
    multiple=True,
    metavar="CALL=JSON",
    callback=values,
    help="What a model call of step N gives, instead of being made.",
)
@click.option("--skip", multiple=True, metavar="CALL", help="A call of step N that is not made and gives null.")
@given_options
@secret_option
@allow_option
@reuse_option
@click.option(
    "--prefix",
    type=click.Choice(["execute", "fold"]),
    default="execute",
    show_default=True,
    help="Execute the steps before N against the log, or take their outcome from it.",
)
@click.option(
    "--compensate",
    is_flag=True,
    help="Undo before what the run's compensable tools did from step N on, the last call first.",
)
@max_rounds_option
@ignore_option
@click.option("--dry-run", is_flag=True, help="Say what would be done; execute nothing.")
@click.option("--attended", is_flag=True, hidden=True, help="For programs; see `attended`.")
@json_option
def rerun(
    run: str,
    store: str | None,
    step: int | None,
    from_failure: bool,
    app: str | None,
    places: dict[str, Any],
    patch: list[dict[str, Any]] | None,
    edit: bool,
    tool_results: dict[str, Any],
    model_responses: dict[str, Any],
    skip: tuple[str, ...],
    messages: list[Any],
    params: dict[str, Any] | None,
    given_input: Any,
    hidden: dict[str, str],
    allow: tuple[str, ...],
    reuse: bool,
    prefix: str,
    compensate: bool,
    max_rounds: int | None,
    ignore: tuple[str, ...],
    dry_run: bool,
    attended: bool,
    as_json: bool,
) -> int:
    """Run an agent again from a step of a recorded run, with edits.

    The steps before N are executed against the log and compared; then the edits take effect, and the rest runs live,
    as a new run that shares the events before. The recorded run stays as it is. Tools that are irreversible, or declare
    no safety, are refused unless they are allowed by name.

    Values are JSON; a bare word is taken as a text, and @FILE reads a file. Calls are named as `show` does: 7.2.

    --from-failure goes by the step that raised an exception; else by the last one in which a call failed; else by the
    last one.

    Exit code 1 if the agent failed, or parted from the recording before step N.

    With --json: {run, parent, step, status, coverage}, and `divergences` if the code parted from the recording; then
    `run` is null. With --dry-run: {run, step, last, answered, edits, changes, calls, refused,
    compensated, undone}.
    """
    from ..replay.rerun_request import RerunRequest
    from .replays import rerun_run
    from .runs import open_for_reading

    if attended:
        from .attended import asked_by_attendant

        wanted = replace(RerunRequest.from_json(asked_by_attendant()), secrets=hidden)
        found = open_for_reading(store)
        return rerun_run(found, found.run(run), app, wanted, edit=False, dry_run=dry_run, as_json=as_json)
    if (step is None) is not from_failure:
        raise click.UsageError("say from which step: --step N, or --from-failure")
    if edit and (places or patch or as_json):
        raise click.UsageError("--edit excludes --set, --patch and --json")
    found = open_for_reading(store)
    wanted = RerunRequest(
        step=step,
        set=places,
        patch=patch,
        tool_results=tool_results,
        model_responses=model_responses,
        skip=skip,
        messages=messages,
        params=params,
        input=given_input,
        secrets=hidden,
        allow=allow,
        reuse=reuse,
        prefix=prefix,
        compensate=compensate,
        max_rounds=max_rounds,
        ignore=ignore,
    )
    return rerun_run(found, found.run(run), app, wanted, edit=edit, dry_run=dry_run, as_json=as_json)


@click.command(
    cls=VerbCommand,
    examples=[
        "agentreplay resume run42",
        "agentreplay resume run42 --answer approve=true",
        "agentreplay resume run42 --assume 9.2=not-done --take-over",
    ],
)
@run_argument
@store_option
@app_option
@click.option(
    "--answer",
    "answers",
    multiple=True,
    metavar="ID=JSON",
    callback=values,
    help="The answer to a question at which the run stopped, by its id or name.",
)
@click.option(
    "--assume",
    multiple=True,
    metavar="CALL=JSON",
    callback=assumed,
    help="What a call gave that was in flight when the run ended; `CALL=not-done` makes it now.",
)
@click.option("--take-over", is_flag=True, help="The run's process is gone, though that cannot be proved from here.")
@secret_option
@allow_option
@max_rounds_option
@ignore_option
@json_option
def resume(
    run: str,
    store: str | None,
    app: str | None,
    answers: dict[str, Any],
    assume: dict[str, Any],
    take_over: bool,
    hidden: dict[str, str],
    allow: tuple[str, ...],
    max_rounds: int | None,
    ignore: tuple[str, ...],
    as_json: bool,
) -> int:
    """Go on with a run that was interrupted or has crashed, in place.

    The code is executed against the log until it does something that the log does not have; from there on it runs live,
    and appends to the same run. Calls that were in flight are made again if that does no harm; of an irreversible one
    you say what became of it, with --assume. If the run is a re-run, tools that are irreversible, or declare no safety,
    are refused unless they are allowed by name, as they were when it began.

    Exit code 1 if the agent failed, or parted from the log.

    With --json: {run, step, status, coverage}; `step` is the step at which it went on.
    """
    from .replays import resume_run
    from .runs import open_for_reading

    found = open_for_reading(store)
    return resume_run(
        found,
        found.run(run),
        app,
        answers=answers,
        assume=assume,
        take_over=take_over,
        secrets=hidden,
        allow=allow,
        max_rounds=max_rounds,
        ignore=ignore,
        as_json=as_json,
    )


COMMANDS: Final = {"replay": replay, "rerun": rerun, "resume": resume}
