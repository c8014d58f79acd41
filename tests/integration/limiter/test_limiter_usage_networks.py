"""What a client's network has used, as an operator sees it: over HTTP and at a shell."""

from __future__ import annotations

import json
import uuid
from typing import Any
from urllib.parse import quote

import pytest

from tests.eventually import eventually
from tests.integration.operator_shell import Operator
from tests.worlds.limiter.limiter_public import OK, Envoy, envoy, is_known
from tests.worlds.public_system import public

__all__ = ["envoy", "public"]  # the fixtures of this module
pytestmark = pytest.mark.servers


def test_usage_by_network_is_shown_for_the_client_that_is_asked_for(envoy: Envoy) -> None:
    found = envoy.publish(per=["tenant", "network"], capacity=20).json()["result"]
    path = "/v1/usage/" + quote(f"{envoy.tenant}:u:/r", safe="")
    here = {"tenant": envoy.tenant, "user": "u", "route": "/r", "remote_address": "192.0.2.9"}
    eventually(lambda: envoy.ask(here, descriptor_cost=0).statuses[0].limit_remaining == 20, 60)
    identity = uuid.uuid4().hex

    def decided() -> Any:
        answer = envoy.ask(here, descriptor_cost=3, identity=identity)
        return answer if is_known(answer) else None

    assert eventually(decided, 60).overall_code == OK
    view = envoy.operator.http.get(path).json()
    named = {"policy_id": found["policy_id"], "policy_version": 1, "algorithm": "fixed_window"}
    assert view["policy_id"] is None
    assert view["by_network"] == [named | {"network": None, "live": None}]
    for client, used in (("::ffff:192.0.2.200", 3), ("198.51.100.1", 0)):
        shown = eventually(lambda: live(envoy, path, client), 60)  # noqa: B023 - asked at once
        assert (shown["network"], shown["live"]["used"]) == (client.rsplit(":")[-1].rsplit(".", 1)[0] + ".0/24", used)
    wrong = envoy.operator.http.get(path, params={"network": "host"})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "network")
    operator = Operator.of(envoy.public.settings)

    def told() -> str:
        ran = operator.run("limiter", "key", f"{envoy.tenant}:u:/r", "--network", "192.0.2.9", "--json")
        assert ran.returncode == 0, ran.stderr  # the store was late
        return ran.stdout

    counters = json.loads(eventually(told, 60))["counters"]
    assert [(c["network"], c["used"]) for c in counters] == [("192.0.2.0/24", 3)]
    assert "--network ADDRESS" in operator.run("limiter", "key", f"{envoy.tenant}:u:/r").stdout


def live(envoy: Envoy, path: str, client: str) -> dict[str, Any] | None:
    """What the client's network has used, when the store was not late."""
    (shown,) = envoy.operator.http.get(path, params={"network": client}).json()["by_network"]
    found: dict[str, Any] = shown
    return None if found["live"] is None else found
