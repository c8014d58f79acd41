"""``millrace demo`` as somebody runs it: a verdict, one last line, and nothing left behind, also when it is cut short."""

from __future__ import annotations

import gzip
import re
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from beancount import loader
from beancount.core import data

from compose.proof.demo.social_cast import EDGES_FILE, TEXTS_FILE
from tests.eventually import becomes, eventually, patient
from tests.servers import clean_environment
from tests.worlds.public_system import no_processes_but

if TYPE_CHECKING:
    from collections.abc import Iterator

MILLRACE = Path(sys.executable).with_name("millrace")
DEMO_S = 120
HEADER = "invoice_no,invoice_date,customer_id,country,total_minor_gbp,lines\n"

pytestmark = [pytest.mark.servers, pytest.mark.slow]


def environment_in(folder: Path) -> dict[str, str]:
    """The demo's temporary homes lie in this folder."""
    folder.mkdir()
    return clean_environment() | {"TMPDIR": str(folder), "COLUMNS": "200", "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return environment_in(tmp_path / "temporary")


def orders_in(folder: Path) -> Path:
    """Invoices enough for every kind of story that ends soon, and credit notes between them."""
    rows = [f"{n},1/12/2010,{17_000 + n},France,{1_000 + 37 * n},3" for n in range(1, 25)]
    path = folder / "orders.csv"
    path.write_text(HEADER + "\n".join([*rows, "C99,1/12/2010,17001,France,-500,1", ""]))
    return path


def people_in(folder: Path) -> Path:
    """A small graph with texts, in the form of the real ones: some follow all, and one is followed by all."""
    edges = [f"{one},{other}" for one in range(3) for other in range(one + 1, 40)]
    (folder / EDGES_FILE).write_bytes(gzip.compress("\n".join(edges).encode()))
    (folder / TEXTS_FILE).write_text("\n".join(f"{n} of all at the harbour… #{n}" for n in range(40)), encoding="utf-8")
    return folder


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    return orders_in(tmp_path)


@dataclass
class Demonstration:
    """One demo that is kept when it has ended; the tests below go through it from its begin to its end."""

    environment: dict[str, str]
    output: Path
    process: subprocess.Popen[bytes]

    @property
    def out(self) -> str:
        return self.output.read_text()

    def wait_for_its_end(self) -> None:
        """Each test that needs it says so: whichever runs alone starts the demo."""
        eventually(lambda: self.process.poll() is not None, DEMO_S, what="the demo has ended")

    def printed(self, what: str) -> str:
        self.wait_for_its_end()
        lines = (line.strip() for line in self.out.splitlines())
        return next(line.partition(":")[2].strip() for line in lines if line.startswith(what))

    def shell(self, command: str) -> str:
        """What somebody who follows the printed lines would type."""
        words = ["/bin/sh", "-c", command]
        wait_s = patient(DEMO_S)
        return subprocess.run(
            words, env=self.environment, capture_output=True, text=True, check=True, timeout=wait_s
        ).stdout


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demonstration]:
    folder = tmp_path_factory.mktemp("demo")
    environment, output = environment_in(folder / "temporary"), folder / "output"
    command = [
        MILLRACE,
        "demo",
        "--orders",
        orders_in(folder),
        "--social",
        people_in(folder),
        "--rate",
        "10",
        "--keep",
        "--verbose",
    ]
    with output.open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    made = Demonstration(environment, output, process)
    yield made
    process.terminate()
    process.wait(60)
    for home in Path(environment["TMPDIR"]).glob("millrace-demo-*"):  # of a test that failed
        subprocess.run([MILLRACE, "down"], env=environment | {"MILLRACE_HOME": str(home)}, check=False, timeout=60)


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


@pytest.mark.timeout(480)  # the whole demo
def test_a_payment_is_followed_through_every_store(kept: Demonstration) -> None:
    """From HTTP to ClickHouse, by its identity."""
    stops = ("HTTP request", "Kafka command", "owner", "attempt", "dispatch", "processor's book", "Kafka fact")
    stops += ("ledger", "outbox", "Kafka event", "ClickHouse")
    eventually(lambda: all(stop in kept.out for stop in stops) or kept.process.poll() is not None, DEMO_S)
    assert [stop for stop in stops if stop not in kept.out] == []


@pytest.mark.timeout(240)
def test_invoices_of_a_file_end_in_a_verdict(kept: Demonstration) -> None:
    """Payments, a killed owner, one act of each kind, every comparison."""
    kept.wait_for_its_end()
    out = kept.out
    assert kept.process.returncode == 0, out
    last = out.splitlines()[-1]
    assert re.match(r"DEMO OK payments=24 captured=\d+ duplicates_replayed=\d+ invariant_gaps=0 ", last)
    assert "owners_killed=1 acts=6 breaks_planted=4 breaks_found=4 repairs=1 differences=0 " in last
    assert re.search(
        r" quota_decisions=\d{3,} .*quota_over_admitted=0 quota_duplicates_charged=0 quota_lease_gap=0", last
    )
    assert "admitted against the bound" in out
    assert "1 credit notes skipped" in out
    assert "4 of 4 breaks found, 0 others" in out
    assert "The author's own approval was refused; approved by another person it was posted." in out


@pytest.mark.timeout(240)
def test_a_kept_demo_can_be_used(kept: Demonstration, tmp_path: Path) -> None:
    """beancount, which shares no code with us, reads the whole ledger and finds every balance as the owners wrote it."""
    assert kept.shell(kept.printed("a token:")).count(".") == 2
    home = kept.printed("the end:").split()[0].partition("=")[2]
    exported(kept.environment | {"MILLRACE_HOME": home}, tmp_path)


@pytest.mark.timeout(240)
def test_a_kept_demo_ends_without_a_trace(kept: Demonstration) -> None:
    kept.shell(kept.printed("the end:"))
    assert left_behind(kept.environment) == ([], [])


def exported(environment: dict[str, str], folder: Path) -> None:
    """The export balances in beancount, is the same on both ways out, and one cent makes it wrong."""
    path = folder / "ledger.beancount"

    def export(*arguments: str | Path) -> str:
        command = [MILLRACE, "export", "--format", "beancount", *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=patient(60)
        ).stdout

    assert export("--output", path) == ""
    text = path.read_text()
    assert export() == text
    entries, errors, _ = loader.load_string(text)
    assert errors == []
    kinds = {entry.meta["kind"] for entry in entries if isinstance(entry, data.Transaction)}
    assert {
        "capture",
        "refund_failed_later",
        "dispute_lost",
        "dispute_reinstated",
        "settled",
        "settlement_short",
    } <= kinds
    assert sum(isinstance(entry, data.Balance) for entry in entries) == len(data_accounts(entries)) > 30
    if hledger := shutil.which("hledger"):  # a program of its own: nothing of beancount's is in it
        journal = subprocess.run(
            [MILLRACE, "export", "--format", "hledger"],
            env=environment,
            capture_output=True,
            check=True,
            timeout=patient(60),
        ).stdout
        subprocess.run([hledger, "-f", "-", "check", "--strict"], input=journal, check=True, timeout=patient(60))
    planted = re.sub(r"(  Assets:ProcessorReceivable:\S+  20\.0)1 GBP", r"\g<1>2 GBP", text, count=1)
    assert planted != text
    assert {"does not balance", "Balance failed"} <= {
        words
        for error in loader.load_string(planted)[1]
        for words in ("does not balance", "Balance failed")
        if words in error.message
    }


def data_accounts(entries: list[Any]) -> set[str]:
    """The accounts that were opened."""
    return {entry.account for entry in entries if isinstance(entry, data.Open)}


@pytest.mark.proof
def test_a_demo_that_is_cut_short_cleans_up(environment: dict[str, str], orders: Path):
    """The polite kill while payments are under way, which is passed on as Ctrl-C."""
    demo = started(environment, "--orders", orders, "--rate", "2")
    for _ in lines_until(demo, "payments, "):
        pass
    demo.send_signal(signal.SIGTERM)
    out, _ = demo.communicate(timeout=patient(DEMO_S))
    assert demo.returncode == 130
    assert out.splitlines()[-1].startswith("DEMO FAILED interrupted=1")
    assert left_behind(environment) == ([], [])


@pytest.mark.proof
def test_a_killed_demo_leaves_no_process(environment: dict[str, str], orders: Path):
    """kill -9 cannot be heard, but the stack hangs on the demo's life."""
    few = {"MILLRACE_SERVICES": "owner,ingress", "MILLRACE_WORKER_PROCESSES": no_processes_but()}
    demo = started(environment | few, "--orders", orders, "--rate", "2")
    for _ in lines_until(demo, "the stack is ready"):
        pass
    demo.kill()
    demo.communicate(timeout=patient(DEMO_S))
    becomes(lambda: left_behind(environment)[1], [], within_s=DEMO_S)


def test_a_busy_port_is_one_line(environment: dict[str, str], orders: Path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        demo = started(environment | {"MILLRACE_INGRESS_PORT": str(port)}, "--orders", orders)
        out, err = demo.communicate(timeout=patient(DEMO_S))
    assert demo.returncode == 1
    assert re.fullmatch(rf"millrace: port {port} for ingress_port is in use: .*\n", err)
    assert "Traceback" not in out
    assert left_behind(environment) == ([], [])


def test_a_file_that_is_none_is_one_line(environment: dict[str, str], tmp_path: Path):
    demo = started(environment, "--orders", tmp_path / "missing.csv")
    out, err = demo.communicate(timeout=patient(DEMO_S))
    assert (demo.returncode, out) == (1, "")
    assert re.fullmatch(r"millrace: cannot read .*missing\.csv: No such file.*\n", err)
