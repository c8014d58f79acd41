"""What a canary is given of its own: each route is asked, and whatever is another's in an answer is proof."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from compose.isolation.canaries import Doors
from compose.isolation.object_probes import ROUTES
from compose.isolation.object_probes import SQL as OBJECTS
from compose.isolation.own_probes import own_probes
from compose.isolation.route_probes import BELOW, route_probes
from ingress.identity.issuer import KeyFolder
from tests.unit.tenancy.test_isolation_probes import ONE, TWO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWN = f'{{"tenant_id": "{ONE.tenant_id}", "payload": {{"marker": "{ONE.marker}"}}, "next_cursor": "Abc"}}'


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    folder = KeyFolder(tmp_path / "keys")
    folder.ensure()
    made = Doors("http://nowhere", folder, b"key")
    made.remembered(("own objects", ONE.tenant_id), lambda: [(kind, ONE.tenant_id, f"{kind}_1") for kind in ROUTES])
    yield made
    made.close()


def asked(
    doors: Doors, monkeypatch: pytest.MonkeyPatch, odd: str = "", said: Any = None
) -> dict[str, tuple[str, bool]]:
    """What is found where one path is answered otherwise."""

    def answer(_: str, path: str, **__: Any) -> httpx.Response:
        return said if path == odd else httpx.Response(200, text=OWN)

    monkeypatch.setattr(doors._http, "request", answer)
    return {found.probe: (found.evidence, found.is_leak) for found in own_probes(doors, "", ONE, TWO) if found.evidence}


def paths(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    def answer(_: str, path: str, **__: Any) -> httpx.Response:
        found.append(path)
        return httpx.Response(200, text=OWN)

    monkeypatch.setattr(doors._http, "request", answer)
    list(own_probes(doors, "", ONE, TWO))
    return found


def test_a_canary_asks_for_its_own_wherever_anothers_is_asked_for(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert re.findall(r"\(select '(\w+)'", OBJECTS["objects_of_own"]) == [*ROUTES]
    assert re.findall(r"<> %\(asks\)s", OBJECTS["objects_of_own"]) == []
    found = paths(doors, monkeypatch)
    assert len(found) == len(set(found)) == 1 + len(BELOW) + sum(map(len, ROUTES.values()))
    assert asked(doors, monkeypatch) == {}


@pytest.mark.parametrize(
    ("said", "is_leak"),
    [
        (httpx.Response(200, text=f"{OWN} ... {TWO.marker} ..."), True),
        (httpx.Response(200, text=f"{OWN} {TWO.resource_id}"), True),
        (httpx.Response(200, text=f"{OWN} {TWO.subject}"), True),
        (httpx.Response(200, text=f'{OWN}\n{{"tenant_id":"tn_c3"}}\n'), True),  # whoever it is
        (httpx.Response(404, text=TWO.marker), True),
        (httpx.Response(404, json={}), False),
        (httpx.Response(200, text=f'{OWN} {{"reason": "\\"tenant_id\\": \\"tn_c3\\""}}'), None),  # what people say
    ],
)
def test_anothers_in_the_answer_is_proof_on_each_route(
    doors: Doors, monkeypatch: pytest.MonkeyPatch, said: httpx.Response, is_leak: bool | None
) -> None:
    for path in paths(doors, monkeypatch):
        found = asked(doors, monkeypatch, path, said)
        assert [leaks for _, leaks in found.values()] == ([] if is_leak is None else [is_leak]), path
        assert not any(text in evidence for evidence, _ in found.values() for text in (TWO.marker, TWO.subject))


def test_an_answer_without_its_own_proves_nothing(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/v1/resources/{ONE.resource_id}"
    found = asked(doors, monkeypatch, path, httpx.Response(200, json={}))
    assert found == {"own /v1/resources/{id}": ("a tenant's own is not in the answer: the probe proves nothing", False)}


def test_a_list_that_names_another_tenant_is_proof(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever that is: also one of whom no canary knows a word."""

    def answer(_: str, path: str, **more: Any) -> httpx.Response:
        if (
            "cursor" in more.get("params", {})
            or "tenant_id" in more.get("params", {})
            or "X-Tenant-Id" in more["headers"]
        ):
            return httpx.Response(400, json={})
        if path.startswith(("/v1/resources/", "/v1/tenants/")):
            return httpx.Response(404, json={})
        rows = [{"tenant_id": "tn_c3"}] if path == "/v1/quotas" else []
        return httpx.Response(200, json={"data": rows, "next_cursor": "Abc"})

    monkeypatch.setattr(doors._http, "request", answer)
    found = [(one.probe, one.is_leak) for one in route_probes(doors, ONE, TWO) if one.evidence]
    assert found == [("list /v1/quotas", True)]
