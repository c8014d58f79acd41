"""Signs what a client sends (RFC 9421), each time anew: a retry has the same identity and a time of its own.

signer = RequestSigner("msk_...", Path("key.pem").read_bytes())
with MillraceClient(base_url, token, signer=signer) as client: ...
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from schemas.crypto import content_digest, http_signature

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_READS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_COVERED_FIELDS: Final = ("content-digest", "content-type", "idempotency-key", "if-match")
_NONCE_BYTES: Final = 12


class RequestSigner(httpx.Auth):
    """Adds Content-Digest, Signature-Input and Signature to every request that changes something."""

    requires_request_body = True

    def __init__(self, key_id: str, private_key_pem: bytes, clock: Callable[[], float] = time.time) -> None:
        key = serialization.load_pem_private_key(private_key_pem, password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise TypeError("the key must be an Ed25519 private key in PEM")
        self._key_id = key_id
        self._key = key
        self._clock = clock

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Httpx's own hook: it sees the request as it will be sent."""
        if request.method not in _READS:
            self._sign(request)
        yield request

    def _sign(self, request: httpx.Request) -> None:
        if request.content:
            request.headers["Content-Digest"] = content_digest.of(request.content)
        fields = {name.lower(): value for name, value in request.headers.items()}
        path, _, query = request.url.raw_path.decode("ascii").partition("?")
        message = http_signature.Message(request.method, fields.get("host", ""), path, query, fields)
        covered = ["@method", "@authority", "@path", *(["@query"] if query else [])]
        covered += [name for name in _COVERED_FIELDS if name in fields]
        params: dict[str, int | str] = {
            "created": int(self._clock()),
            "keyid": self._key_id,
            "alg": http_signature.ALGORITHM,
            "nonce": secrets.token_urlsafe(_NONCE_BYTES),
            "tag": http_signature.TAG,
        }
        request.headers.update(http_signature.sign(message, covered, params, self._key))
