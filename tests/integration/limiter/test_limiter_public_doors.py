"""Where a running stack serves snapshots for caches, frames for processes of its machine, and what strangers get."""

from __future__ import annotations

import hashlib
import random
import uuid
from typing import TYPE_CHECKING

import httpx
import pytest

from compose.supervise import launch
from compose.supervise.state import read_state
from limiter.frames.frame_client import FrameClient
from limiter.frames.frame_requests import Check
from limiter.frames.frames import DEGRADED
from tests.eventually import becomes, eventually
from tests.worlds.limiter.limiter_public import OVER_LIMIT, Envoy, by_store, envoy
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from limiter.frames.frames import Answer
    from tests.worlds.public_system import Merchant

__all__ = ["envoy", "merchant", "public"]  # the fixtures of this module
pytestmark = pytest.mark.servers


def test_a_snapshot_is_served_by_its_digest_for_ever(envoy: Envoy, merchant: Merchant) -> None:
    """The path that newest names says the same bytes to whoever may read newest, and to nobody else."""
    envoy.in_force()

    def read() -> list[httpx.Response] | None:
        """None where a test beside published another one meanwhile, which takes the one before it away."""
        newest = envoy.operator.http.get("/v1/policy_snapshots/newest")
        path, known = newest.headers["content-location"], {"If-None-Match": newest.headers["etag"]}
        told = [newest, envoy.operator.http.get(path), envoy.operator.http.get(path, headers=known)]
        return told if envoy.operator.http.get("/v1/policy_snapshots/newest").content == newest.content else None

    newest, found, again = eventually(read)
    path = newest.headers["content-location"]
    digest = hashlib.sha256(newest.content).hexdigest()
    assert path == f"/v1/policy_snapshots/{digest}"
    assert (found.status_code, found.content) == (200, newest.content)
    assert found.headers["cache-control"] == "private, max-age=31536000, immutable"
    assert found.headers["etag"] == f'"{digest}"'
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
            asked = Check(envoy.tenant, "u", "/r", 3, uuid.uuid4().bytes)
            answers = eventually(lambda: known(client.check_many([asked])), 60)  # noqa: B023 - asked at once
            assert all(answer.allowed for answer in answers)
            assert client.check_many([Check(envoy.tenant, "u", "/r", 9)])[0].allowed is False
    assert envoy.check(cost=5) == OVER_LIMIT


def test_who_is_denied_is_refused_at_every_door_of_a_gateway(envoy: Envoy) -> None:
    """A suspended merchant by all of its keys, a person at every tenant; nobody else, and nobody when it is lifted."""
    risk = envoy.public.merchant(scopes=("operator:risk",))
    platform = envoy.public.merchant(scopes=("operator:platform",))
    state = read_state(envoy.public.settings.the_home())
    assert state is not None
    person = f"auth0|{uuid.uuid4().hex}"
    with (
        risk.http,
        platform.http,
        FrameClient(launch.world(envoy.public.settings, state)["limiter_frames"]["socket"], timeout_s=30) as frames,
    ):

        def refused(user: str = "u", tenant: str = envoy.tenant) -> set[bool]:
            (framed,) = frames.check_many([Check(tenant, user, "/r", 1)])
            asked = envoy.ask({"tenant": tenant, "user": user, "route": "/r"})
            return {not framed.allowed, asked.overall_code == OVER_LIMIT}

        def decide(who: Merchant, kind: str, name: str, verb: str = "") -> None:
            answer = who.http.post(f"/v1/access_denials/{kind}{verb}", json={"name": name, "reason": "an order"})
            assert answer.status_code == 200, answer.text

        assert refused() == refused(person) == {False}
        decide(risk, "merchant", envoy.tenant)
        becomes(refused, {True}, 20)
        assert refused(tenant=f"{envoy.tenant}x") == {False}
        decide(risk, "merchant", envoy.tenant, "/lift")
        becomes(refused, {False}, 20)
        decide(platform, "subject", person)
        becomes(lambda: refused(person, "t_another"), {True}, 20)
        assert refused() == {False}
        decide(platform, "subject", person, "/lift")


def known(answers: list[Answer]) -> list[Answer]:
    """They are the store's, who knows their identities."""
    assert not any(answer.flags & DEGRADED for answer in answers), "the store was late"
    return answers


def test_a_flood_of_wrong_tokens_is_kept_to_its_network(envoy: Envoy, merchant: Merchant) -> None:
    """Past the quota of a network its strangers are refused; those of another one, and whoever has a token, are not."""
    block = random.SystemRandom().randrange(10, 250)
    flooding, quiet = f"127.{block}.1.1", f"127.{block}.2.1"
    strangers = {"tenant": "-", "user": "*", "route": "*", "network": f"127.{block}.0.0/16"}

    def asked(source: str, token: str) -> httpx.Response:
        path, headers = "/v1/payment_intents/pi_nobodys", {"Authorization": f"Bearer {token}"}
        with httpx.Client(transport=httpx.HTTPTransport(local_address=source), timeout=40) as http:
            return http.get(envoy.public.base_url + path, headers=headers)

    assert asked(flooding, "a.b.c").status_code == 401
    envoy.publish(scope=strangers, per=["network"], capacity=5, window_ms=86_400_000)
    eventually(lambda: {asked(flooding, "a.b.c").status_code for _ in range(8)} == {429}, 60)
    refused = by_store(lambda: asked(flooding, "a.b.c"))
    assert (refused.json()["code"], "retry-after" in refused.headers) == ("quota_exceeded", True)
    assert by_store(lambda: asked(quiet, "a.b.c")).status_code == 401
    good = envoy.public.token(merchant.name)
    assert [asked(source, good).status_code for source in (quiet, flooding)] == [404, 404]
    with httpx.Client(transport=httpx.HTTPTransport(local_address=flooding), timeout=40) as http:
        unsigned = http.post(f"{envoy.public.base_url}/v1/webhooks/stripe", json={})
    assert (unsigned.status_code, unsigned.json()["code"]) == (401, "invalid_signature")


def test_a_command_that_is_sent_again_is_charged_once(envoy: Envoy, merchant: Merchant) -> None:
    """By its field Idempotency-Key, at whichever process; another one is charged."""
    mine = {"tenant": merchant.name, "user": "*", "route": "*"}
    assert envoy.publish(scope=mine, per=["tenant"], capacity=1_000, window_ms=86_400_000).status_code == 201

    def left(key: str) -> int | None:
        headers = {"Idempotency-Key": key, "Connection": "close"}
        answer = merchant.create(key, headers)
        assert answer.status_code == 201, answer.text
        told = answer.headers.get("ratelimit")
        return int(told.split(";")[1].removeprefix("r=")) if told else None

    def charged(key: str) -> int:
        """What is left when the store was not late."""
        return eventually(lambda: left(key), 60)

    eventually(lambda: None not in [left(uuid.uuid4().hex) for _ in range(4)], 60)
    first, second = uuid.uuid4().hex, uuid.uuid4().hex
    once = charged(first)
    assert [charged(first) for _ in range(6)] == [once] * 6
    assert charged(second) == once - 1
