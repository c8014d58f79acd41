"""schemathesis over the published document: what it promises is what the service does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest

from ingress import openapi
from ingress.http.openapi import examples as openapi_examples
from ingress.http.openapi.examples import bodies
from tests.e2e.tokens_by_scope import SCOPES, kind_for, tenant_of
from tests.eventually import becomes, patient
from tests.gate import PROOF, examples
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # the fixture of this module
pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.timeout(examples(240, 600))]

HERE = Path(__file__).parent
#: the gate leaves the coverage of every schema keyword and chains of calls to the proof; both call every operation
PHASES = "examples,coverage,fuzzing,stateful" if PROOF else "examples,fuzzing"
#: what would leave its caller without all that comes later
_NOT_ASKED = {"erase_user"}
SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))


def test_schemathesis_runs_clean(public: PublicSystem, tmp_path: Path) -> None:
    """Examples, coverage of every schema keyword, fuzzing and stateful calls; all checks of schemathesis."""
    tokens = {
        "TOKEN_OF_MERCHANT": public.token(
            "m_schemathesis", ("payments:read", "payments:write", "payouts:write", "payout_destinations:write")
        ),
        "TOKEN_OF_STAFF": public.token("m_schemathesis", ("operator",)),
    }
    done = subprocess.run(
        [
            SCHEMATHESIS,
            "--config-file",
            str(HERE / "schemathesis.toml"),
            "run",
            f"{public.base_url}/openapi.json",
            "--phases",
            PHASES,
            "--max-examples",  # of fuzzing; its seed is fixed, so that more of them are the same ones again each run
            str(examples(1, 10)),
            "--request-timeout",
            "30",
            "--seed",
            "20260101",
            "--no-color",
        ],
        cwd=tmp_path,
        env=os.environ
        | tokens
        | {"PYTHONPATH": str(HERE.parents[1]), "SCHEMATHESIS_HOOKS": "tests.e2e.schemathesis_hooks"},
        capture_output=True,
        text=True,
        timeout=patient(590),
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-1_000:]
    # What only operators may ask was asked with their token, and answered, not refused 403 all along.
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        query = "select distinct action from audit_log where actor = 'm_schemathesis' and outcome = 'done'"
        answered = {action for (action,) in connection.execute(query).fetchall()}
    assert answered >= {"case.list"}


def tokens_of(public: PublicSystem, name: str) -> dict[str, str]:
    """A token of every kind of caller but signers: of a tenant that is served, and a user that is there."""
    found = {kind: public.token(name, SCOPES[kind]) for kind in ("staff", "merchant", "desk", "gateway")}
    found["user"] = public.token(f"u_{uuid.uuid4().hex[:12]}", SCOPES["user"], kind="user")
    desk = {"Authorization": f"Bearer {found['desk']}", "Prefer": "wait=30"}
    with httpx.Client(base_url=public.base_url, timeout=patient(40), trust_env=False) as http:
        user = {"Authorization": f"Bearer {found['user']}"}
        assert http.get("/v1/me", headers=user).status_code == 200
        made = http.post(
            "/v1/tenants", json={"idempotency_key": uuid.uuid4().hex, "payload": {"name": name}}, headers=desk
        )
        assert made.status_code == 201, made.text
        tenant = made.json()["result"]["tenant_id"]
        becomes(lambda: http.get(f"/v1/tenants/{tenant}", headers=desk).json()["state"], "active")
    found["tenant"] = public.token(tenant, SCOPES["tenant"], kind="tenant", subject="u_1")
    return found


def test_the_examples_are_understood(public: PublicSystem) -> None:
    """Each body's example, at its own place: what names nothing of others' is done, the rest is not there; none is wrong."""
    operations = [
        (method, path, operation)
        for path, item in openapi.document()["paths"].items()
        for method, operation in item.items()
        if "requestBody" in operation and kind_for(operation) and operation["operationId"] not in _NOT_ASKED
    ]
    tokens = tokens_of(public, "m_examples")
    answered = {}
    with httpx.Client(base_url=public.base_url, timeout=30, trust_env=False) as http:
        for method, path, operation in operations:
            for media, content in bodies({**operation, "responses": {}}):
                body = content.get("example")
                if body is None:
                    continue
                identity = {"Idempotency-Key": uuid.uuid4().hex, "Content-Type": media}
                kind = kind_for(operation) or ""
                # who has said that its calls are signed is asked for a signature from then on
                asks = tokens.get(kind) or public.token(f"m_{uuid.uuid4().hex[:12]}", SCOPES["signer"])
                identity["Authorization"] = f"Bearer {asks}"
                if "idempotency_key" in body:
                    body = body | {"idempotency_key": identity["Idempotency-Key"]}
                if operation["operationId"] == "publish_policy":  # of its own tenant: others' are refused
                    body["payload"]["scope"]["tenant"] = tenant_of(asks)
                place = re.sub(r"{\w+}", openapi_examples.NAMED["id"], path)
                answer = http.request(method, place, content=json.dumps(body), headers=identity)
                answered[operation["operationId"]] = (answer.status_code, answer.json().get("code"))
    assert len(answered) > 80, answered
    assert answered["create_payment_intent"] == (201, None)
    wrong = {
        name: a
        for name, a in answered.items()
        if a[0] in (400, 401, 403, 415) or a[0] >= 500 or a[1] == "invalid_command"
    }
    assert wrong == {}
