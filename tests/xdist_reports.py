"""What a worker tells of a test that passed is one short report, and not three long ones between two events.

The process in charge reads all of it in Python: of ten thousand tests that pass it took more of a core than many of them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

#: a set-up or an end that took less is not told; pytest's own list of durations leaves it out, too
_TOLD_FROM_S: Final = 0.005
#: said for lines that a run prints with ``-v`` only
_OF_LINES: Final = ("logstart", "logfinish")
#: with these of ``-r`` a run prints what tests wrote that passed
_PASSED_TOO: Final = frozenset("AP")


def pytest_configure(config: pytest.Config) -> None:
    """In a worker; where more is asked for, it tells everything."""
    if config.get_verbosity() > 0 or _PASSED_TOO & set(config.option.reportchars):
        return
    for plugin in config.pluginmanager.get_plugins() if hasattr(config, "workerinput") else ():
        if hasattr(plugin, "sendevent"):  # xdist's: a class of a module that execnet runs without a name
            plugin.sendevent = functools.partial(_tell, plugin.sendevent)


def _tell(send: Callable[..., None], name: str, **said: Any) -> None:
    report = said.get("data", {})
    if name == "testreport" and report["outcome"] == "passed" and "wasxfail" not in report:
        if report["when"] != "call" and report["duration"] < _TOLD_FROM_S:
            return
        said["data"] = report | {"keywords": {}, "sections": []}
    if name not in _OF_LINES:
        send(name, **said)
