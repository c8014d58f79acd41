"""Users of the benchmark of social posts: tokens, calls, and how long they take."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Final

import httpx

from ingress import limits
from ingress.identity.issuer import SCOPES_OF_USERS, KeyFolder, issue_token

if TYPE_CHECKING:
    from collections.abc import Callable

    from compose.proof.kit.own_stack import OwnStack

_MS: Final = 1_000


class People:
    """Calls of users to one stack."""

    def __init__(self, stack: OwnStack) -> None:
        self.base_url = str(stack.world["base_url"])
        self._keys = KeyFolder(stack.home / "keys")
        self._http = httpx.Client(base_url=self.base_url, timeout=limits.RESULT_WAIT_MAX_S, trust_env=False)

    def token(self, name: str) -> str:
        """Of a user that exists from its first call on."""
        return issue_token(self._keys, name, SCOPES_OF_USERS, kind="user")

    def home(self, token: str) -> str:
        """The first page of a home."""
        return self.get(token, f"/v1/timelines/home?limit={limits.PAGE_LIMIT_DEFAULT}").text

    def get(self, token: str, path: str) -> httpx.Response:
        """What is there."""
        return self._http.get(path, headers=_auth(token)).raise_for_status()

    def send(self, token: str, method: str, path: str, payload: dict[str, Any]) -> dict[str, Any]:
        """One command; what came of it."""
        headers = _auth(token) | {"Idempotency-Key": uuid.uuid4().hex}
        answer = self._http.request(method, path, json=payload, headers=headers).raise_for_status()
        found: dict[str, Any] = answer.json()["result"]
        return found

    def send_lines(self, token: str, lines: list[str]) -> str:
        """Many commands; their answers, a line each."""
        headers = _auth(token) | {"Content-Type": "application/x-ndjson"}
        return self._http.post("/v1/commands", content="\n".join(lines), headers=headers).raise_for_status().text


def _auth(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def timed_ms(call: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.monotonic()
    call()
    return (time.monotonic() - began) * _MS


def spread(found: list[float], name: str) -> dict[str, float]:
    """Median and the slowest of a hundred."""
    ordered = sorted(found)
    return {
        f"{name}_p50_ms": round(ordered[len(ordered) // 2], 1),
        f"{name}_p99_ms": round(ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], 1),
    }
