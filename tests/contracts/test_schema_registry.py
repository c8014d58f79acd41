"""The registry speaks Confluent's read-only dialect: a stock client decodes our records with nothing else of ours."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import httpx
import httpx2
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from fastapi import FastAPI

from ingress.app import create_app
from ingress.config import IngressConfig
from ingress.limiter.config import LimiterConfig
from ingress.payments.config import PaymentsConfig
from ingress.social.config import SocialConfig
from ingress.state import Ingress
from ingress.tenancy.config import TenancyConfig
from ingress.trust import Trust
from schemas.avro import codec
from schemas.social.media_origin import MediaOrigin
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


@pytest.fixture
def client(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> SchemaRegistryClient:
    """Confluent's own, whose calls are answered in this process."""
    made = SchemaRegistryClient({"url": "http://ingress", "max.retries": 0})

    def ask(_base: str, url: str, method: str, headers: Any, body: Any = None, query: Any = None) -> httpx2.Response:
        answer = call(app, method, f"/{url}", headers=headers, content=body, params=query)
        return httpx2.Response(answer.status_code, headers=dict(answer.headers), content=answer.content)

    monkeypatch.setattr(made._rest_client, "send_http_request", ask)
    return made


def test_confluents_client_finds_what_it_asks_for(client: SchemaRegistryClient) -> None:
    for declared in list(codec.schemas_by_id().values())[:5]:
        (subject,) = {s for s in client.get_subjects() if s.rpartition(".")[2] == declared.subject.rpartition("-")[2]}
        schema = Schema(declared.text, "AVRO")
        assert client.register_schema(subject, schema) == declared.schema_id
        assert client.register_schema(subject, schema, normalize_schemas=True) == declared.schema_id
        found = client.lookup_schema(subject, schema)
        assert (found.schema_id, found.version, found.subject) == (declared.schema_id, declared.version, subject)
        assert client.get_version(subject, declared.version).schema_id == declared.schema_id
        assert declared.version in client.get_versions(subject)
        assert client.get_latest_version(subject).version == max(client.get_versions(subject))
        assert client.get_schema(declared.schema_id, "a.topic-value").schema_str == declared.text
        assert client.get_compatibility(subject) == client.get_compatibility() == "BACKWARD_TRANSITIVE"


def test_confluents_client_is_told_why_not(client: SchemaRegistryClient) -> None:
    with pytest.raises(SchemaRegistryError) as refused:
        client.register_schema("none", Schema('{"type": "record", "name": "Other", "fields": []}', "AVRO"))
    assert (refused.value.http_status_code, refused.value.error_code) == (422, 42205)
    with pytest.raises(SchemaRegistryError) as refused:
        client.get_latest_version("none")
    assert (refused.value.http_status_code, refused.value.error_code) == (404, 40401)


def test_lists_in_parts(app: FastAPI) -> None:
    everything = get(app, "/subjects")
    assert get(app, "/subjects?deleted=true&subjectPrefix=:*:") == everything
    assert get(app, "/subjects?offset=1&limit=2&deleted=False") == everything[1:3]
    assert get(app, "/subjects?limit=-1") == everything
    assert get(app, "/subjects?subjectPrefix=events.") == [name for name in everything if name.startswith("events.")]
    assert get(app, "/subjects?deletedOnly=true") == get(app, "/subjects?deleted_only=True") == []
    assert get(app, f"/subjects/{everything[0]}/versions?offset=0&limit=0") == []
    assert get(app, "/config/none?defaultToGlobal=true") == get(app, "/config")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/subjects?foo=bar", 400),
        ("GET", "/subjects?limit=few", 400),
        ("GET", "/subjects?limit=-2", 400),
        ("GET", "/subjects?offset=99999999999", 400),
        ("POST", "/subjects/x/versions?normalise=true", 400),
        ("POST", "/subjects/x?normalize=%ff", 400),
        ("DELETE", "/subjects/x", 405),
        ("GET", "/schemas/guids/x", 404),
        ("POST", "/subjects/x", 415),
    ],
)
def test_whatever_is_refused_there_has_confluents_form(app: FastAPI, method: str, path: str, status: int) -> None:
    answer = call(app, method, path, content=b"{}" if status == 415 else b"", headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.headers["content-type"]) == (status, MEDIA_TYPE)
    assert answer.json()["error_code"] == status
    assert answer.json()["message"]
    assert ("Allow" in answer.headers) == (status == 405)


def post(app: FastAPI, path: str, body: dict[str, Any]) -> httpx.Response:
    return call(app, "POST", path, content=json.dumps(body), headers={"Content-Type": MEDIA_TYPE})


def without_docs(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_docs(part) for part in schema]
    return {k: without_docs(v) for k, v in schema.items() if k != "doc"} if isinstance(schema, dict) else schema
