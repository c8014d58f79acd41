"""A client that a generator makes of our document takes a payment, and whoever checks documents takes ours.

The generators are installed beside us, from the package registry, into an environment of their own: none of them is a
dependency of ours.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from typing import TYPE_CHECKING, Final

import httpx
import jgo
import pytest

from compose.stack import kafka_jars
from tests.eventually import patient
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # the fixture of this module
pytestmark = [pytest.mark.servers, pytest.mark.proof]
_TOOLS: Final = ("openapi-python-client==0.29.1", "openapi-spec-validator==0.9.0", "ruff")
_GENERATOR: Final = "org.openapitools:openapi-generator-cli:7.16.0"
_OF_NPM: Final = ("typescript@5.9", "@types/node@20")
_VALIDATE: Final = "import json, sys, openapi_spec_validator as v; v.validate(json.load(open(sys.argv[1])))"
_PAY: Final = """
import sys, time
from client import AuthenticatedClient
from client.api.payments import confirm_payment_intent, create_payment_intent, get_payment_intent
from client.models import ConfirmPaymentIntentPayload, CreatePaymentIntentPayload, CreatePaymentIntentPayloadCurrency

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
asked = CreatePaymentIntentPayload(
    amount=1_099, currency=CreatePaymentIntentPayloadCurrency.USD, payment_method="tok_sim_approve"
)
made = create_payment_intent.sync(client=client, body=asked, idempotency_key="generated-1")
confirm_payment_intent.sync(
    intent_id=made.result.id, client=client, body=ConfirmPaymentIntentPayload(), idempotency_key="generated-2"
)
found = get_payment_intent.sync(intent_id=made.result.id, client=client, prefer="wait=20")
print(found.state.value, found.amount_received)
"""


def test_openapi_python_client_makes_a_client_that_takes_a_payment(public: PublicSystem, tmp_path: Path) -> None:
    document = tmp_path / "openapi.json"
    document.write_text(httpx.get(f"{public.base_url}/openapi.json", timeout=60, trust_env=False).text)
    venv.create(tmp_path / "tools", with_pip=True)
    tools = tmp_path / "tools" / "bin"
    _run(tmp_path, str(tools / "pip"), "install", "--quiet", "--disable-pip-version-check", *_TOOLS)
    _run(tmp_path, str(tools / "python"), "-c", _VALIDATE, str(document))
    generate = ("generate", "--path", str(document), "--output-path", str(tmp_path / "client"), "--meta", "none")
    _run(tmp_path, str(tools / "openapi-python-client"), *generate)
    paid = _run(tmp_path, str(tools / "python"), "-c", _PAY, public.base_url, public.token("m_generated"))
    assert paid.split() == ["succeeded", "1099"]


_PAY_BY_OPENAPI_GENERATOR: Final = """
import sys
from openapi_client import ApiClient, Configuration, PaymentsApi
from openapi_client.models import ConfirmPaymentIntentRequest, CreatePaymentIntentRequest

payments = PaymentsApi(ApiClient(Configuration(host=sys.argv[1], access_token=sys.argv[2])))
asked = CreatePaymentIntentRequest.from_dict({"amount": 1099, "currency": "USD", "payment_method": "tok_sim_approve"})
made = payments.create_payment_intent(create_payment_intent_request=asked, idempotency_key="og-1")
nothing = ConfirmPaymentIntentRequest.from_dict({})  # by its name: the place of what is optional is each version's own
payments.confirm_payment_intent(made.result.id, confirm_payment_intent_request=nothing, idempotency_key="og-2")
found = payments.get_payment_intent(made.result.id, prefer="wait=20")
print(found.state, found.amount_received)
"""


def test_openapi_generator_makes_a_client_in_python_that_takes_a_payment(public: PublicSystem, tmp_path: Path) -> None:
    client = tmp_path / "client"
    _generated(public, tmp_path, "python", client)
    venv.create(tmp_path / "tools", with_pip=True)
    tools = tmp_path / "tools" / "bin"
    _run(tmp_path, str(tools / "pip"), "install", "--quiet", "--disable-pip-version-check", str(client))
    pay = (str(tools / "python"), "-c", _PAY_BY_OPENAPI_GENERATOR, public.base_url, public.token("m_generator"))
    assert _run(tmp_path, *pay).split() == ["succeeded", "1099"]


_PAY_IN_TYPESCRIPT: Final = """
import { Configuration, PaymentsApi } from "./client";

async function pay(basePath: string, accessToken: string): Promise<void> {
  const payments = new PaymentsApi(new Configuration({ basePath, accessToken }));
  const payment = { amount: 1099, currency: "USD", paymentMethod: "tok_sim_approve" } as const;
  const made = await payments.createPaymentIntent({ idempotencyKey: "ts-1", createPaymentIntentRequest: payment as any });
  const intentId = made.result!.id;
  await payments.confirmPaymentIntent({ intentId, idempotencyKey: "ts-2", confirmPaymentIntentRequest: {} as any });
  const found = await payments.getPaymentIntent({ intentId, prefer: "wait=20" });
  console.log(found.state, found.amountReceived);
}
pay(process.argv[2], process.argv[3]).catch((error) => { console.error(error); process.exit(1); });
"""
_STRICT: Final = ("--strict", "--target", "es2020", "--module", "commonjs", "--lib", "es2020,dom", "--types", "node")


def test_openapi_generator_makes_a_client_in_typescript_that_compiles_and_takes_a_payment(
    public: PublicSystem, tmp_path: Path
) -> None:
    """The generator's jar comes from Maven Central, as Kafka's do, the compiler from npm."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    _generated(public, tmp_path, "typescript-fetch", tmp_path / "client")
    _run(tmp_path, shutil.which("npm") or "", "install", "--silent", "--no-audit", *_OF_NPM)
    (tmp_path / "pay.ts").write_text(_PAY_IN_TYPESCRIPT)
    _run(tmp_path, str(tmp_path / "node_modules" / ".bin" / "tsc"), *_STRICT, str(tmp_path / "pay.ts"))
    token = public.token("m_typescript")
    paid = _run(tmp_path, shutil.which("node") or "", str(tmp_path / "pay.js"), public.base_url, token)
    assert paid.split() == ["succeeded", "1099"]


def _generated(public: PublicSystem, tmp_path: Path, language: str, folder: Path) -> None:
    document = tmp_path / "openapi.json"
    document.write_text(httpx.get(f"{public.base_url}/openapi.json", timeout=60, trust_env=False).text)
    found = jgo.build(_GENERATOR)
    jars = os.pathsep.join(str(jar) for jar in (*found.class_path_jars, *found.module_path_jars))
    generate = ("generate", "-i", str(document), "-g", language, "-o", str(folder))
    _run(tmp_path, kafka_jars.java(), "-cp", jars, "org.openapitools.codegen.OpenAPIGenerator", *generate)


def _run(folder: Path, *command: str) -> str:
    path = os.environ | {"PATH": f"{folder / 'tools' / 'bin'}:/usr/bin:/bin", "PYTHONPATH": str(folder)}
    done = subprocess.run(
        command, cwd=folder, env=path, capture_output=True, text=True, timeout=patient(300), check=False
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    return done.stdout
