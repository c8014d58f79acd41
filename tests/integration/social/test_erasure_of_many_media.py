"""Who has very many media is erased as soon as anybody, whatever stands in front of them and wherever they lie."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.eventually import eventually
from tests.worlds.media_bucket import bucket, keys_there, put_there, settings_of
from tests.worlds.public_system import system_of_its_own
from tests.worlds.social_media import fetch, picture, ready, statuses, urls_of
from tests.worlds.social_planted import in_folder, many_media
from tests.worlds.social_system import SocialUser, sharing_a_client

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["bucket"]  # the fixture of this module
pytestmark = [pytest.mark.servers, pytest.mark.proof, pytest.mark.timeout(900)]
COUNT, WITHIN_S = 10_000, 120  # as the contract has it
COUNT_IN_BUCKET = 2_000  # the server that plays it looks at every key where a real one knows them in order
PROCESSES = ("social_owner", "social_propagation", "social_eraser")
SETTINGS: dict[str, Any] = {
    "services": ("ingress", "social_media"),
    "ingress_processes": 1,
    "media_cache": "varnish",
}


def certified(owner: SocialUser) -> dict[str, Any]:
    """The certificate of an erasure that begins now."""
    owner.do("POST", "/v1/me/erasure", {"confirm": owner.name})
    read = "/v1/me/erasure"
    found = eventually(lambda: one if (one := owner.read(read))["state"] == "complete" else None, WITHIN_S)
    certificate: dict[str, Any] = found["certificate"]
    return certificate


def test_an_erasure_of_ten_thousand_media_is_certified_in_time_behind_a_cache(tmp_path: Path) -> None:
    with system_of_its_own(tmp_path / "home", processes=PROCESSES, **SETTINGS) as system, sharing_a_client(system):
        addresses, folder = system.settings.addresses(), system.settings.media_origin().folder
        assert addresses.media_url != addresses.media_origin_url
        owner = SocialUser(system)
        owner.read("/v1/me")
        many_media(addresses.postgres_superuser_dsn, partial(in_folder, folder), owner.name, COUNT)
        counts = certified(owner)["counts"]
        assert (counts["media"], counts["posts"]) == (COUNT, COUNT // 4)
        assert [
            path for kind in ("sources", "renditions") for path in (folder / kind).rglob("*") if path.is_file()
        ] == []


def test_media_lie_in_a_bucket_and_an_erasure_leaves_none_there(tmp_path: Path, bucket: str) -> None:
    """From the upload to the certificate: what is served comes from the bucket, and what is another's stays there."""
    processes, settings = (*PROCESSES, "social_scanner"), SETTINGS | settings_of(bucket)
    with system_of_its_own(tmp_path / "home", processes=processes, **settings) as system, sharing_a_client(system):
        owner, other = SocialUser(system), SocialUser(system)
        data, urls = picture(), list[str]()
        for user in (owner, other):
            user.read("/v1/me")
            post = user.post("with a picture", media_ids=[ready(user, data)["media_id"]])
            urls.append(urls_of(other, post)[0])
        assert statuses(urls) == {200}
        assert fetch(urls[0], {"Range": "bytes=0-3"}).content == b"RIFF"
        kept = {key for key in keys_there() if key.startswith("renditions/") and key.split("/")[1] in urls[1]}
        assert kept
        many_media(system.settings.addresses().postgres_superuser_dsn, put_there, owner.name, COUNT_IN_BUCKET)
        assert certified(owner)["counts"]["media"] == COUNT_IN_BUCKET + 1
        assert {key for key in keys_there() if key.startswith("renditions/")} == kept
        assert [key.partition("/")[0] for key in keys_there() if key not in kept] == ["sources"], "of the other's"
        assert [fetch(url).status_code for url in urls] == [404, 200]
