"""What every test shares: no store from outside, and in continuous integration no test that silently does not run."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

# What a machine is busy with is no law of ours: examples have no deadline, and a failing one is printed to be repeated.
settings.register_profile("laws", deadline=None, print_blob=True)
settings.load_profile("laws")

os.environ.pop("AGENTREPLAY_STORE", None)


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped; with CI set every test must run: {report.longrepr}"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what needs a PostgreSQL server where there is none; where CI is set, those tests fail instead."""
    if not collection_path.name.startswith("test_postgres_") or os.environ.get("CI"):
        return None
    from postgres_server import is_at_hand

    return None if is_at_hand() else True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skipped test into a failed one where CI is set."""
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a module that skips itself into a failed one where CI is set."""
    report = yield
    _refuse_skip(report)
    return report
