"""The registry speaks Confluent's read-only dialect: a stock client decodes our records with nothing else of ours."""

from __future__ import annotations

import asyncio
import io
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import fastavro
import httpx
import httpx2
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

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
from tests.each import each

if TYPE_CHECKING:
    from collections.abc import Iterator

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class Registry(NamedTuple):
    """An ingress in this process: a loop and a client for all calls, which cost more than the answers."""

    loop: asyncio.Runner
    http: httpx.AsyncClient


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
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
    http = httpx.AsyncClient(transport=httpx.ASGITransport(create_app(ingress)), base_url="http://ingress")
    with asyncio.Runner() as loop:
        yield Registry(loop, http)
        loop.run(http.aclose())


def call(registry: Registry, method: str, path: str, **more: Any) -> httpx.Response:
    return registry.loop.run(registry.http.request(method, path, **more))


def get(registry: Registry, path: str) -> Any:
    answer = call(registry, "GET", path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, MEDIA_TYPE), answer.text
    return answer.json()


@each("stem", sorted(file.stem for file in golden.FOLDER.glob("*.bin")))
def test_a_stock_client_decodes_every_record(registry: Registry, stem: str) -> None:
    """As a deserializer does: magic byte, id, schema from the registry, body."""
    data = (golden.FOLDER / f"{stem}.bin").read_bytes()
    assert data[0] == 0
    schema = get(registry, f"/schemas/ids/{int.from_bytes(data[1:5], 'big')}")["schema"]
    body = io.BytesIO(data[5:])
    decoded = fastavro.schemaless_reader(body, fastavro.parse_schema(json.loads(schema)), None)
    assert decoded
    assert body.read() == b""


def test_subjects_and_versions_agree_with_the_table(registry: Registry) -> None:
    table = codec.schemas_by_id().values()
    subjects = get(registry, "/subjects")
    assert "events.payments.v1-millrace.payments.PaymentSystemCommitted" in subjects
    assert len(subjects) == len({s.subject for s in table})
    for schema in table:
        assert schema.version in get(registry, f"/subjects/{schema.subject}/versions")
        found = get(registry, f"/subjects/{schema.subject}/versions/{schema.version}")
        assert (found["version"], found["id"]) == (schema.version, schema.schema_id)
        parsed = json.loads(found["schema"])  # topic, dash, name with namespace: TopicRecordNameStrategy
        topic = schema.subject.rpartition("-")[0]
        assert found["subject"] == f"{topic}-{parsed['namespace']}.{parsed['name']}"
        assert get(registry, f"/subjects/{found['subject']}/versions/{schema.version}") == found
        assert get(registry, f"/config/{found['subject']}") == get(registry, "/config")
        asked = {"schema": json.dumps(without_docs(parsed))}
        assert post(registry, f"/subjects/{found['subject']}", asked).json() == found
        assert post(registry, f"/subjects/{found['subject']}/versions", asked).json() == {"id": schema.schema_id}
        assert found["schema"] == get(registry, f"/schemas/ids/{schema.schema_id}")["schema"]
        newest = get(registry, f"/subjects/{schema.subject}/versions/latest")
        assert newest["version"] == max(s.version for s in table if s.subject == schema.subject)


@each(
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
def test_errors_are_confluents(registry: Registry, path: str, status: int, code: int) -> None:
    answer = call(registry, "GET", path)
    assert (answer.status_code, answer.json()["error_code"]) == (status, code)
    assert answer.json()["message"]


def test_nothing_can_be_registered(registry: Registry) -> None:
    assert call(registry, "DELETE", "/subjects/x").status_code == 405
    (subject,) = [s for s in get(registry, "/subjects") if "ResultBatch" in s]
    other = {"schema": '{"type": "record", "name": "Other", "fields": []}'}
    for path, body, status, code in (
        (f"/subjects/{subject}/versions", other, 422, 42205),
        (f"/subjects/{subject}/versions", {}, 422, 42201),
        (f"/subjects/{subject}", other, 404, 40403),
        (f"/subjects/{subject}", {"schema": "{"}, 422, 42201),
        ("/subjects/x", other, 404, 40401),
    ):
        answer = post(registry, path, body)
        assert (answer.status_code, answer.json()["error_code"]) == (status, code), path


@pytest.fixture
def client(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> SchemaRegistryClient:
    """Confluent's own, whose calls are answered in this process."""
    made = SchemaRegistryClient({"url": "http://ingress", "max.retries": 0})

    def ask(_base: str, url: str, method: str, headers: Any, body: Any = None, query: Any = None) -> httpx2.Response:
        answer = call(registry, method, f"/{url}", headers=headers, content=body, params=query)
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


def test_lists_in_parts(registry: Registry) -> None:
    everything = get(registry, "/subjects")
    assert get(registry, "/subjects?deleted=true&subjectPrefix=:*:") == everything
    assert get(registry, "/subjects?offset=1&limit=2&deleted=False") == everything[1:3]
    assert get(registry, "/subjects?limit=-1") == everything
    assert get(registry, "/subjects?subjectPrefix=events.") == [
        name for name in everything if name.startswith("events.")
    ]
    assert get(registry, "/subjects?deletedOnly=true") == get(registry, "/subjects?deleted_only=True") == []
    assert get(registry, f"/subjects/{everything[0]}/versions?offset=0&limit=0") == []
    assert get(registry, "/config/none?defaultToGlobal=true") == get(registry, "/config")


@each(
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
def test_whatever_is_refused_there_has_confluents_form(registry: Registry, method: str, path: str, status: int) -> None:
    answer = call(
        registry, method, path, content=b"{}" if status == 415 else b"", headers={"Content-Type": "text/plain"}
    )
    assert (answer.status_code, answer.headers["content-type"]) == (status, MEDIA_TYPE)
    assert answer.json()["error_code"] == status
    assert answer.json()["message"]
    assert ("Allow" in answer.headers) == (status == 405)


def post(registry: Registry, path: str, body: dict[str, Any]) -> httpx.Response:
    return call(registry, "POST", path, content=json.dumps(body), headers={"Content-Type": MEDIA_TYPE})


def without_docs(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_docs(part) for part in schema]
    return {k: without_docs(v) for k, v in schema.items() if k != "doc"} if isinstance(schema, dict) else schema
