"""The pytest plugin: recorded runs as tests, by the fixture `agentreplay` and the marker of that name.

    @pytest.mark.agentreplay("fixtures/refund.jsonl")
    def test_refund(agentreplay):
        agentreplay.replay(step)

It is loaded in every run of pytest where agentreplay is installed, most of which replay nothing. So this module imports
nothing but pytest, and what it does for a test without marker and fixture is a look for these two. All else is in
`pytest_cassettes` and `pytest_reporting`, which are imported with the first test that uses one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from functools import partial
from typing import Any, Final

import pytest

NAME: Final = "agentreplay"
MODES: Final = ("none", "once", "new", "all")
PARAMETER: Final = "agentreplay_cassette"
"""What a test of several cassettes is parametrised by."""

MARKER: Final = (
    f"{NAME}(*cassettes, app=None, payload=…, input=…, params=…, ignore=(), collect=False, shallow=False): replay "
    "recorded runs. Paths are relative to the test's file and may hold *; of several each is a test. `app` is what is "
    "executed, beginning as it was recorded, or with what is given; without it the test says so with the fixture "
    f"`{NAME}`, or its body is the code."
)

UNTRACED: Final = "agentreplay_untraced"
"""An attribute of errors that say all by themselves, and are shown without the way through our code."""

_RECORDING: Final = f"{__package__}.replay.cassette_recording"

_KEY: Final = pytest.StashKey[dict[str, Any]]()
"""What this run of pytest knows: `named` cassettes, whether it is `narrowed`, and what workers have told."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup(NAME, "recorded agent runs")
    group.addoption(
        "--agentreplay-record",
        choices=MODES,
        default="none",
        help="Which cassettes are recorded, by running their code live: none (the default); once: those that are "
        "missing; new: those, and what a recording lacks that ends before its run did; all: all, anew.",
    )
    group.addoption(
        "--agentreplay-update",
        action="store_true",
        help="Record those cassettes anew, by running their code live, from which it parts.",
    )
    group.addoption(
        "--agentreplay-in-ci",
        action="store_true",
        help="Allow the two options above where the environment says CI, too.",
    )
    group.addoption(
        "--agentreplay-unused",
        choices=("off", "warn", "fail"),
        default="warn",
        help="What becomes of cassettes that no test used, if all tests ran: named at the end (warn, the default), "
        "or a failure, too.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse to record by accident."""
    config.addinivalue_line("markers", MARKER)
    config.stash[_KEY] = {"named": set(), "used": set(), "kept": [], "narrowed": False}
    mode, update = config.getoption("--agentreplay-record"), config.getoption("--agentreplay-update")
    records = mode != "none" or update
    if not records and _RECORDING not in sys.modules:
        return
    if (
        records
        and os.environ.get("CI", "").lower() not in ("", "0", "false")
        and not config.getoption("--agentreplay-in-ci")
    ):
        option = "--agentreplay-update" if update else f"--agentreplay-record={mode}"
        raise pytest.UsageError(
            f"{option} runs agents live, with real models and tools, and the environment says that this is CI. "
            "If that is meant, say --agentreplay-in-ci, too"
        )
    from .replay.cassette_recording import KEEPING, Keeping

    before = KEEPING.put(Keeping(mode, update))
    config.add_cleanup(partial(_put_back, before))  # pytest may have been called by a program, or by a test of pytest


def _put_back(before: Any) -> None:
    from .replay.cassette_recording import KEEPING

    KEEPING.put(before)


@pytest.fixture
def agentreplay(request: pytest.FixtureRequest) -> Any:
    """Replays recorded runs: `agentreplay.replay(step)`, or `await agentreplay.areplay(step)`.

    The cassette is that of the marker `@pytest.mark.agentreplay("fixtures/refund.jsonl")`, or a second argument, a path
    relative to the test's file. `agentreplay.result` is what the last replay came to, and `.path` the cassette.
    """
    from .pytest_cassettes import fixture_of

    return fixture_of(request.node)


@pytest.fixture(scope="session")
def agentreplay_redaction() -> Any:
    """Redaction rules of runs that tests record for the first time; override it to return `ar.RedactionRules(…)`."""
    return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each cassette, where a marker has several."""
    marker = metafunc.definition.get_closest_marker(NAME)
    if marker is None:
        return
    from .pytest_cassettes import cassettes_of

    paths = cassettes_of(marker, metafunc.definition)
    if len(paths) > 1 and PARAMETER not in metafunc.fixturenames:
        metafunc.fixturenames.append(PARAMETER)
        metafunc.parametrize(PARAMETER, paths, ids=[os.path.basename(path) for path in paths])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note which cassettes tests name, whether they run or not."""
    for item in items:
        marker = item.get_closest_marker(NAME)
        if marker is not None:
            from .pytest_cassettes import cassettes_of

            config.stash[_KEY]["named"].update(map(os.path.realpath, cassettes_of(marker, item)))


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Note that not all tests run."""
    for item in items[:1]:
        item.config.stash[_KEY]["narrowed"] = True


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Execute a test against its cassette."""
    if not isinstance(item, pytest.Function):
        return (yield)
    if item.get_closest_marker(NAME) is None and NAME not in item.fixturenames:
        return (yield)
    from .pytest_cassettes import against_cassette

    with against_cassette(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show a divergence like an assertion that failed."""
    report = yield
    errors = sys.modules.get(f"{__package__}.recorder.errors")
    if call.excinfo is not None and report.failed and errors is not None:
        error = call.excinfo.value
        if isinstance(error, errors.CassetteDiverged) or getattr(error, UNTRACED, False):
            from .pytest_reporting import shown_failure

            report.longrepr = shown_failure(item, error)
    return report


def pytest_sessionfinish(session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
    """Tell the controller of pytest-xdist what this process has used and written; or judge what was not used."""
    known = session.config.stash[_KEY]
    recording = sys.modules.get(_RECORDING)
    if recording is not None:
        known["used"].update(recording.KEEPING.used)
        known["kept"] += [(kept.path, kept.what, kept.why, kept.status, kept.rounds) for kept in recording.KEEPING.kept]
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[NAME] = {name: sorted(value) if isinstance(value, set) else value for name, value in known.items()}
    elif known["named"] or known["used"]:
        from .pytest_reporting import judge_unused

        judge_unused(session, known, exitstatus)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Take what a worker of pytest-xdist tells."""
    told = getattr(node, "workeroutput", {}).get(NAME)
    if told is not None:
        known = node.config.stash[_KEY]
        for name in ("named", "used"):
            known[name].update(told[name])
        known["kept"] += told["kept"]
        known["narrowed"] |= told["narrowed"]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say which cassettes were written, and which no test used."""
    known = config.stash[_KEY]
    if known["kept"] or known.get("unused"):
        from .pytest_reporting import write_summary

        write_summary(terminalreporter, known)
