"""What a tenant is entitled to: hard limits refuse, soft ones warn, on real servers."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.eventually import becomes
from tests.worlds.desk_world import OPEN, Caller, a_tenant, an_event, staff
from tests.worlds.public_system import system_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]
ROOM = {"kind": "limit", "dimension": "resources", "limit": 6, "soft": False}
SEATS = {"kind": "limit", "dimension": "resources", "limit": 4, "soft": True}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home, processes = tmp_path_factory.mktemp("entitled"), ("tenancy_owner", "tenancy_metering", "tenancy_monitor")
    with system_of_its_own(home, services=("ingress",), ingress_processes=1, processes=processes) as made:
        yield made
        while OPEN:
            OPEN.pop().close()


def made(tenant: Caller, key: str) -> httpx.Response:
    body = {"idempotency_key": key, "payload": {"n": 1}}
    return tenant.http.post("/v1/resources", json=body, headers={"Prefer": "wait=30"})


def entitled(system: PublicSystem, tenant: Caller, **said: dict[str, Any]) -> None:
    staff(system, "tenants:admin").done("PUT", f"/v1/tenants/{tenant.name}/entitlements", {"entitlements": said})


def test_of_many_at_once_as_many_as_a_hard_limit_says_and_each_beyond_a_soft_one_is_warned_of(
    system: PublicSystem,
) -> None:
    tenant = a_tenant(system)
    entitled(system, tenant, seats=SEATS, room=ROOM)
    keys = [uuid.uuid4().hex for _ in range(16)]
    with ThreadPoolExecutor(8) as pool:
        answers = dict(zip(keys, pool.map(lambda key: made(tenant, key), keys), strict=True))
    done = {key: one.json()["result"] for key, one in answers.items() if one.status_code == 201}
    assert len(done) == 6
    warned = [warning for result in done.values() for warning in result.get("warnings", [])]
    told = {"feature": "seats", "dimension": "resources", "limit": 4}
    assert sorted(warned, key=lambda one: int(one["used"])) == [told | {"used": 5}, told | {"used": 6}]
    for refused in (one for key, one in answers.items() if key not in done):
        problem = refused.json()
        assert (refused.status_code, problem["code"], problem["feature"]) == (429, "quota_exceeded", "room")
    for key, result in done.items():  # a retry is told the same, whatever is said now
        assert made(tenant, key).json()["result"] == result
    seats, room = (tenant.http.get(f"/v1/entitlements/{name}") for name in ("seats", "room"))
    assert (seats.status_code, seats.json()["warning"], seats.json()["used"]) == (200, True, 6)
    assert (room.status_code, room.json()["code"], room.json()["limit"]) == (429, "quota_exceeded", 6)
    entitled(system, tenant, seats=SEATS)
    assert made(tenant, uuid.uuid4().hex).status_code == 201


def test_who_offers_a_feature_is_told_whether_the_tenant_may_now(system: PublicSystem) -> None:
    tenant = a_tenant(system, timezone="Asia/Kolkata")
    metered = {"kind": "metered", "dimension": "tokens", "limit": 5}
    said = {"day": metered | {"soft": True, "period": "day"}, "hard": metered, "off": {"kind": "bool", "value": False}}
    entitled(system, tenant, **said)
    assert tenant.http.get("/v1/entitlements/hard").json()["remaining"] == 5
    assert tenant.meter([an_event("now", 7, datetime.now(UTC))]) == 202
    becomes(lambda: tenant.http.get("/v1/entitlements/hard").status_code, 429)
    statuses = {name: tenant.http.get(f"/v1/entitlements/{name}").status_code for name in (*said, "none", "A b")}
    assert statuses == {"day": 200, "hard": 429, "off": 403, "none": 404, "A b": 404}
    day = tenant.http.get("/v1/entitlements/day").json()
    assert (day["used"], day["remaining"], day["allowed"], day["warning"]) == (7, 0, True, True)
    assert day["from"].endswith("T18:30:00Z")  # midnight of that calendar
    entitled(system, tenant, **(said | {"hard": metered | {"limit": 9}}))
    versions = {one["feature"]: one["version"] for one in tenant.http.get("/v1/entitlements").json()["data"]}
    assert versions == {"day": 1, "hard": 2, "off": 1}
