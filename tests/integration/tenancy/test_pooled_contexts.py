"""Behind PgBouncer in transaction mode, callers share sessions, and no context outlives the transaction that set it."""

from __future__ import annotations

import random
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest
from psycopg import conninfo

from compose.isolation.canaries import Canary
from compose.isolation.placement_probes import PlacementProbes
from compose.isolation.store_probes import store_probes
from compose.stack.home import Home
from compose.stack.ports import PortLeases
from ingress.http.store import _read_queries
from schemas.errors import Unavailable
from sinks.postgres.migrate import migrate
from sinks.tenancy import contexts, databases, secrets_file, store_files
from sinks.tenancy.contexts import Contexts
from tests import run_folder
from tests.eventually import eventually, patient
from tests.gate import RUN_SEED, examples
from tests.servers import servers_missing
from tests.worlds.mover_world import HEAD, PLACEMENT, POOL, TENANT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import World

pytestmark = pytest.mark.servers
_PLACES: Final = "/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin"
TENANTS: Final = [f"tn_pooled_{n}" for n in range(20)]
CALLERS: Final = 16
_CONFIG: Final = """
[databases]
pooled = host={host} port={port} dbname={dbname} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 100
ignore_startup_parameters = extra_float_digits, options
"""


@pytest.fixture(scope="module")
def signed(stack: World, tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    """Contexts that the database believes, of tenants with a row each."""
    held = secrets_file.ensure(tmp_path_factory.mktemp("keys"))
    migrate(stack.addresses.postgres_superuser_dsn, stack.settings.role_passwords())
    with psycopg.connect(stack.addresses.postgres_superuser_dsn) as connection:
        contexts.install(connection, held)
        connection.execute(PLACEMENT.encode(), (POOL, "home", "pooled", "tenancy_pool", None))
        for tenant in TENANTS:
            connection.execute(TENANT.encode(), (tenant, "active", POOL))
            connection.execute(HEAD.encode(), {"t": tenant, "r": f"rs_{tenant}", "v": 1, "at": 1})
            connection.execute("insert into tenancy.gate values (%s, 1, 'rw')", (tenant,))
            connection.execute(
                "insert into tenancy_pool.resource values (%s, %s, 1, 'x', false)", (tenant, f"rs_{tenant}")
            )
    return Contexts(held)


def test_a_canary_that_was_moved_between_the_look_and_the_probe_is_no_evidence(stack: World, signed: Contexts) -> None:
    """Its context is of an older generation: the round is tried again, and nothing is told of it."""
    dsns, (one, two) = (
        stack.addresses.postgres_dsns,
        (Canary(tenant, "rs", "marker", "usage") for tenant in TENANTS[:2]),
    )
    log = Home(run_folder.FOLDER / "servers").log("postgres")
    before = log.stat().st_size
    placements = PlacementProbes()
    found = list(store_probes(dsns["millrace_ingress"], signed, one, two, (1, 1), placements))
    assert [probe.evidence for probe in found] == [None] * 6
    assert b"tenancy_pool.resource where tenant_id <>" not in log.read_bytes()[before:], "no round fills it with errors"
    behind = list(
        store_probes(dsns["millrace_ingress"], signed, one, two, (2, 2), placements)
    )  # the gate lets the first in
    assert [probe.probe for probe in behind if probe.is_leak] == [
        "context of an older generation",
        "context of an older policy",
    ]
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as connection:
        gate = "update tenancy.gate set generation = %s, policy_version = %s where tenant_id = %s"
        for generation, policy_version in ((2, 0), (1, 3)):
            connection.execute(gate, (generation, policy_version, one.tenant_id))
            with pytest.raises(Unavailable):
                list(store_probes(dsns["millrace_ingress"], signed, one, two, (1, 2), placements))
        connection.execute(gate, (1, 2, one.tenant_id))
        held = list(store_probes(dsns["millrace_ingress"], signed, one, two, (1, 2), placements))
        assert [(len(held), probe.evidence) for probe in held] == [(7, None)] * 7
        connection.execute(gate, (1, 0, one.tenant_id))
        connection.execute("select tenancy.make_store('tenancy_pool_2')")  # where a drain brought it
        moved = "with gone as (delete from tenancy_pool.resource where tenant_id = %s returning *) insert into"
        connection.execute(f"{moved} tenancy_pool_2.resource select * from gone".encode(), (one.tenant_id,))
        asked = (dsns["millrace_ingress"], signed, one, two, (1, 1), placements)
        assert {probe.evidence for probe in store_probes(*asked, "tenancy_pool_2")} == {None}
        back = moved.replace("tenancy_pool.", "tenancy_pool_2.")
        connection.execute(f"{back} tenancy_pool.resource select * from gone".encode(), (one.tenant_id,))


def test_a_row_in_a_store_of_another_tenants_own_is_seen_with_whichever_context(stack: World, signed: Contexts) -> None:
    """A schema, one whose policies are gone, such a database, and one that is away: one of them each round."""
    reader, asks = stack.addresses.postgres_dsns["millrace_ingress"], TENANTS[0]
    given = {"good": signed.of(asks, 1, "r"), "none": ""}
    placements, superuser = PlacementProbes(), stack.addresses.postgres_superuser_dsn
    made = {"pl_own_a": "partitioned", "pl_own_b": "partitioned", "pl_own_c": "dedicated", "pl_own_d": "dedicated"}
    database = databases.name_of(str(conninfo.conninfo_to_dict(superuser)["dbname"]), "pl_own_c")

    def fill(connection: psycopg.Connection[Any], store: str, *, has_policies: bool) -> None:
        connection.execute("select tenancy.make_store(%s)", (store,))
        connection.execute(f"insert into {store}.resource values (%s, 'rs', 1, 'x', false)".encode(), (TENANTS[1],))
        if not has_policies:
            connection.execute(f"alter table {store}.resource disable row level security".encode())

    with (
        psycopg.connect(superuser, autocommit=True) as connection,
        psycopg.connect(reader, autocommit=True) as reading,
    ):
        connection.execute(f"create database {database}".encode())
        with psycopg.connect(databases.dsn_of(superuser, "pl_own_c"), autocommit=True) as there:
            store_files.ensure(there)
            fill(there, "tenancy_pool", has_policies=False)
        fill(connection, "pl_own_a", has_policies=True)
        fill(connection, "pl_own_b", has_policies=False)
        for place, mode in made.items():
            row = (place, mode, place, TENANTS[1])
            connection.execute("insert into placement values (%s, 'eu', %s, %s, 'active', %s)", row)
        try:
            found = [list(placements.ask(reading, reader, asks, given)) for _ in range(3)]
            with pytest.raises(Unavailable, match="pl_own_d"):
                list(placements.ask(reading, reader, asks, given))
            found.append(list(placements.ask(reading, reader, asks, given)))
        finally:
            connection.execute("delete from placement where placement_id like 'pl_own_%'")
            connection.execute("drop schema pl_own_a, pl_own_b cascade")
            connection.execute(f"drop database {database} with (force)".encode())
        assert list(placements.ask(reading, reader, asks, given)) == []
    leaks = {one.probe: one.is_leak for one in (*found[1], *found[2])}
    assert leaks == {f"{mode} store, {name}": True for mode in ("partitioned", "dedicated") for name in given}
    assert [[one.is_leak for one in found[n]] for n in (0, 3)] == [[False, False]] * 2


def test_who_reads_hears_the_same_reason_as_who_writes(stack: World, signed: Contexts) -> None:
    """Their proofs are two, and agree; but two contexts at once are for who writes alone."""

    def told(role: str, context: str) -> tuple[str | None, str | None]:
        with psycopg.connect(stack.addresses.postgres_dsns[role]) as connection:
            connection.execute("select set_config('app.ctx', %s, true)", (context,))
            try:
                return None, str(connection.execute("select count(*) from tenancy_pool.resource").fetchone())
            except psycopg.DatabaseError as refused:
                return refused.sqlstate, refused.diag.message_primary

    one, other = TENANTS[:2]
    good = signed.of(one, 1, "r")
    reasons = {
        "no tenant context": "",
        "the tenant context is not readable": one,
        "the tenant context is not signed": good.replace(one, other),
        "the tenant context has expired": signed.of(one, 1, "r", now=0),
        "the tenant context is of an older generation": signed.of(one, 0, "r"),
    }
    for reason, context in reasons.items():
        found = told("millrace_ingress", context)
        assert found == told("millrace_tenancy_owner", context)
        assert (found[0] in ("42501", "TN001"), found[1]) == (True, reason)
    both = f"{good} {signed.of(other, 1, 'r')}"
    assert told("millrace_tenancy_owner", both) == (None, "(2,)")
    assert told("millrace_ingress", both) == ("42501", "the tenant context is not of one tenant")


@pytest.fixture(scope="module")
def pooled(stack: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The DSN of a pool of four sessions of the ingress's role."""
    pgbouncer = shutil.which("pgbouncer", path=_PLACES)
    if pgbouncer is None:
        servers_missing("no pgbouncer: the system's packages have it")
    ports = PortLeases()
    listen = ports.take_any()
    there = conninfo.conninfo_to_dict(stack.addresses.postgres_dsns["millrace_ingress"])
    file = tmp_path_factory.mktemp("pgbouncer") / "pgbouncer.ini"
    file.write_text(_CONFIG.format(listen=listen, **there))
    started = subprocess.Popen(_command(pgbouncer, file), stderr=subprocess.DEVNULL)
    dsn = f"host=127.0.0.1 port={listen} dbname=pooled user=anybody"
    try:
        eventually(lambda: _answers(dsn), 20, what="pgbouncer")
        yield dsn
    finally:
        started.kill()
        started.wait(timeout=patient(10))
        ports.close()


def _command(pgbouncer: str, file: Path) -> list[str]:
    """It refuses to run as root; in a container it is then somebody else, who has to read its file."""
    is_root = file.owner() == "root"
    if is_root:
        for folder in (file, file.parent, *file.parents[1:3]):
            folder.chmod(0o755)
    return [pgbouncer, *(["-u", "nobody"] if is_root else []), str(file)]


def _answers(dsn: str) -> bool:
    try:
        with psycopg.connect(dsn, connect_timeout=2) as connection:
            return connection.execute("select 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def test_whoever_borrows_a_session_finds_no_context_in_it(signed: Contexts, pooled: str) -> None:
    """Sixteen callers in four sessions, transactions that fail, statements that set a context of their own."""

    statements = _read_queries(("ingress",))

    def call(seed: int) -> set[int]:
        chance, sessions = random.Random(seed), set[int]()
        with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as connection:
            for _ in range(examples(25, 250)):
                tenant = chance.choice(TENANTS)
                context = signed.of(tenant, 1, "r")
                try:
                    with connection.transaction():
                        connection.execute("select set_config('app.ctx', %s, true)", (context,))
                        rows = connection.execute(
                            "select tenant_id, pg_backend_pid() from tenancy_pool.resource"
                        ).fetchall()
                        assert [row[0] for row in rows] == [tenant]
                        sessions |= {row[1] for row in rows}
                        if chance.random() < 0.3:
                            connection.execute("select 1 / 0")
                except psycopg.errors.DivisionByZero:
                    pass
                _nothing_without_a_context(connection)
                given = {"context": context, "store": "tenancy_pool", "tenant_id": tenant, "ids": [f"rs_{tenant}"]}
                for query in (statements["tenant_rows_pooled"], statements["tenant_rows"]):
                    assert [row[0] for row in connection.execute(query, given)] == [f"rs_{tenant}"]
                    _nothing_without_a_context(connection)
                one = given | {"resource_id": f"rs_{tenant}", "policy_version": 1, "placement_id": POOL}
                ((*_, payload, deleted),) = connection.execute(statements["resource_pooled_by_id"], one)
                assert (payload, deleted) == (b"x", False)
                _nothing_without_a_context(connection)
        return sessions

    with ThreadPoolExecutor(CALLERS) as pool:
        sessions = set.union(*pool.map(call, range(RUN_SEED, RUN_SEED + CALLERS)))
    assert 1 < len(sessions) <= 4, "callers have to share sessions, or this proves nothing"


def _nothing_without_a_context(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="no tenant context"):
        connection.execute("select count(*) from tenancy_pool.resource")


def test_a_context_of_a_session_would_be_anybodys(signed: Contexts, pooled: str) -> None:
    """The trap itself, so that the test above is known to see it: this is why contexts are of a transaction."""
    with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as careless:
        careless.execute("select set_config('app.ctx', %s, false)", (signed.of(TENANTS[0], 1, "r"),))
    with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as another:
        seen = another.execute("select tenant_id from tenancy_pool.resource").fetchall()
        another.execute("select set_config('app.ctx', '', false)")
    assert seen == [(TENANTS[0],)]
