"""schemathesis over the published document: what it promises is what the service does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from ingress import openapi
from ingress.http.openapi import examples as openapi_examples
from ingress.http.openapi.examples import bodies
from tests.e2e.api_world import ApiWorld
from tests.e2e.not_seen import NOT_SEEN
from tests.e2e.tokens_by_scope import SCOPES, kind_for, tenant_of
from tests.eventually import patient
from tests.gate import PROOF, examples
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # the fixture of this module
pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.timeout(examples(480, 1_500))]

HERE = Path(__file__).parent
#: the gate leaves the coverage of every schema keyword and chains of calls to the proof; both call every operation
PHASES = "examples,coverage,fuzzing,stateful" if PROOF else "examples,fuzzing"
#: what would leave its caller without all that comes later
_NOT_ASKED = {"erase_user"}
SCHEMATHESIS = str(Path(sys.executable).with_name("schemathesis"))


@pytest.fixture(scope="module")
def world(public: PublicSystem) -> ApiWorld:
    """Callers and objects for both tests: the second one is about none of the objects."""
    return ApiWorld(public)


def test_schemathesis_runs_clean(public: PublicSystem, world: ApiWorld, tmp_path: Path) -> None:
    """Examples, coverage of every schema keyword, fuzzing and stateful calls; all checks of schemathesis.

    Every operation is asked by each kind of caller that may, and has succeeded in the end, or ``NOT_SEEN`` says why not.
    """
    told, answers = tmp_path / "world.json", tmp_path / "answers"
    told.write_text(json.dumps(world.told()))
    files = {"SCHEMATHESIS_WORLD": str(told), "SCHEMATHESIS_ANSWERS": str(answers)}
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
        | files
        | {"PYTHONPATH": str(HERE.parents[1]), "SCHEMATHESIS_HOOKS": "tests.e2e.schemathesis_hooks"},
        capture_output=True,
        text=True,
        timeout=patient(1_490),
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6_000:] + done.stderr[-1_000:]
    seen: dict[str, set[int]] = defaultdict(set)
    for line in answers.read_text().splitlines():
        operation, status = json.loads(line)
        seen[operation].add(status)
    never = {name: sorted(seen[name]) for name in operation_ids() if not any(status < 400 for status in seen[name])}
    sys.stdout.write(
        f"never seen successful, of {len(operation_ids())}: {json.dumps(never, indent=1, sort_keys=True)}\n"
    )
    assert never.keys() <= NOT_SEEN.keys(), {name: never[name] for name in never.keys() - NOT_SEEN.keys()}


def operation_ids() -> set[str]:
    """Of all operations."""
    return {operation["operationId"] for item in openapi.document()["paths"].values() for operation in item.values()}


def test_what_is_not_seen_to_succeed_is_an_operation_of_the_document() -> None:
    assert NOT_SEEN.keys() <= operation_ids()


def test_the_examples_are_understood(public: PublicSystem, world: ApiWorld) -> None:
    """Each body's example, at its own place: what names nothing of others' is done, the rest is not there; none is wrong."""
    operations = [
        (method, path, operation)
        for path, item in openapi.document()["paths"].items()
        for method, operation in item.items()
        if "requestBody" in operation and kind_for(operation) and operation["operationId"] not in _NOT_ASKED
    ]
    answered = {}
    with httpx.Client(base_url=public.base_url, timeout=patient(40), trust_env=False) as http:
        for method, path, operation in operations:
            for media, content in bodies({**operation, "responses": {}}):
                body = content.get("example")
                if body is None:
                    continue
                identity = {"Idempotency-Key": uuid.uuid4().hex, "Content-Type": media, "Prefer": "wait=30"}
                kind = kind_for(operation) or ""
                # who has said that its calls are signed, or has a key, is asked for a signature from then on
                is_signing = SCOPES.get(kind) == SCOPES["signer"] or kind == "requirer"
                fresh = public.token(f"m_{uuid.uuid4().hex[:12]}", SCOPES["signer"]) if is_signing else ""
                asks = fresh or world.tokens[kind]
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
