"""The public timeline while the real Postgres is stopped: what all could see, for some seconds; all else is refused."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from compose.stack.processes import descendants, send
from compose.supervise import launch
from compose.supervise.state import read_state
from schemas.social import limits
from tests import servers
from tests.eventually import becomes, eventually
from tests.worlds.public_system import PublicSystem, no_processes_but
from tests.worlds.social_system import SocialUser, refused, sharing_a_client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.servers, pytest.mark.faults, pytest.mark.timeout(300)]
_PUBLIC = "/v1/timelines/public"


@pytest.fixture
def system(tmp_path: Path) -> Iterator[PublicSystem]:
    changes = {"services": ("ingress",), "ingress_processes": 1, "worker_processes": no_processes_but("social_owner")}
    elsewhere = servers.without("clickhouse") | servers.kafka_of_the_run("withoutpg")
    with servers.own_servers(tmp_path / "home", servers_only=False, **changes, **elsewhere) as settings:
        state = read_state(settings.the_home())
        assert state is not None
        made = PublicSystem(settings, launch.world(settings, state)["base_url"])
        with sharing_a_client(made):
            yield made


def readings(system: PublicSystem) -> int:
    lines = [line for text in system.metrics("ingress") for line in text.splitlines()]
    return int(sum(float(one.split()[1]) for one in lines if one.startswith("millrace_social_public_snapshots_total ")))


def stop_postgres(system: PublicSystem) -> int:
    """Kills it with all its children, and keeps the supervisor from starting it again. Returns the supervisor's pid."""
    state = read_state(system.settings.the_home())
    assert state is not None
    assert state.supervisor is not None
    os.kill(state.supervisor.pid, signal.SIGSTOP)
    (server,) = [one.process for one in state.processes if one.name == "postgres"]
    assert server is not None
    for process in (server, *descendants(server)):
        send(process, signal.SIGKILL)
    return state.supervisor.pid


def test_what_was_public_is_told_for_some_seconds_and_nothing_else(system: PublicSystem) -> None:
    """Neither what is for fewer, nor what was taken down or kept from a reader by a block; and then nothing any more."""
    author, reader, blocked = (SocialUser(system) for _ in range(3))
    moderator = SocialUser(system, ("posts:read", "posts:write", "moderator"))
    for user in (author, reader, blocked, moderator):
        user.read("/v1/me")
    shown = author.post("for all")["post_id"]
    answer = reader.post("see", quote_of=shown)["post_id"]
    author.post("for some", visibility="followers")
    author.post("for one", visibility="private")
    removed = author.post("against the rules")["post_id"]
    decision = {"object_id": removed, "decision": "remove", "reason": "spam", "policy_version": 1}
    moderator.do("POST", "/v1/moderation/decisions", decision)
    author.do("PUT", f"/v1/blocks/{blocked.name}")
    assert reader.ids(_PUBLIC) == [answer, shown]
    cursor = reader.read(_PUBLIC, limit=1)["next_cursor"]
    newest = readings(system) + 2  # that one was begun after all of it
    eventually(lambda: readings(system) >= newest, 30)
    refused_paths = ("/v1/timelines/home", f"/v1/timelines/user/{author.name}", f"/v1/posts/{shown}", "/v1/me")
    with ThreadPoolExecutor(8) as pool:  # at once: it is a matter of seconds
        list(pool.map(lambda _: reader.get("/v1/me"), range(8)))
        supervisor = stop_postgres(system)
        pages = [pool.submit(one.get, _PUBLIC, limit=limit) for one, limit in ((reader, 9), (blocked, 9), (reader, 1))]
        others = [pool.submit(reader.get, path) for path in refused_paths]
        others.append(pool.submit(reader.get, _PUBLIC, cursor=cursor))
    try:
        page, kept_from, first = (answer.result().json() for answer in pages)
        assert (page.get("degraded"), page["has_more"], page["next_cursor"]) == (True, False, None), page
        assert [post["post_id"] for post in page["data"]] == [answer, shown]
        assert page["data"][0]["quote"]["text"] == "for all"
        (only,) = kept_from["data"]
        assert (only["post_id"], only["quote"]) == (answer, {"post_id": shown, "unavailable": True})
        assert [post["post_id"] for post in first["data"]] == [answer]
        assert [answer.result().status_code for answer in others] == [503] * len(others)
        becomes(lambda: reader.get(_PUBLIC).status_code, 503, 30)
        refused(reader.get(_PUBLIC), 503, "unavailable")
    finally:
        os.kill(supervisor, signal.SIGCONT)

    def is_whole() -> bool:
        answer = reader.get(_PUBLIC)
        return answer.status_code == 200 and "degraded" not in answer.json()

    eventually(is_whole, 60)
    assert limits.PUBLIC_SNAPSHOT_AGE_MAX_S <= 5
