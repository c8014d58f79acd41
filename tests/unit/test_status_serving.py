"""``millrace status`` tells what a process that runs cannot serve, as that process says it itself."""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from compose.cli.stack.status import app
from compose.services.ops import OpsServer
from compose.stack import processes
from compose.stack.home import Home
from compose.supervise.state import ProcessState, StackState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STILL = "partition 3 stands still: halted, see 'millrace partitions list'"


@contextmanager
def running(home: Path, said: bool | str) -> Iterator[None]:
    """A ready stack of one process, which says this of itself at its port for operators."""
    server = OpsServer(0, lambda: said, lambda: True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    me = processes.identify(os.getpid())
    assert me is not None
    supervisor = ProcessState(name="supervisor", kind="supervisor", pid=me.pid, started=me.started, condition="ready")
    owner = ProcessState(
        name="owner-0",
        kind="service",
        pid=me.pid,
        started=me.started,
        condition="ready",
        ops_url=f"http://127.0.0.1:{server.server_port}",
    )
    (home / "run").mkdir()
    StackState(stack_id="s", phase="ready", processes=[supervisor, owner]).write(Home(home))
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("said", "phase", "note", "code"),
    [(True, "ready", "", 0), (STILL, "degraded", f"cannot serve everything: {STILL}", 3)],
)
def test_a_halted_partition_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bool | str, phase: str, note: str, code: int
) -> None:
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    with running(tmp_path, said):
        found = CliRunner().invoke(app, ["--json"])
    told = json.loads(found.stdout)
    assert (told["phase"], told["ready"], found.exit_code) == (phase, code == 0, code)
    assert [entry["note"] for entry in told["processes"]] == ["", note]
