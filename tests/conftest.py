"""What every test shares: no store from outside, and in continuous integration no test that silently does not run."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

os.environ.pop("AGENTREPLAY_STORE", None)


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped; with CI set every test must run: {report.longrepr}"


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
