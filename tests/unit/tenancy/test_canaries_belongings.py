"""What a canary owns is made once for each, whoever makes it again, and asks no person for anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from compose.isolation import belongings
from compose.isolation.canaries import Doors
from ingress.identity.issuer import KeyFolder
from schemas.errors import Unavailable
from tests.unit.tenancy.test_isolation_probes import ONE, TWO

if TYPE_CHECKING:
    from pathlib import Path


def doors_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, billed: list[Any], made: list[tuple[str, str]], status: int = 201
) -> Doors:
    folder = KeyFolder(tmp_path / "keys")
    folder.ensure()
    doors = Doors("http://nowhere", folder, b"key")

    def answer(method: str, path: str, **more: Any) -> httpx.Response:
        if method == "GET":
            return httpx.Response(200, json={"data": billed})
        made.append((path, more["json"]["idempotency_key"]))
        return httpx.Response(status, json={"result": {"grant_id": "sg_1"}})

    monkeypatch.setattr(doors._http, "request", answer)
    return doors


def test_each_canary_has_one_of_each_and_no_grant_of_it_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, str]] = []
    doors = doors_to(tmp_path, monkeypatch, [], made)
    for _ in range(2):
        for canary in (ONE, TWO):
            belongings.ensure(doors, canary)
    below = ("export", "billing_runs", "support_grants", "support_grants/sg_1/revoke")
    assert [path for path, _ in made] == [f"/v1/tenants/{one.tenant_id}/{name}" for one in (ONE, TWO) for name in below]
    assert len({key for _, key in made}) == len(made)


def test_a_day_is_billed_where_none_was_and_made_again_with_the_same_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a round that failed the same commands come again; a later day is none of them."""
    made: list[tuple[str, str]] = []
    doors = doors_to(tmp_path, monkeypatch, [{"billing_run_id": "br_1"}], made)
    belongings.ensure(doors, ONE)
    doors.forget()
    belongings.ensure(doors, ONE)
    assert [path.rpartition("/")[2] for path, _ in made] == ["export", "support_grants", "revoke"] * 2
    assert len(set(made)) == 3


def test_what_is_refused_was_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match="409"):
        belongings.ensure(doors_to(tmp_path, monkeypatch, [], [], 409), ONE)
