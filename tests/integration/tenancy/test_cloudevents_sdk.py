"""Usage over HTTP as the SDK of CloudEvents for Python sends it: structured, in a batch, and in binary mode."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from cloudevents.core.bindings import http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from cloudevents.v1 import conversion as former
from cloudevents.v1.http import CloudEvent as FormerEvent

from tests.eventually import becomes
from tests.worlds.desk_world import OPEN, Caller, a_tenant, becomes_conflicts
from tests.worlds.public_system import system_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]
AT = datetime.now(UTC)
USED = {"dimension": "tokens", "quantity": 5}
BATCH = {"Content-Type": "application/cloudevents-batch+json"}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home, processes = tmp_path_factory.mktemp("sdk"), ("tenancy_owner", "tenancy_metering", "tenancy_monitor")
    with system_of_its_own(home, services=("ingress",), ingress_processes=1, processes=processes) as made:
        yield made
        while OPEN:
            OPEN.pop().close()


def attributes(id_: str, **more: str) -> dict[str, Any]:
    return {"type": "millrace.usage", "source": "/sdk", "id": id_, "time": AT, "subject": "team é", **more}


def sent(tenant: Caller, headers: Mapping[str, str], body: bytes) -> httpx.Response:
    return tenant.http.post("/v1/usage/events", content=body, headers=dict(headers))


def test_what_the_sdk_sends_structured_counts_once_however_often(system: PublicSystem) -> None:
    """Both generations of its interface write the same event in other words; it is one identity, and one content."""
    tenant = a_tenant(system)
    message = http.to_structured_event(CloudEvent(attributes("one", traceparent="00-a-b-01"), USED))
    for _ in range(2):
        answer = sent(tenant, message.headers, message.body)
        assert (answer.status_code, answer.json()) == (202, {"accepted": 1}), answer.text
    headers, body = former.to_structured(FormerEvent(attributes("one") | {"time": AT.isoformat()}, USED))
    assert sent(tenant, headers, body).status_code == 202
    last = http.to_structured_event(CloudEvent(attributes("last"), USED | {"quantity": 2}))
    assert sent(tenant, last.headers, last.body).status_code == 202
    becomes(lambda: tenant.used("tokens"), [(7, 2)])
    assert tenant.http.get("/v1/usage_conflicts").json()["data"] == []
    other = http.to_structured_event(CloudEvent(attributes("one"), USED | {"quantity": 6}))
    assert sent(tenant, other.headers, other.body).status_code == 202
    assert [one["quantity"] for one in becomes_conflicts(tenant)] == [6]


def test_what_the_sdk_writes_of_several_is_a_batch_and_taken_whole_or_not_at_all(system: PublicSystem) -> None:
    tenant, form = a_tenant(system), JSONFormat()
    written = [json.loads(form.write(CloudEvent(attributes(f"e{n}"), USED))) for n in range(20)]
    too_old = json.loads(form.write(CloudEvent(attributes("old") | {"time": datetime(2020, 1, 1, tzinfo=UTC)}, USED)))
    refused = sent(tenant, BATCH, json.dumps([*written, too_old]).encode())
    assert (refused.status_code, [wrong["field"] for wrong in refused.json()["errors"]]) == (422, ["[20].time"])
    answer = sent(tenant, BATCH, json.dumps(written).encode())
    assert (answer.status_code, answer.json()) == (202, {"accepted": 20}), answer.text
    events = [former.to_dict(FormerEvent(attributes(f"f{n}") | {"time": AT.isoformat()}, USED)) for n in range(3)]
    assert sent(tenant, BATCH, json.dumps(events).encode()).status_code == 202
    becomes(lambda: tenant.used("tokens"), [(23 * 5, 23)])
    assert (
        sent(tenant, {"Content-Type": "application/cloudevents+json"}, json.dumps(written).encode()).status_code == 400
    )


def test_what_the_sdk_sends_in_binary_mode_is_refused_in_words_and_nothing_is_counted(system: PublicSystem) -> None:
    """Its attributes stand in header fields, which no MAC of a producer covers: the guide says 415."""
    tenant = a_tenant(system)
    message = http.to_binary_event(CloudEvent(attributes("one") | {"datacontenttype": "application/json"}, USED))
    assert "ce-id" in {name.lower() for name in message.headers}
    headers, body = former.to_binary(FormerEvent(attributes("two") | {"time": AT.isoformat(), "subject": "team"}, USED))
    for said, data in ((message.headers, message.body), (headers, body)):
        answer = sent(
            tenant, httpx.Headers({"content-type": "application/json"} | {n.lower(): v for n, v in said.items()}), data
        )
        assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type"), answer.text
        assert "cloudevents+json" in answer.json()["detail"]
    last = http.to_structured_event(CloudEvent(attributes("last"), USED))
    assert sent(tenant, last.headers, last.body).status_code == 202
    becomes(lambda: tenant.used("tokens"), [(5, 1)])
