"""What runs is told in 80 columns, and every address as it can be copied."""

from __future__ import annotations

import io

from rich.console import Console

from compose.cli.stack.status_table import status_table
from compose.supervise.state import ProcessState, StackState

NAMES = (
    "supervisor",
    "kafka",
    "processor_worker-0",
    "limiter_gateway-0",
    "merchant_webhooks-0",
    "processor_simulator_b",
)


def test_a_table_fits_eighty_columns() -> None:
    note = "exited with 1 (log: /a/folder/with/quite/a/long/name/of/its/own/logs/processor_worker-0.log)"
    entries = [
        ProcessState(
            name=name,
            kind="service",
            pid=4_194_300,
            condition="restarting" if n == 2 else "ready",
            address=None if n % 2 else f"http://127.0.0.1:{31_500 + n}",
            ops_url=f"http://127.0.0.1:{41_500 + n}",
            restarts=12 if n == 2 else 0,
            note=note if n == 2 else "",
        )
        for n, name in enumerate(NAMES)
    ]
    out = io.StringIO()
    Console(file=out, width=80).print(status_table(StackState(stack_id="s", phase="ready", processes=entries)))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    for n, name in enumerate(NAMES):
        (line,) = [line for line in lines if line.startswith(name + " ")]
        assert f"http://127.0.0.1:{41_500 + n if n % 2 else 31_500 + n}" in line
    told = "".join(line[-30:].strip() if line.startswith(" ") else "" for line in lines)
    assert "12 restarts" in out.getvalue()
    assert "processor_worker-0.log" in told.replace(" ", "")
