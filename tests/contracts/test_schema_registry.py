"""The registry speaks Confluent's read-only dialect: a stock client decodes our records with nothing else of ours."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import httpx
import pytest
from fastapi import FastAPI

from ingress.app import create_app
from ingress.config import IngressConfig
from ingress.limiter.config import LimiterConfig
from ingress.payments.config import PaymentsConfig
from ingress.social.config import SocialConfig
from ingress.state import Ingress
from ingress.tenancy.config import TenancyConfig
from ingress.trust import Trust
from schemas import codec
from schemas.media_origin import MediaOrigin
from sinks.kafka.connection import KafkaConnection
from tests.contracts import golden

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    """With parts that were never started: the registry needs none of them."""
    folder = tmp_path_factory.mktemp("media")
    media = MediaOrigin(url="http://media", uploads_url="http://media", key=b"k" * 32, folder=folder)
    ingress = Ingress(
        IngressConfig(
            kafka=KafkaConnection(bootstrap="127.0.0.1:1"),
            postgres_dsn="postgresql://nobody@127.0.0.1:1/none",
            console_dsn="postgresql://nobody@127.0.0.1:1/none",
            instance=0,
            trusted=(Trust(issuer="i", audiences=("a",), jwks="none"),),
            jwks_served=None,
            cursor_key=b"k" * 32,
            of_services=(PaymentsConfig(), TenancyConfig(), SocialConfig(media=media), LimiterConfig()),
        )
    )
    return create_app(ingress)


def call(app: FastAPI, method: str, path: str, **more: Any) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://ingress") as http:
            return await http.request(method, path, **more)

    return asyncio.run(ask())


def get(app: FastAPI, path: str) -> Any:
    answer = call(app, "GET", path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, MEDIA_TYPE), answer.text
    return answer.json()


@pytest.mark.parametrize("file", sorted(golden.FOLDER.glob("*.bin")), ids=lambda f: f.stem)
def test_a_stock_client_decodes_every_record(app: FastAPI, file: Path) -> None:
    """As a deserializer does: magic byte, id, schema from the registry, body."""
    data = file.read_bytes()
    assert data[0] == 0
    schema = get(app, f"/schemas/ids/{int.from_bytes(data[1:5], 'big')}")["schema"]
    body = io.BytesIO(data[5:])
    decoded = fastavro.schemaless_reader(body, fastavro.parse_schema(json.loads(schema)), None)
    assert decoded
    assert body.read() == b""


def test_subjects_and_versions_agree_with_the_table(app: FastAPI) -> None:
    table = codec.schemas_by_id().values()
    subjects = get(app, "/subjects")
    assert "events.payments.v1-millrace.payments.PaymentSystemCommitted" in subjects
    assert len(subjects) == len({s.subject for s in table})
    for schema in table:
        assert schema.version in get(app, f"/subjects/{schema.subject}/versions")
        found = get(app, f"/subjects/{schema.subject}/versions/{schema.version}")
        assert (found["version"], found["id"]) == (schema.version, schema.schema_id)
        parsed = json.loads(found["schema"])  # topic, dash, name with namespace: TopicRecordNameStrategy
        topic = schema.subject.rpartition("-")[0]
        assert found["subject"] == f"{topic}-{parsed['namespace']}.{parsed['name']}"
        assert get(app, f"/subjects/{found['subject']}/versions/{schema.version}") == found
        assert get(app, f"/config/{found['subject']}") == get(app, "/config")
        asked = {"schema": json.dumps(without_docs(parsed))}
        assert post(app, f"/subjects/{found['subject']}", asked).json() == found
        assert post(app, f"/subjects/{found['subject']}/versions", asked).json() == {"id": schema.schema_id}
        assert found["schema"] == get(app, f"/schemas/ids/{schema.schema_id}")["schema"]
        newest = get(app, f"/subjects/{schema.subject}/versions/latest")
        assert newest["version"] == max(s.version for s in table if s.subject == schema.subject)


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/schemas/ids/99999", 404, 40403),
        ("/schemas/ids/abc", 404, 40403),
        ("/schemas/ids/-1", 404, 40403),
        ("/schemas/ids/" + "9" * 50, 404, 40403),
        ("/subjects/none/versions", 404, 40401),
        ("/subjects/none/versions/1", 404, 40401),
        ("/subjects/results.v1-ResultBatch/versions/99", 404, 40402),
        ("/subjects/results.v1-ResultBatch/versions/zero", 422, 42202),
    ],
)
def test_errors_are_confluents(app: FastAPI, path: str, status: int, code: int) -> None:
    answer = call(app, "GET", path)
    assert (answer.status_code, answer.json()["error_code"]) == (status, code)
    assert answer.json()["message"]


def test_nothing_can_be_registered(app: FastAPI) -> None:
    assert call(app, "DELETE", "/subjects/x").status_code == 405
    (subject,) = [s for s in get(app, "/subjects") if "ResultBatch" in s]
    other = {"schema": '{"type": "record", "name": "Other", "fields": []}'}
    for path, body, status, code in (
        (f"/subjects/{subject}/versions", other, 422, 42205),
        (f"/subjects/{subject}/versions", {}, 422, 42201),
        (f"/subjects/{subject}", other, 404, 40403),
        (f"/subjects/{subject}", {"schema": "{"}, 422, 42201),
        ("/subjects/x", other, 404, 40401),
    ):
        answer = post(app, path, body)
        assert (answer.status_code, answer.json()["error_code"]) == (status, code), path


def post(app: FastAPI, path: str, body: dict[str, Any]) -> httpx.Response:
    return call(app, "POST", path, content=json.dumps(body), headers={"Content-Type": MEDIA_TYPE})


def without_docs(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_docs(part) for part in schema]
    return {k: without_docs(v) for k, v in schema.items() if k != "doc"} if isinstance(schema, dict) else schema
