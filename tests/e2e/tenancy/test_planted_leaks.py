"""What is a canary's is planted where another tenant may read it, from outside: the running monitor closes the platform."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from confluent_kafka import Producer

from compose.isolation.object_probes import SQL as OBJECTS
from schemas.tenancy.usage_topic import USAGE
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.tenancy import secrets_file
from tests.e2e.tenancy.test_isolation import lifted, operator, status_of, usage_of_canaries
from tests.eventually import becomes
from tests.worlds.desk_world import OPEN, a_tenant, staff, usage_sink
from tests.worlds.public_system import system_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    processes = ("tenancy_owner", "tenancy_mover", "tenancy_metering", "tenancy_monitor")
    home = tmp_path_factory.mktemp("planted")
    with (
        system_of_its_own(home, services=("ingress",), ingress_processes=1, processes=processes) as made,
        usage_sink(made),
    ):
        yield made
        while OPEN:
            OPEN.pop().close()


class Planted:
    """What only the second canary has, put where the first one is, or anybody."""

    def __init__(self, system: PublicSystem, connection: psycopg.Connection[Any]) -> None:
        self.system, self._connection = system, connection
        ((self.one, self.two),) = connection.execute("select canaries from isolation_safe_mode").fetchone() or ((),)
        key = secrets_file.read(system.settings.the_home().path / "keys").context_key
        self._marker, self._subject = (
            hmac.new(key, f"isolation {what} {self.two}".encode(), hashlib.sha256).hexdigest()
            for what in ("canary", "usage")
        )
        self._before: dict[str, Any] = {}
        self._moved: list[tuple[Any, ...]] = []
        self._log = system.settings.the_home().logs / "planted.log"

    def _change(self, statement: str, *given: str) -> None:
        self._connection.execute(statement.encode(), given)

    def entitlements(self, is_planted: bool) -> None:
        """As if the predicate were missing: what the second one may stands with the first one."""
        theirs = "(select entitlements from tenant_entitlement where tenant_id = %s)"
        said, given = (theirs, (self.two, self.one)) if is_planted else ("'{}'", (self.one,))
        self._change(f"update tenant_entitlement set entitlements = {said} where tenant_id = %s", *given)

    def _swapped(self, table: str, column: str, is_planted: bool) -> None:
        """In what is the first one's stands what was said of the second one, while it is planted."""
        both = f"select tenant_id, {column} from {table} where tenant_id = any(%s)"
        if is_planted:
            self._before = dict(self._connection.execute(both.encode(), ([self.one, self.two],)).fetchall())
        said = self._before[self.two if is_planted else self.one]
        self._connection.execute(
            f"update {table} set {column} = %s where tenant_id = %s".encode(),
            (said, self.one),
        )

    def invoice(self, is_planted: bool) -> None:
        """As if it were found without its tenant."""
        self._swapped("tenant_invoice", "document", is_planted)

    def grant(self, is_planted: bool) -> None:
        self._swapped("support_grant", "reason", is_planted)

    def stream(self, is_planted: bool) -> None:
        """As if events were read without whose they are. Its resource's stays, which its own stream is known by."""
        if is_planted:
            theirs = (
                b"select topic, partition, seq from outbox where scope = %s and position('rs_'::bytea in payload) = 0"
            )
            self._moved = self._connection.execute(theirs, (f"tenant:{self.two}",)).fetchall()
            assert self._moved
        scope = f"tenant:{self.one if is_planted else self.two}"
        with self._connection.transaction():
            self._connection.execute(b"set local session_replication_role = replica")
            for place in self._moved:
                self._connection.execute(
                    b"update outbox set scope = %s where topic = %s and partition = %s and seq = %s", (scope, *place)
                )

    def log(self, is_planted: bool) -> None:
        """A line of a process."""
        if is_planted:
            self._log.write_text(f"error: cannot read {self._marker}\n")
        else:
            self._log.unlink()

    def event(self, is_planted: bool) -> None:
        """A record under the key of the first one. It stays, and is looked at once."""
        if is_planted:
            addresses = self.system.settings.addresses()
            producer = Producer(addresses.kafka.producer("test-planted"))
            producer.produce(addresses.kafka.topic(USAGE), f'{{"subject": "{self._subject}"}}', f"{self.one}:00")
            assert producer.flush(30) == 0

    def row(self, is_planted: bool) -> None:
        """Of ClickHouse."""
        client = ClickHouseConnection(url=self.system.settings.addresses().clickhouse_url).client()
        try:
            given = {"tenant": self.one, "subject": self._subject}
            if is_planted:
                client.command(
                    "insert into tenant_usage values (0, 999999, {tenant:String}, '/planted', 'p', 'tokens',"
                    " {subject:String}, 1, now64())",
                    parameters=given,
                )
            else:
                client.command(
                    "alter table tenant_usage delete where source = '/planted'", settings={"mutations_sync": 1}
                )
        finally:
            client.close()


def owned(connection: psycopg.Connection[Any], planted: Planted) -> list[str]:
    """What both canaries have by now, of what is made by and by."""
    of_each = OBJECTS["objects_of_own"].encode()
    found = [row[0] for one in (planted.one, planted.two) for row in connection.execute(of_each, {"asks": one})]
    return [kind for kind in found if kind in ("billing_run", "export", "grant", "invoice")]


#: the probe that has to find it, where others may, too
PROBES = {
    "invoice": "own /v1/invoices/%/document",
    "grant": "own /v1/tenants/{tenant}/support_grants/%",
    "stream": "stream",
}


@pytest.mark.parametrize(
    ("where", "evidence"),
    [
        ("entitlements", "another tenant's marker or id is in the answer"),
        ("log", "a canary's payload is in planted.log"),
        ("event", None),
        ("row", "another tenant's usage is seen"),
        ("invoice", "what is another tenant's is in the answer"),
        ("grant", "another tenant's marker or id is in the answer"),
        ("stream", "what is another tenant's is in the answer"),
    ],
)
def test_a_leak_is_noticed_wherever_it_comes_out(system: PublicSystem, where: str, evidence: str | None) -> None:
    """With evidence, and nobody is served any more until two persons say so."""
    ops, tenant = staff(system, "tenants:admin"), a_tenant(system)
    becomes(lambda: status_of(ops), "ok")
    becomes(lambda: usage_of_canaries(system), 2)
    assert tenant.http.get("/v1/resources").status_code == 200
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        planted = Planted(system, connection)
        plant = getattr(planted, where)
        wanted = evidence or f"what is {planted.two}'s is in {USAGE} under the key of {planted.one}"
        open_ = "select evidence from isolation_violation where resolved_at is null"

        def resolved() -> str:
            """A round that began before may still keep what it saw."""
            connection.execute("update isolation_violation set resolved_at = now() where resolved_at is null")
            return status_of(ops)

        becomes(lambda: owned(connection, planted), 2 * ["invoice", "billing_run", "export", "grant"], 90)
        plant(True)
        try:
            becomes(lambda: tenant.http.get("/v1/resources").json().get("code"), "safe_mode")
            found = [said for (said,) in connection.execute(open_.encode())]  # whichever probe came to it first
            assert wanted in found
            probed = "select count(*) > 0 from isolation_violation where resolved_at is null and probe like %s"
            named = (PROBES.get(where, "%"),)
            becomes(lambda: connection.execute(probed.encode(), named).fetchall(), [(True,)])
            assert all("canary" in said or "another" in said or planted.two in said for said in found)
        finally:
            plant(False)
        becomes(resolved, "ok")
        for name in ("ann", "bob"):
            becomes(lambda name=name: lifted(operator(system, name)), "proposed" if name == "ann" else "lifted")
        becomes(lambda: tenant.http.get("/v1/resources").status_code, 200)
