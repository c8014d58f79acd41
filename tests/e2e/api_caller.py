"""Whoever calls the API with one token, while objects are made that the calls of its document are about."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import httpx

from tests.eventually import patient

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

Json = dict[str, Any]


class Caller:
    """Whoever holds one token; every command of it is carried out."""

    def __init__(self, public: PublicSystem, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}", "Prefer": "wait=30"}
        self.token = token
        self.http = httpx.Client(base_url=public.base_url, headers=headers, timeout=patient(40), trust_env=False)

    def does(self, method: str, path: str, payload: Json | None = None) -> Json:
        """What is answered in the end; the result of a command."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        body = None if method in ("GET", "DELETE") else payload or {}
        answer = self.http.request(method, path, json=body, headers=headers)
        assert answer.status_code in (200, 201), (method, path, answer.text)
        found: Json = answer.json()
        return found.get("result", found)
