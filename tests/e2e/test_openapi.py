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
from ingress.http import openapi_examples
from ingress.http.openapi_examples import bodies
from ingress.identity.roles import STAFF
from tests.eventually import patient
from tests.gate import PROOF, examples
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # the fixture of this module
pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.timeout(examples(240, 600))]

HERE = Path(__file__).parent
#: the gate leaves the coverage of every schema keyword and chains of calls to the proof; both call every operation
PHASES = "examples,coverage,fuzzing,stateful" if PROOF else "examples,fuzzing"
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


def sides(scopes: set[str]) -> dict[str, set[str]]:
    """Scopes of staff and scopes of callers: no token has both."""
    found = {"staff": scopes & STAFF, "caller": scopes - STAFF}
    return {who: own for who, own in found.items() if own}


def test_the_examples_are_understood(public: PublicSystem) -> None:
    """Each body's example, at its own place: what names nothing of others' is done, the rest is not there; none is wrong."""
    operations = [
        (path, operation)
        for path, item in openapi.document()["paths"].items()
        for operation in item.values()
        if {"payments", "operators", "accounts"} & {*operation.get("tags", ())} and "requestBody" in operation
    ]
    scopes = {scope for _, o in operations for one in o["security"] for scope in one["bearer"]}
    tokens = {who: public.token("m_examples", tuple(sorted(own))) for who, own in sides(scopes).items()}
    answered = {}
    with httpx.Client(base_url=public.base_url, timeout=30, trust_env=False) as http:
        for path, operation in operations:
            for media, content in bodies({**operation, "responses": {}}):
                body = content.get("example")
                if body is None:
                    continue
                (who,) = sides({scope for one in operation["security"] for scope in one["bearer"]})
                identity = {"Idempotency-Key": uuid.uuid4().hex, "Content-Type": media}
                identity["Authorization"] = f"Bearer {tokens[who]}"
                if "idempotency_key" in body:
                    body = body | {"idempotency_key": identity["Idempotency-Key"]}
                place = re.sub(r"{\w+}", openapi_examples.NAMED["id"], path)
                answer = http.post(place, content=json.dumps(body), headers=identity)
                answered[operation["operationId"]] = (answer.status_code, answer.json().get("code"))
    assert len(answered) > 30, answered
    assert answered["create_payment_intent"] == (201, None)
    wrong = {
        name: a
        for name, a in answered.items()
        if a[0] in (400, 401, 403, 415) or a[0] >= 500 or a[1] == "invalid_command"
    }
    assert wrong == {}
