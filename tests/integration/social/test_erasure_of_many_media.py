"""Who has ten thousand media is erased as soon as anybody, whatever stands in front of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.eventually import eventually
from tests.worlds.public_system import system_of_its_own
from tests.worlds.social_planted import many_media
from tests.worlds.social_system import SocialUser, sharing_a_client

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.servers, pytest.mark.proof, pytest.mark.timeout(900)]
COUNT, WITHIN_S = 10_000, 120  # as the contract has it
PROCESSES = ("social_owner", "social_propagation", "social_eraser")


def test_an_erasure_of_ten_thousand_media_is_certified_in_time_behind_a_cache(tmp_path: Path) -> None:
    changes = {"services": ("ingress", "social_media"), "ingress_processes": 1, "media_cache": "varnish"}
    with system_of_its_own(tmp_path / "home", processes=PROCESSES, **changes) as system, sharing_a_client(system):
        addresses, folder = system.settings.addresses(), system.settings.media_origin().folder
        assert addresses.media_url != addresses.media_origin_url
        owner = SocialUser(system)
        owner.read("/v1/me")
        many_media(addresses.postgres_superuser_dsn, folder, owner.name, COUNT)
        owner.do("POST", "/v1/me/erasure", {"confirm": owner.name})
        read = "/v1/me/erasure"
        found = eventually(lambda: one if (one := owner.read(read))["state"] == "complete" else None, WITHIN_S)
        certificate = found["certificate"]
        assert (certificate["counts"]["media"], certificate["counts"]["posts"]) == (COUNT, COUNT // 4)
        assert [
            path for kind in ("sources", "renditions") for path in (folder / kind).rglob("*") if path.is_file()
        ] == []
