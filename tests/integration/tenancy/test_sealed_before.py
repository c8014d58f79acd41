"""What an earlier release sealed under a tenant's one key: served, and sealed by purpose when it is written next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from sinks.tenancy import secrets_file
from sinks.tenancy.root_keys import RootKeys
from tests.eventually import becomes
from tests.worlds.public_system import public
from tests.worlds.tenancy_world import Tenancy, sealed_before

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # the fixture of this module
pytestmark = pytest.mark.servers


def test_what_was_sealed_before_there_were_purposes_is_served_and_sealed_anew_when_it_is_written(
    public: PublicSystem,
) -> None:
    """A home of before: what lies in its store is under the tenant's key itself; a retry across the upgrade is one."""
    tenancy, first = Tenancy(public), {"mark": "of before"}
    caller = tenancy.tenant()
    made = caller.done("POST", "/v1/resources", first, key="before")
    id_, settings = made["resource_id"], public.settings
    root_keys = RootKeys(secrets_file.read(settings.the_home().path / "keys"))
    named = {"tenant": caller.name, "id": id_}
    with psycopg.connect(settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        asked = "select root_key_id, wrapped from tenant_key where tenant_id = %(tenant)s"
        ((root, wrapped),) = connection.execute(asked.encode(), named).fetchall()
        key = root_keys.unwrap(caller.name, 1, root, bytes(wrapped))
        before = sealed_before(key, caller.name, id_, b'{"mark":"of before"}')
        changed = "update tenancy_pool.resource set payload = %(payload)s where tenant_id = %(tenant)s and resource_id = %(id)s"
        connection.execute(changed.encode(), named | {"payload": before})
        assert caller.get(f"/v1/resources/{id_}")["payload"] == first
        assert caller.name not in {row[0] for row in tenancy.found_by(connection, "tenancy_sealed")}
        tenancy.staff.done("POST", f"/v1/tenants/{caller.name}/keys/rotate")
        head = "select get_byte(payload, 0), get_byte(payload, 7) from tenancy_pool.resource where resource_id = %(id)s"

        def sealed_anew() -> tuple[int, int] | None:
            caller.done(
                "PUT", f"/v1/resources/{id_}", {"mark": "of now"}, version=caller.get(f"/v1/resources/{id_}")["version"]
            )
            return connection.execute(head.encode(), named).fetchone()

        assert connection.execute(head.encode(), named).fetchone() == (0, 1)
        becomes(sealed_anew, (1, 2))  # an ingress may know the key of before for a second
    assert caller.get(f"/v1/resources/{id_}")["payload"] == {"mark": "of now"}
    again = caller.send("POST", "/v1/resources", first, "before")
    assert (again.status_code, again.json()["result"]["payload"]) == (201, first)
    tenancy.close()
