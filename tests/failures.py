"""A failure is told as it happens: who waits an hour for a proof starts to look into it at once, and not at its end."""

from __future__ import annotations

import pytest


class Failures:
    """A plugin of the process in charge: with xdist it hears of every worker's tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One line, when a test or its set-up fails; everything else stands at the end, as ever."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line(f"\nfailed: {report.nodeid} ({report.when}): {_reason(report)}")


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    said = crash.message if crash is not None else str(report.longrepr)
    return (said.strip().splitlines() or ["without a word"])[0][:200]
