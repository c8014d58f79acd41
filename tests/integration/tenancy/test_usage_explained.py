"""What a tenant used with what people corrected of it, and its exports, on real servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.eventually import becomes
from tests.worlds.desk_world import DAY, OPEN, TODAY, a_tenant, an_event, billed, gaps, invoice, staff, zulu
from tests.worlds.public_system import system_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home, processes = tmp_path_factory.mktemp("explained"), ("tenancy_owner", "tenancy_metering", "tenancy_monitor")
    with system_of_its_own(home, services=("ingress",), ingress_processes=1, processes=processes) as made:
        yield made
        while OPEN:
            OPEN.pop().close()


def test_corrections_stand_beside_the_sum_that_they_explain(system: PublicSystem) -> None:
    ops, tenant, other = staff(system, "tenants:admin"), a_tenant(system, prices={"tokens": "2"}), a_tenant(system)
    adjust, begins = f"/v1/tenants/{tenant.name}/usage_adjustments", TODAY - 2 * DAY
    assert tenant.meter([an_event("one", 8, begins), an_event("two", 5)]) == 202
    becomes(lambda: tenant.used("tokens"), [(13, 2)])
    invoice(ops, tenant, billed(ops, tenant, begins, begins + DAY))
    said = {"dimension": "tokens", "quantity": -3, "at": zulu(begins), "reason": "metered twice"}
    less = ops.done("POST", adjust, said)
    assert less["by"] == "m_ops"
    more = ops.done("POST", adjust, said | {"quantity": 4, "at": zulu(TODAY - DAY), "reason": "not metered"})
    ops.done("POST", adjust, said | {"dimension": "calls", "unit_price": "1"})
    ops.done("POST", f"/v1/tenants/{tenant.name}/credits", {"amount": 1, "reason": "r"})

    def asked(begin: str, end: str, **further: str) -> dict[str, object]:
        found: dict[str, object] = tenant.http.get(
            "/v1/usage", params={"dimension": "tokens", "from": begin, "to": end, **further}
        ).json()
        return found

    assert asked(zulu(begins), zulu(TODAY), timezone="")["code"] == "invalid_command"
    both = asked(zulu(begins), zulu(TODAY), window="day")
    assert both["total"] == {"metered": 13, "corrected": 1, "corrections": 2, "quantity": 14}
    of_less = {name: less[name] for name in ("entry_id", "quantity", "at", "from", "to", "reason", "by", "created_at")}
    assert (of_less["from"], of_less["to"]) == (zulu(begins), zulu(begins + DAY))  # the billed period
    of_more = {name: more[name] for name in of_less}
    assert both["corrections"] == [of_more, of_less]
    assert (of_more["from"], of_more["to"]) == (None, None)  # not billed yet
    first = asked(zulu(begins), zulu(TODAY - DAY))
    assert (first["corrections"], first["total"]) == (
        [of_less],
        {"metered": 8, "corrected": -3, "corrections": 1, "quantity": 5},
    )
    assert "corrections" not in asked(zulu(begins), zulu(TODAY), aggregation="max")
    of_other = {"dimension": "tokens", "from": zulu(begins), "to": zulu(TODAY)}
    assert other.http.get("/v1/usage", params=of_other).json()["corrections"] == []


def test_a_correction_of_a_billed_period_costs_what_it_did_then(system: PublicSystem) -> None:
    ops, tenant = staff(system, "tenants:admin"), a_tenant(system, prices={"tokens": "1"})
    root, begins = f"/v1/tenants/{tenant.name}", TODAY - 2 * DAY
    assert tenant.meter([an_event("one", 100, begins)]) == 202
    becomes(lambda: tenant.used("tokens"), [(100, 1)])
    assert invoice(ops, tenant, billed(ops, tenant, begins, begins + DAY))["total"] == 100
    version = ops.http.get(root).json()["version"]
    ops.done("PATCH", root, {"prices": {"tokens": "10"}}, expected_version=version)
    less = {"dimension": "tokens", "quantity": -100, "at": zulu(begins + DAY / 2), "reason": "metered twice"}
    made = [ops.done("POST", f"{root}/usage_adjustments", less)]
    made.append(ops.done("POST", f"{root}/usage_adjustments", less | {"quantity": 30, "at": zulu(TODAY - DAY)}))
    assert [(one["unit_price"], one["amount"]) for one in made] == [("1", -100), ("10", 300)]
    told = ops.http.get(f"{root}/billing_entries").json()["data"]
    assert [(one["entry_id"], one["amount"]) for one in told] == [
        (one["entry_id"], one["amount"]) for one in made[::-1]
    ]
    second = invoice(ops, tenant, billed(ops, tenant, TODAY - DAY, TODAY))
    lines = [(line["kind"], line["unit_price"], line["amount"], line["from"]) for line in second["lines"]]
    assert lines == [
        ("adjustment", "1", -100, zulu(begins)),
        ("adjustment", "10", 300, zulu(TODAY - DAY)),
    ]
    assert gaps(system) == []


def test_exports_of_a_tenant_are_listed_by_cursor(system: PublicSystem) -> None:
    ops, tenant, other = staff(system, "tenants:admin"), a_tenant(system), a_tenant(system)
    path = f"/v1/tenants/{tenant.name}/export"
    made = [ops.done("POST", path)["export_id"] for _ in range(3)]
    ops.done("POST", f"/v1/tenants/{other.name}/export")
    first = ops.http.get(f"{path}s", params={"limit": 2}).json()
    rest = tenant.http.get(f"{path}s", params={"limit": 2}).json()
    assert [one["export_id"] for one in first["data"]] == made[:0:-1] == [one["export_id"] for one in rest["data"]]
    last = ops.http.get(f"{path}s", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert ([one["export_id"] for one in last["data"]], last["has_more"]) == (made[:1], False)
    assert other.http.get(f"{path}s").status_code == 404
    wrong = ops.http.get(f"/v1/tenants/{other.name}/exports", params={"cursor": first["next_cursor"]})
    assert wrong.status_code == 400
