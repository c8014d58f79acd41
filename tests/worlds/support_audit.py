"""What the audit log of a tenant keeps of calls under a support grant, and of each line of a list of commands."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import psycopg

from tests.worlds.desk_world import a_grant, a_tenant, gaps

if TYPE_CHECKING:
    import httpx

    from tests.worlds.public_system import PublicSystem


def no_answer_is_unaudited(system: PublicSystem) -> None:
    """What cannot be audited is not told; what was refused, and what was cut short, stands there."""
    tenant = a_tenant(system)
    made = tenant.done("POST", "/v1/resources", {"n": 1})
    grant, uses = a_grant(system, tenant)
    root = f"/v1/tenants/{tenant.name}/support_grants"
    one = f"/v1/resources/{made['resource_id']}"
    dsn = system.settings.addresses().postgres_superuser_dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("revoke execute on function tenant_audit_end(text, bigint, text) from millrace_ingress")
        answer = uses.get(one)
        assert answer.status_code >= 500
        assert "payload" not in answer.text
        connection.execute("grant execute on function tenant_audit_end(text, bigint, text) to millrace_ingress")
    assert uses.get(one).status_code == 200
    assert uses.get("/v1/events/stream").status_code == 403
    tenant.done("POST", f"{root}/{grant}/revoke")
    assert uses.get(one).status_code == 403
    told = tenant.http.get("/v1/audit", params={"grant_id": grant}).json()["data"]
    assert [row["result"] for row in told] == ["refused", "refused", "done", "refused"]
    assert [row["unfinished"] for row in told] == [False, False, False, True]
    assert [row["seq"] for row in told] == [4, 3, 2, 1]


def each_line_is_audited(system: PublicSystem) -> None:
    """With its operation, its id and its own result; and nothing is told where that cannot be kept."""
    tenant = a_tenant(system)
    one, two = (tenant.done("POST", "/v1/resources", {"n": n})["resource_id"] for n in range(2))
    grant, uses = a_grant(system, tenant, scopes=["resources:write"])

    def told(count: int) -> list[tuple[str, str, str, bool]]:
        rows = tenant.http.get("/v1/audit", params={"grant_id": grant}).json()["data"][:count]
        return [(row["action"], row["object"], row["result"], row["unfinished"]) for row in reversed(rows)]

    makes = {"operation": "POST /v1/resources", "payload": {"n": 3}}
    answer = _sent(uses, _deletes(one), "", _deletes("rs_none"), makes, b"\xff{", {"operation": 7})
    assert [json.loads(line)["status"] for line in answer.text.splitlines()] == [200, 404, 201, 400, 400]
    assert told(9) == [
        ("POST /v1/commands", "commands", "done", False),
        (f"DELETE /v1/resources/{one}", one, "done", False),
        ("DELETE /v1/resources/rs_none", "rs_none", "refused", False),
        ("POST /v1/resources", "resources", "done", False),
        ("POST /v1/commands", "-", "refused", False),
        ("POST /v1/commands", "-", "refused", False),
    ]
    assert _sent(uses, _deletes(one), _deletes("rs_none")).status_code == 200
    assert [row[1:3] for row in told(3)] == [("commands", "refused"), (one, "refused"), ("rs_none", "refused")]
    dsn = system.settings.addresses().postgres_superuser_dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("revoke execute on function tenant_audit_end(text, bigint, text) from millrace_ingress")
        answer = _sent(uses, _deletes(two))
        assert answer.status_code >= 500
        assert two not in answer.text
        connection.execute("grant execute on function tenant_audit_end(text, bigint, text) to millrace_ingress")
    assert [row[1:] for row in told(2)] == [("commands", "refused", True), (two, "refused", True)]
    many = _sent(uses, *(_deletes(f"rs_{n}") for n in range(2_000)))
    assert len(many.text.splitlines()) == 2_000
    assert [row[1:3] for row in told(2)] == [("rs_1998", "refused"), ("rs_1999", "refused")]
    assert gaps(system) == []


def _sent(uses: httpx.Client, *lines: str | bytes | dict[str, Any]) -> httpx.Response:
    texts = [json.dumps({"idempotency_key": uuid.uuid4().hex} | x) if isinstance(x, dict) else x for x in lines]
    content = b"\n".join(text.encode() if isinstance(text, str) else text for text in texts)
    headers = {"Content-Type": "application/x-ndjson", "Prefer": "wait=30"}
    return uses.post("/v1/commands", content=content, headers=headers)


def _deletes(id_: str) -> dict[str, Any]:
    return {"operation": f"DELETE /v1/resources/{id_}", "expected_version": 1}
