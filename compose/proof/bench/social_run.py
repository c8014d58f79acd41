"""What ``millrace bench social`` measures: deliveries into homes, how late they are, and reads of a home."""

from __future__ import annotations

import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import httpx
import psycopg

from compose.settings.processes import processes_default
from ingress.identity.issuer import SCOPES_OF_USERS, KeyFolder, issue_token
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from compose.proof.kit.own_stack import OwnStack

_MS: Final = 1_000
_READERS: Final = 8
_LATE: Final = 30  # posts whose way into a home is watched
_POLL_S: Final = 0.002
_DONE: Final = """
select coalesce(bool_and(coalesce(p.last_seq, 0) >= o.seq), true)
from (select partition, max(seq) as seq from outbox where topic = 'events.social.v1' group by 1) o
left join stream_position p on p.follower = 'social_fanout' and p.partition = o.partition
"""


class SocialBench:
    """One author, its followers, and one of them who reads."""

    def __init__(self, stack: OwnStack, *, followers: int, posts: int, reads: int) -> None:
        self._world = stack.world
        self._keys = KeyFolder(stack.home / "keys")
        self._counts = (followers, posts, reads)
        self._http = httpx.Client(base_url=self._world["base_url"], timeout=limits.RESULT_WAIT_MAX_S, trust_env=False)

    def run(self) -> dict[str, Any]:
        """Every figure; times in ms."""
        followers, posts, reads = self._counts
        author, fans = self._user(), [self._user() for _ in range(followers)]
        self._get(author, "/v1/me")
        with ThreadPoolExecutor(_READERS) as pool:
            list(pool.map(lambda fan: self._follow(fan, author), fans))
            fan_out = self._fan_out(author, followers, posts)
            late = [self._late(author, fans[0]) for _ in range(_LATE)]
            cold = [self._built(author) for _ in range(_LATE)]
            warm = [self._timed(lambda: self._home(fans[0])) for _ in range(reads)]
            began = time.monotonic()
            list(pool.map(lambda n: self._home(fans[n % followers]), range(reads)))
            together = reads / (time.monotonic() - began)
        return {
            "cores": processes_default(),
            "followers": followers,
            "fan_out": fan_out | _spread(late, "late"),
            "home": _spread(warm, "read") | _spread(cold, "built") | {"reads_per_s": round(together)},
        }

    def _fan_out(self, author: str, followers: int, posts: int) -> dict[str, Any]:
        """From the first command until the position of fan-out is behind the last event."""
        lines = [
            json.dumps(
                {"operation": "POST /v1/posts", "idempotency_key": uuid.uuid4().hex, "payload": {"text": "post"}}
            )
            for _ in range(posts)
        ]
        headers = _auth(author) | {"Content-Type": "application/x-ndjson"}
        began = time.monotonic()
        self._http.post("/v1/commands", content="\n".join(lines), headers=headers).raise_for_status()
        published = time.monotonic() - began
        with psycopg.connect(self._world["postgres_dsn"], autocommit=True) as connection:
            while connection.execute(_DONE).fetchall() != [(True,)]:
                time.sleep(_POLL_S)
        took = time.monotonic() - began
        return {"posts_per_s": round(posts / published), "deliveries_per_s": round(posts * followers / took)}

    def _late(self, author: str, fan: str) -> float:
        """From the answer to a post until a follower's home has it."""
        text = uuid.uuid4().hex
        self._send(author, "POST", "/v1/posts", {"text": text})
        return self._timed(lambda: self._until(fan, text))

    def _until(self, fan: str, text: str) -> None:
        while text not in self._home(fan):
            time.sleep(_POLL_S)

    def _built(self, author: str) -> float:
        """The first home of somebody who follows."""
        fan = self._user()
        self._send(fan, "PUT", f"/v1/follows/{self._get(author, '/v1/me').json()['user_id']}", {})
        return self._timed(lambda: self._home(fan))

    def _user(self) -> str:
        return issue_token(self._keys, f"u_{uuid.uuid4().hex[:12]}", SCOPES_OF_USERS, kind="user")

    def _follow(self, fan: str, author: str) -> None:
        name = self._get(author, "/v1/me").json()["user_id"]
        self._send(fan, "PUT", f"/v1/follows/{name}", {})
        self._home(fan)  # built, so that fan-out writes it from now on

    def _home(self, user: str) -> str:
        return self._get(user, f"/v1/timelines/home?limit={limits.PAGE_LIMIT_DEFAULT}").text

    def _get(self, user: str, path: str) -> httpx.Response:
        return self._http.get(path, headers=_auth(user)).raise_for_status()

    def _send(self, user: str, method: str, path: str, payload: dict[str, Any]) -> None:
        headers = _auth(user) | {"Idempotency-Key": uuid.uuid4().hex}
        self._http.request(method, path, json=payload, headers=headers).raise_for_status()

    @staticmethod
    def _timed(call: Callable[[], object]) -> float:
        began = time.monotonic()
        call()
        return (time.monotonic() - began) * _MS


def _auth(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _spread(found: list[float], name: str) -> dict[str, float]:
    """Median and the slowest of a hundred."""
    ordered = sorted(found)
    return {
        f"{name}_p50_ms": round(ordered[len(ordered) // 2], 1),
        f"{name}_p99_ms": round(ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], 1),
    }
