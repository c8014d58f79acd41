"""The vault as a process: its memory stays its own, its log tells nothing, two share a port, the database may go."""

from __future__ import annotations

import os
import resource
import signal
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.eventually import becomes, eventually, patient
from tests.migrated import in_database
from tests.servers import own_servers, without
from tests.worlds.payments.attempts_world import readiness
from tests.worlds.payments.card_traces import in_files, in_postgres
from tests.worlds.payments.vault_world import VaultWorld, card, ended, processor
from tests.worlds.postgres_recovery import recovering

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.payments.vault_world import Processor

__all__ = ["processor"]  # a fixture of this module
pytestmark = [pytest.mark.servers]
NUMBERS = ("4242424242424242", "4000000000000002")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VaultWorld]:
    """A Postgres of its own: its files are read, and its role may not log in for a while."""
    with (
        own_servers(tmp_path_factory.mktemp("vault"), **without("kafka", "redis", "clickhouse")) as settings,
        ended(VaultWorld(settings)) as made,
    ):
        made.start()
        yield made


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_its_memory_goes_into_no_file(world: VaultWorld) -> None:
    """No core may be written, and the process counts as undumpable: its files in /proc are root's."""
    process = world.processes[0]
    assert resource.prlimit(process.pid, resource.RLIMIT_CORE) == (0, 0)
    world.holder().token()
    if os.geteuid() != 0:
        with pytest.raises(PermissionError):
            Path(f"/proc/{process.pid}/environ").read_bytes()
    folder = Path(f"/proc/{process.pid}/cwd").resolve()
    before = set(folder.iterdir())
    victim = world.start()
    victim.send_signal(signal.SIGSEGV)
    assert victim.wait(patient(20)) == -signal.SIGSEGV
    made = [file for file in set(folder.iterdir()) - before if file.is_file()]  # others may work in this folder too
    assert not any(file.read_bytes().startswith(b"\x7fELF") for file in made), "a core"
    world.processes.remove(victim)


def test_two_processes_are_one_vault(world: VaultWorld) -> None:
    """The same key at both at once makes one token, and each opens what the other sealed."""
    second = world.start()
    holder = world.holder()

    def fresh(method: str, path: str, **more: object) -> httpx.Response:
        headers = {"Authorization": holder.http.headers["authorization"]}
        return httpx.request(method, f"{world.url}{path}", headers=headers, timeout=20, trust_env=False, **more)  # type: ignore[arg-type]

    for _ in range(5):
        body = {"idempotency_key": uuid.uuid4().hex, "payload": card()}
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _, body=body: fresh("POST", "/v1/tokens", json=body), range(8)))
        assert {a.status_code for a in answers} == {201}
        assert len({a.text for a in answers}) == 1
        path = answers[0].headers["location"]
        assert {fresh("GET", path).status_code for _ in range(8)} == {200}
    second.send_signal(signal.SIGKILL)
    second.wait(patient(20))
    world.processes.remove(second)
    assert holder.token()


def test_nothing_that_was_sent_is_in_a_log_or_table(world: VaultWorld, processor: Processor) -> None:
    """Good and bad cards, wrong routes and bodies, calls that succeed, fail and echo; then every file and table is read."""
    holder = world.holder()
    tokens = [holder.token(number) for number in NUMBERS]
    for number in NUMBERS:
        assert holder.tokenize(card(number), key=number).status_code == 201
        assert holder.http.post(f"/v1/{number}", json={}).status_code == 404
        assert holder.http.get(f"/v1/tokens/{number}").status_code == 404
        assert holder.http.post("/v1/tokens", content=f"{{{number}").status_code in (400, 415)
        assert holder.tokenize(card(number), request_id=number).status_code == 201
        assert holder.http.get("/readyz", headers={"traceparent": number, "x-request-id": number}).status_code == 200
    for answer in (lambda body: body, lambda _: b"<" + NUMBERS[0].encode(), lambda _: b""):
        processor.answer = answer
        for token in tokens:
            assert world.forward(token, holder.name).status_code == 200
    home = world.settings.the_home().path
    assert in_files(home / "logs", NUMBERS) == []
    assert in_postgres(world.settings.addresses().postgres_superuser_dsn, NUMBERS) == []
    assert in_files(home, NUMBERS) == []


def test_the_scan_finds_what_is_planted(world: VaultWorld) -> None:
    """The scan itself: a number in a text, a bytea, a JSON document, a log."""
    dsn = world.settings.addresses().postgres_superuser_dsn
    for column, value in (
        ("text", "card 4242-4242-4242-4242!"),
        ("bytea", b"\x00NDI0MjQyNDI0MjQyNDI0Mg=="),
        ("jsonb", '{"n": [4242424242424242]}'),
    ):
        world.rows(f"create table public.planted (x {column})")
        world.rows("insert into public.planted values (%s)", value)
        assert in_postgres(dsn, NUMBERS) == ["public.planted"], column
        world.rows("drop table public.planted")
    log = world.settings.the_home().log("planted")
    log.write_text("x" * 5_000_000 + "4242 4242 4242 4242")
    assert in_files(log.parent, NUMBERS) == ["planted.log"]
    log.unlink()


def test_without_its_database_it_answers_503(world: VaultWorld) -> None:
    """Connections that break are replaced; a database that is out is said, with nothing made; then it goes on."""
    holder = world.holder()
    key = uuid.uuid4().hex
    token = holder.tokenize(key=key).json()["result"]["id"]
    kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'millrace-vault'"
    assert world.rows(kill)[0][0] > 0
    assert holder.http.get(f"/v1/tokens/{token}").status_code == 200
    world.rows("alter role millrace_vault nologin")
    try:
        world.rows(kill)
        refused = holder.tokenize()
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert holder.http.get("/healthz").status_code == 200
    finally:
        world.rows("alter role millrace_vault login")
    again = eventually(lambda: found if (found := holder.tokenize(key=key)).status_code != 503 else None)
    assert (again.status_code, again.json()["result"]["id"]) == (201, token)


def test_what_no_wait_mends_is_said(world: VaultWorld, tmp_path: Path) -> None:
    """Without its tables a vault ends with one line; while its password is refused it waits, and its log says why."""
    empty = in_database(world.settings.addresses().postgres_superuser_dsn, "postgres")
    without_tables, _ = world.begin(log=tmp_path / "tables", MILLRACE_POSTGRES_DSN=empty)
    wrong = uuid.uuid4().hex
    refused, port = world.begin(log=tmp_path / "password", MILLRACE_POSTGRES_VAULT_PASSWORD=wrong)
    assert without_tables.wait(patient(60)) == 1
    (line,) = (tmp_path / "tables").read_text().splitlines()
    assert line == "the database lacks what the vault needs (UndefinedTable): run 'millrace migrate' on it"
    becomes(partial(readiness, port), (503, "Postgres is away"))
    why = 'password authentication failed for user "millrace_vault"'
    eventually(lambda: why in (tmp_path / "password").read_text(), what="the log says why")
    assert wrong not in (tmp_path / "password").read_text()
    refused.terminate()
    assert refused.wait(patient(20)) == 0


def test_it_waits_for_a_database_that_recovers(world: VaultWorld, tmp_path: Path) -> None:
    """Postgres was killed and recovers: a vault that starts then says so, serves when it does, and ends when told."""
    holder = world.holder()
    token = holder.token()
    with recovering(world.settings):
        log = tmp_path / "log"
        waiting, port = world.begin(log=log)
        unwanted, other_port = world.begin()
        for asked in (port, other_port):
            becomes(partial(readiness, asked), (503, "Postgres is away"), what="it waits and says for whom")
        unwanted.terminate()
        assert unwanted.wait(patient(20)) == 0
        eventually(lambda: "vault_waits_for_postgres" in log.read_text(), what="a first try has failed")
        assert waiting.poll() is None
    becomes(partial(readiness, port), (200, "ready"))
    for other in [process for process in world.processes if process is not waiting]:
        other.terminate()
        other.wait(patient(20))
    found = world.holder(holder.name).http.get(f"/v1/tokens/{token}")
    assert (found.status_code, found.json()["id"]) == (200, token)
