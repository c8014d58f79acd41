"""A plugin of pytest: ``-p tests.outcomes --outcomes FILE`` writes what became of each test, for ``tests.rerun``."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest


class Outcomes(msgspec.Struct):
    """Tests by their node ids, and what went wrong apart from a test."""

    passed: list[str] = []
    failed: list[str] = []
    broken: list[str] = []


def read(path: Path) -> Outcomes:
    """What a run wrote; a run that did not write all of it was broken off."""
    if not path.exists():
        return Outcomes(broken=["pytest ended without a word about its tests"])
    try:
        return msgspec.json.decode(path.read_bytes(), type=Outcomes)
    except msgspec.DecodeError as half:  # the disk was full
        return Outcomes(broken=[f"pytest could not write what became of its tests: {half}"])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", metavar="FILE", help="write what became of each test")


def pytest_configure(config: pytest.Config) -> None:
    """Only the process in charge writes: with xdist it hears of every worker's tests."""
    path = config.getoption("--outcomes")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Writer(Path(path)))


class _Writer:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._passed: dict[str, None] = {}
        self._failed: dict[str, None] = {}  # in the order of the run
        self._broken: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails in its set-up or its end has failed."""
        if report.failed:
            self._failed[report.nodeid] = None
        elif report.when == "call" and report.passed:
            self._passed[report.nodeid] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._broken.append(f"{report.nodeid}: its tests cannot be collected")

    def pytest_internalerror(self, excrepr: object) -> None:
        self._broken.append(f"an error of pytest itself: {excrepr}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        """xdist says this of a worker that ended as it should, too: then there is no error."""
        if error:
            self._broken.append(f"worker {node.gateway.id} crashed: {error}")  # type: ignore[attr-defined]  # xdist's

    def pytest_sessionfinish(self) -> None:
        passed = [test for test in self._passed if test not in self._failed]
        made = Outcomes(passed=passed, failed=list(self._failed), broken=self._broken)
        self._path.write_bytes(msgspec.json.encode(made))
