"""A home is backed up while payments are taken, and goes on from its backup: nothing is lost, nothing done twice."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import threading
import uuid
from collections import Counter
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx
import psycopg
import pytest

from compose.backup.files import read_manifest, verify
from compose.backup.take import back_up
from compose.stack.home import Home
from compose.supervise.state import read_state
from reconciliation.payments.processor_book import read_books
from tests.eventually import becomes, eventually, patient
from tests.integration.operator_shell import MILLRACE, Operator
from tests.worlds.public_system import Merchant, no_processes_but

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.servers, pytest.mark.proof, pytest.mark.alone, pytest.mark.timeout(400)]


class Payers:
    """Callers who pay until they are told to stop, each payment under a key that is remembered before it is sent."""

    def __init__(self, operator: Operator, merchant: Merchant) -> None:
        self.operator, self.merchant = operator, merchant
        self.told: dict[str, str] = {}  # key to the payment whose confirm was acknowledged
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._pay) for _ in range(3)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _pay(self) -> None:
        while not self._stop.is_set():
            pay(self.merchant, uuid.uuid4().hex, self.told)


def pay(merchant: Merchant, key: str, told: dict[str, str]) -> None:
    """One payment, if it is acknowledged."""
    try:
        made = merchant.create(key)
        if made.status_code != 201:
            return
        intent_id = made.json()["result"]["id"]
        if merchant.act(intent_id, "confirm", f"c{key}").status_code == 200:
            told[key] = intent_id
    except httpx.TransportError:
        return


def merchant_of(operator: Operator, name: str) -> Merchant:
    made = operator.run("token", "--merchant", name)
    assert made.returncode == 0, made.stderr
    return Merchant(name, operator.settings().addresses().base_url, made.stdout.strip())


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    with serving(Operator(tmp_path / "home", {"MILLRACE_MEDIA_CACHE": "none"})) as made:
        yield made


@pytest.fixture
def payments_alone(tmp_path: Path) -> Iterator[Operator]:
    """A stack that takes payments and nothing else, which is ready sooner."""
    services = "simulator,owner,processor_worker,webhook_worker,clickhouse_sink,ingress"
    variables = {"MILLRACE_SERVICES": services, "MILLRACE_WORKER_PROCESSES": no_processes_but()}
    with serving(Operator(tmp_path / "home", variables)) as made:
        yield made


@contextmanager
def serving(operator: Operator) -> Iterator[Operator]:
    up(operator)
    try:
        yield operator
    finally:
        operator.run("down")
        operator.assert_nothing_left()


def up(operator: Operator) -> None:
    done = operator.run("up", "--detach", "--json")
    assert done.returncode == 0, done.stderr


def gaps(operator: Operator) -> list[tuple[str, Any]]:
    done = operator.run("check", "--json")
    return [(one["id"], one) for one in json.loads(done.stdout)["invariants"] if one["gaps"]]


def test_what_was_acknowledged_before_is_restored_and_all_goes_on(payments_alone: Operator, tmp_path: Path) -> None:
    operator = payments_alone
    merchant = merchant_of(operator, "m_backup")
    target = tmp_path / "backup"
    with closing(merchant.http), Payers(operator, merchant) as payers:
        eventually(lambda: len(payers.told) >= 3, 60, what="payments")
        before = dict(payers.told)
        back_up(operator.settings(), target, lambda step: lengthen_log(operator) if step == "Postgres's log" else None)
        after = len(payers.told)
        eventually(lambda: len(payers.told) >= after + 2, 60, what="payments go on")
    everything = dict(payers.told)
    assert operator.run("down").returncode == 0
    assert gaps_of_another(operator, tmp_path, target, merchant.name, before, everything) == []


def lengthen_log(operator: Operator) -> None:
    """So that Postgres's log since the begin of a backup is several files."""
    with psycopg.connect(operator.settings().addresses().postgres_superuser_dsn, autocommit=True) as connection:
        for _ in range(3):
            connection.execute("select pg_logical_emit_message(false, 'test', 'x')")
            connection.execute("select pg_switch_wal()")


def gaps_of_another(
    operator: Operator, tmp_path: Path, target: Path, name: str, before: dict[str, str], everything: dict[str, str]
) -> list[Any]:
    """A home made of the backup, asked for what was there and told again what came after it."""
    other = Operator(tmp_path / "other", operator.variables)
    with ExitStack() as until:
        until.callback(other.assert_nothing_left)
        until.callback(other.run, "down")
        restored = other.run("restore", str(target))
        assert restored.returncode == 0, restored.stderr
        up(other)
        merchant = merchant_of(other, name)
        until.callback(merchant.http.close)
        for intent_id in before.values():
            becomes(lambda i=intent_id: merchant.fresh(f"/v1/payment_intents/{i}").json().get("state"), "succeeded", 60)
        again: dict[str, str] = {}
        for key in everything:
            eventually(lambda k=key: pay(merchant, k, again) or k in again, 60, what="told again")
        assert again == everything, "the same keys are the same payments"
        for intent_id in everything.values():
            becomes(lambda i=intent_id: merchant.fresh(f"/v1/payment_intents/{i}").json().get("state"), "succeeded", 60)
        becomes(lambda: gaps(other), [], 60, what="no gaps")
        charged = book(other)
        return [one for one in everything.values() if charged[one] != 1]


def book(operator: Operator) -> Counter[str]:
    """How often the processors moved money for each payment."""
    books = read_books(operator.settings().addresses().simulator_urls)
    assert books.doubled == []
    return Counter(entry.reference for entry in books.entries.values())


def test_a_backup_that_is_killed_lets_the_stack_go_on_and_leaves_no_backup(operator: Operator, tmp_path: Path) -> None:
    """In the very moment when all stands still."""
    target = tmp_path / "backup"
    code = (
        "import os, signal; from compose.backup import take; from compose.settings.settings import load_settings;"
        " take._copy_wal = lambda *_: os.kill(os.getpid(), signal.SIGKILL);"
        f" from pathlib import Path; take.back_up(load_settings(), Path({str(target)!r}))"
    )
    python = str(Path(MILLRACE).with_name("python"))
    killed = subprocess.run([python, "-c", code], env=operator.environment(), check=False, timeout=patient(150))
    assert killed.returncode == -signal.SIGKILL
    assert not target.exists()
    eventually(lambda: pay_one(operator), 60, what="it goes on")
    state = read_state(Home(operator.home))
    assert state is not None
    assert {entry.restarts for entry in state.processes} == {0}
    done = operator.run("backup", str(target))
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir() if "backup" in path.name) == ["backup"]


def pay_one(operator: Operator) -> bool:
    told: dict[str, str] = {}
    merchant = merchant_of(operator, "m_one")
    with closing(merchant.http):
        pay(merchant, uuid.uuid4().hex, told)
    return bool(told)


def test_what_is_refused(operator: Operator, tmp_path: Path) -> None:
    """A backup within its home, onto one that is there, two at once, and where it has no room; then one is made."""
    target = tmp_path / "backup"
    inside = operator.run("backup", str(operator.home / "data" / "copy"))
    assert (inside.returncode, "in the home itself" in inside.stderr) == (1, True)
    large = operator.home / "data" / "large"
    with large.open("wb") as file:
        file.truncate(shutil.disk_usage(tmp_path).free)
    no_room = operator.run("backup", str(target))
    assert (no_room.returncode, "MiB are needed free" in no_room.stderr) == (1, True)
    large.unlink()
    seconds = []

    def begin_another(step: str) -> None:
        if step == "standing still":
            seconds.extend(operator.run("backup", str(path)) for path in (target, tmp_path / "another"))

    back_up(operator.settings(), target, begin_another)
    told = [(second.returncode, second.stderr) for second in seconds]
    assert [(status, "wait until it ends" in said) for status, said in told] == [(1, True), (1, True)], told
    again = operator.run("backup", str(target))
    assert (again.returncode, "not empty" in again.stderr) == (1, True)
    onto = operator.run("restore", str(target))
    assert (onto.returncode, "not empty" in onto.stderr) == (1, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "home"]
    verify(target, read_manifest(target))
