"""Who signed this request: verified on the bytes as they came, before anything is written, and kept as evidence.

A signature binds method, path, query, body and identity together, so a request that is sent again is the same command
and hears the stored result: no list of used nonces is needed. A call without an idempotency key is carried out once for
each signature, by the row of its evidence.
"""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from ingress import limits as ingress_limits
from ingress.http import metrics
from ingress.http.requests import strict_json
from schemas import errors, limits
from schemas.crypto import content_digest, http_signature
from schemas.fields import card_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request

    from ingress.identity.known_keys import KnownKeys, Rows
    from schemas.crypto.http_signature import Message, Signed

#: fields that change what a call means: present, they have to be covered
_BINDING: Final = ("idempotency-key", "if-match")
#: what else may be covered. What is signed is kept, so a bearer token or cookie must not be
_COVERABLE: Final = frozenset(
    (
        *http_signature.DERIVED,
        *_BINDING,
        *("content-digest", "content-length", "content-type", "date", "host"),
        *("prefer", "traceparent", "x-deadline-ms", "x-request-id"),
    )
)
_DIGEST: Final = "content-digest"
_ID_HEX_DIGITS: Final = 40


class Proof(Struct, frozen=True, kw_only=True):
    """A request that the holder of a merchant's key signed: all that is needed to prove it to others."""

    merchant: str
    key_id: str
    base: bytes
    signature: bytes
    body: bytes

    @property
    def id(self) -> str:
        """Of this very request: sent again it is the same."""
        whole = self.merchant.encode() + b"\0" + self.signature + self.base
        return f"sr_{hashlib.sha256(whole).hexdigest()[:_ID_HEX_DIGITS]}"

    def row(self) -> dict[str, object]:
        """The row of the evidence."""
        return {
            "id": self.id,
            "merchant": self.merchant,
            "key_id": self.key_id,
            "base": self.base,
            "signature": self.signature,
            "body": self.body,
        }


class CoveredCommand(Protocol):
    """A command that a signature covers: what tells it from any other."""

    @property
    def idempotency_key(self) -> str:
        """The caller's retry identity."""
        ...

    @property
    def request_hash(self) -> bytes:
        """What tells a retry from another request."""
        ...


class SignedRequests:
    """Verifies by what is known of merchants' keys; evidence goes to a store whose commits wait for the disk."""

    def __init__(self, known: KnownKeys, store: Rows, clock: Callable[[], float] = time.time) -> None:
        self._known = known
        self._store = store
        self._clock = clock

    async def proof(self, request: Request, merchant: str, body: bytes, *, changes_keys: bool = False) -> Proof | None:
        """Who signed the request; None when nobody did and nobody had to.

        ``changes_keys``: as long as the merchant has an active key, one has to sign, whatever is required otherwise.
        Raises SignatureRequired, SignatureInvalid or SignatureExpired.
        """
        known = await self._known.of(merchant)
        has_to = known.requirement == "required" or (changes_keys and bool(known.keys))
        headers = request.headers
        is_signed = http_signature.INPUT_FIELD in headers or http_signature.SIGNATURE_FIELD in headers
        if not has_to and (known.requirement == "off" or not is_signed):
            return None
        try:
            found = await self._verified(_message(request), merchant, body) if is_signed else None
            if found is None and has_to:
                raise errors.SignatureRequired
        except errors.Rejected as error:
            metrics.SIGNATURES.labels(error.code).inc()
            raise
        if found is not None:
            metrics.SIGNATURES.labels("verified").inc()
        return found

    async def keep(self, proof: Proof, calls: Sequence[CoveredCommand]) -> None:
        """The evidence is durable, with the identities that it stands for. Raises Unavailable."""
        hashes = {"keys": [c.idempotency_key for c in calls], "hashes": [c.request_hash for c in calls]}
        await self._store.rows("signed_requests_keep", proof.row() | hashes)

    async def once(self, request: Request, merchant: str, body: bytes, *, changes_keys: bool = False) -> Proof | None:
        """As ``proof``, for a call without an identity: this very request was never carried out before.

        Raises SignatureExpired when it was.
        """
        found = await self.proof(request, merchant, body, changes_keys=changes_keys)
        if found is not None:
            if body and card_number.holds_card_number(json.dumps(strict_json.parse(body), ensure_ascii=False)):
                raise errors.MalformedRequest(f"The body {card_number.REFUSED}.")
            if not await self._store.rows("signed_requests_spend", found.row()):
                raise errors.SignatureExpired("This very request was carried out before; sign again, with a new nonce.")
        return found

    async def _verified(self, message: Message, merchant: str, body: bytes) -> Proof | None:
        signed = http_signature.read(message)
        if signed is None:
            return None
        key_id = signed.params.get("keyid")
        if key_id is None or signed.params.get("alg", http_signature.ALGORITHM) != http_signature.ALGORITHM:
            raise errors.SignatureInvalid('The signature needs keyid, and no other alg than "ed25519".')
        # Unknown, revoked and another merchant's are one answer: nobody learns which keys exist.
        if (key := await self._known.key(merchant, key_id)) is None:
            raise errors.SignatureInvalid("The keyid names no active signing key of this merchant.")
        self._require_time(signed)
        _require_cover(signed, message, body)
        if not http_signature.verifies(key, signed.signature, signed.base):
            raise errors.SignatureInvalid
        if _DIGEST in signed.components:
            content_digest.require(message.component(_DIGEST), body)
        return Proof(merchant=merchant, key_id=key_id, base=signed.base, signature=signed.signature, body=body)

    def _require_time(self, signed: Signed) -> None:
        now, created = self._clock(), signed.params.get("created")
        if created is None:
            raise errors.SignatureInvalid("The signature needs the parameter created.")
        if created > now + limits.CLOCK_SKEW_MAX_S:
            raise errors.SignatureExpired("The signature was created in the future; set the clock, and sign again.")
        if created < now - ingress_limits.SIGNATURE_AGE_MAX_S or signed.params.get("expires", now + 1) <= now:
            raise errors.SignatureExpired


def _require_cover(signed: Signed, message: Message, body: bytes) -> None:
    """What makes the call what it is, is covered; what is a secret, is not. Raises SignatureInvalid."""
    needed = ["@method", "@path", *(name for name in _BINDING if name in message.fields)]
    needed += ["@query"] if message.query else []
    needed += [_DIGEST] if body else []
    if missing := [name for name in needed if name not in signed.components]:
        raise errors.SignatureInvalid(f"The signature has to cover {' and '.join(missing)} too.")
    if beyond := [name for name in signed.components if name not in _COVERABLE]:
        raise errors.SignatureInvalid(f"The signature must not cover {beyond[0]}: what is signed is kept.")
    said = [message.query, str(signed.params), *(message.component(n) for n in signed.components if n != _DIGEST)]
    if any(card_number.holds_card_number(text) for text in said):
        raise errors.SignatureInvalid(f"What is signed {card_number.REFUSED}.")


def _message(request: Request) -> Message:
    scope = request.scope
    fields: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1").strip(" \t")
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return http_signature.Message(
        request.method,
        fields.get("host", ""),
        scope["raw_path"].decode("latin-1"),
        scope["query_string"].decode("latin-1"),
        fields,
    )
