"""Where a running stack serves snapshots for caches, and frames for processes of its machine."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import httpx
import pytest

from compose.supervise import launch
from compose.supervise.state import read_state
from limiter.frame_client import Check, FrameClient
from tests.limiter_public import OVER_LIMIT, Envoy, envoy
from tests.public_system import merchant, public

if TYPE_CHECKING:
    from tests.public_system import Merchant

__all__ = ["envoy", "merchant", "public"]  # the fixtures of this module
pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]  # the first test starts the system


def test_a_snapshot_is_served_by_its_digest_for_ever(envoy: Envoy, merchant: Merchant) -> None:
    """The path that newest names says the same bytes to whoever may read newest, and to nobody else."""
    envoy.in_force()
    newest = envoy.operator.http.get("/v1/policy_snapshots/newest")
    path = newest.headers["content-location"]
    digest = hashlib.sha256(newest.content).hexdigest()
    assert path == f"/v1/policy_snapshots/{digest}"
    found = envoy.operator.http.get(path)
    assert (found.status_code, found.content) == (200, newest.content)
    assert found.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert found.headers["etag"] == f'"{digest}"'
    again = envoy.operator.http.get(path, headers={"If-None-Match": f'"{digest}"'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", f'"{digest}"')
    for other in ("0" * 64, digest.upper(), digest[:-1], "%00", "newest%00"):
        missing = envoy.operator.http.get(f"/v1/policy_snapshots/{other}", headers={"If-None-Match": f'"{other}"'})
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found"), other
    assert merchant.http.get(path).status_code == 403
    assert httpx.get(envoy.public.base_url + path, trust_env=False).status_code == 401


def test_frames_are_served_where_the_stack_says(envoy: Envoy) -> None:
    """The Unix socket and TCP spend one quota, which Envoy's service spends too."""
    envoy.in_force()
    settings = envoy.public.settings
    state = read_state(settings.the_home())
    assert state is not None
    where = launch.world(settings, state)["limiter_frames"]
    host, _, port = where["address"].rpartition(":")
    for place in ((host, int(port)), where["socket"]):
        with FrameClient(place, timeout_s=30) as client:
            assert all(answer.allowed for answer in client.check_many([Check(envoy.tenant, "u", "/r", 3)]))
            assert client.check_many([Check(envoy.tenant, "u", "/r", 9)])[0].allowed is False
    assert envoy.check(cost=5) == OVER_LIMIT
