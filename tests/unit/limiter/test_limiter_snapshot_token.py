"""The token by which a gateway reads snapshots: one that is refused is not sent for an hour."""

from __future__ import annotations

import asyncio
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from compose.services.limiter_gateway import SnapshotToken
from ingress.identity.auth import Authenticator
from ingress.identity.issuer import AUDIENCE, SERVICES_ISSUER, KeyFolder
from ingress.identity.jwks import KeySource
from limiter.policy.published import PublishedOverHttp
from schemas import errors

if TYPE_CHECKING:
    from pathlib import Path

_AHEAD_S = 3_600


def test_a_token_of_a_wrong_clock_is_made_anew_once_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = KeyFolder(tmp_path / "keys")
    keys.ensure()

    class Ingress(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            who = Authenticator(KeySource(str(keys.jwks)), SERVICES_ISSUER, (AUDIENCE,))
            try:
                asyncio.run(who.caller(self.headers["Authorization"]))
                self.send_response(304)
            except errors.Unauthenticated:
                self.send_response(401)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as the class it overrides
            """No access log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Ingress)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    token = SnapshotToken(keys)
    with monkeypatch.context() as wrong:
        real = time.time
        wrong.setattr(time, "time", lambda: real() + _AHEAD_S)
        token()

    async def follow() -> None:
        published = PublishedOverHttp(f"http://127.0.0.1:{server.server_port}", token, token.forget)
        with pytest.raises(errors.Unavailable, match="401"):
            await published.newer("", 0)
        assert await published.newer("", 0) is None
        await published.close()

    try:
        asyncio.run(follow())
    finally:
        server.shutdown()
        server.server_close()
