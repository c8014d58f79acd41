"""``millrace demo`` as somebody runs it: a verdict, one last line, and nothing left behind, also when it is cut short."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import clean_environment
from tests.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

MILLRACE = Path(sys.executable).with_name("millrace")
DEMO_S = 240
HEADER = "invoice_no,invoice_date,customer_id,country,total_minor_gbp,lines\n"

pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.timeout(2 * DEMO_S)]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The demo's temporary homes lie in this test's own folder."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return clean_environment() | {"TMPDIR": str(folder), "COLUMNS": "200"}


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Invoices enough for every kind of story that ends soon, and credit notes between them."""
    rows = [f"{n},1/12/2010,{17_000 + n},France,{1_000 + 37 * n},3" for n in range(1, 25)]
    path = tmp_path / "orders.csv"
    path.write_text(HEADER + "\n".join([*rows, "C99,1/12/2010,17001,France,-500,1", ""]))
    return path


def started(environment: dict[str, str], *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [MILLRACE, "demo", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left_behind(environment: dict[str, str]) -> tuple[list[str], list[str]]:
    """Homes, and processes that have one of them in their environment."""
    folder = environment["TMPDIR"]
    running = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and f"MILLRACE_HOME={folder}".encode() in (process / "environ").read_bytes():
                running.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return [home.name for home in Path(folder).glob("millrace-demo-*")], running


def lines_until(demo: subprocess.Popen[str], words: str) -> Iterator[str]:
    assert demo.stdout is not None
    for line in demo.stdout:
        yield line
        if words in line:
            return
    raise AssertionError(f"the demo ended without {words!r}: {demo.stderr and demo.stderr.read()}")


def test_invoices_of_a_file_end_in_a_verdict(environment: dict[str, str], orders: Path):
    """Payments, a killed owner, every comparison; the last line counts, and nothing stays."""
    demo = started(environment, "--orders", orders, "--rate", "10")
    out, err = demo.communicate(timeout=DEMO_S)
    last = out.splitlines()[-1]
    assert demo.returncode == 0, out + err
    assert re.match(r"DEMO OK payments=24 captured=\d+ duplicates_replayed=\d+ invariant_gaps=0 ", last)
    assert "owners_killed=1" in last
    assert "1 credit notes skipped" in out
    for stop in ("HTTP request", "Kafka command", "owner", "attempt", "dispatch", "processor's book", "Kafka fact"):
        assert stop in out, stop
    for stop in ("ledger", "outbox", "Kafka event", "ClickHouse"):
        assert stop in out, stop
    assert left_behind(environment) == ([], [])


def test_a_demo_that_is_cut_short_cleans_up(environment: dict[str, str], orders: Path):
    """The polite kill while payments are under way, which is passed on as Ctrl-C."""
    demo = started(environment, "--orders", orders, "--rate", "2")
    for _ in lines_until(demo, "payments, "):
        pass
    demo.send_signal(signal.SIGTERM)
    out, _ = demo.communicate(timeout=DEMO_S)
    assert demo.returncode == 130
    assert out.splitlines()[-1].startswith("DEMO FAILED interrupted=1")
    assert left_behind(environment) == ([], [])


def test_a_killed_demo_leaves_no_process(environment: dict[str, str], orders: Path):
    """kill -9 cannot be heard, but the stack hangs on the demo's life."""
    demo = started(environment, "--orders", orders, "--rate", "2")
    for _ in lines_until(demo, "the stack is ready"):
        pass
    demo.kill()
    demo.communicate(timeout=DEMO_S)
    eventually(lambda: left_behind(environment)[1] == [], within_s=DEMO_S)


def test_a_busy_port_is_one_line(environment: dict[str, str], orders: Path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        demo = started(environment | {"MILLRACE_INGRESS_PORT": str(port)}, "--orders", orders)
        out, err = demo.communicate(timeout=DEMO_S)
    assert demo.returncode == 1
    assert re.fullmatch(rf"millrace: port {port} for ingress_port is in use: .*\n", err)
    assert "Traceback" not in out
    assert left_behind(environment) == ([], [])


def test_a_file_that_is_none_is_one_line(environment: dict[str, str], tmp_path: Path):
    demo = started(environment, "--orders", tmp_path / "missing.csv")
    out, err = demo.communicate(timeout=DEMO_S)
    assert (demo.returncode, out) == (1, "")
    assert re.fullmatch(r"millrace: cannot read .*missing\.csv: No such file.*\n", err)


def test_a_kept_demo_can_be_used_and_ended(environment: dict[str, str], orders: Path):
    """--keep says how: the printed commands work as they are printed."""
    demo = started(environment, "--orders", orders, "--rate", "10", "--keep")
    out, err = demo.communicate(timeout=DEMO_S)
    assert demo.returncode == 0, out + err

    def printed(what: str) -> str:
        return next(line.partition(":")[2].strip() for line in out.splitlines() if line.strip().startswith(what))

    def shell(command: str) -> str:
        return subprocess.run(
            ["/bin/sh", "-c", command], env=environment, capture_output=True, text=True, check=True, timeout=DEMO_S
        ).stdout

    try:
        assert shell(printed("a token:")).count(".") == 2
    finally:
        shell(printed("the end:"))
    assert left_behind(environment) == ([], [])
