"""Who signed what was done: the evidence of an aggregate's commands, verified again, as others verify it.

Nothing of ours is needed for that: the signature is Ed25519 over the base, the base is text (RFC 9421 section 2.5) that
names the request and the digest of its body, and the public key is the one that the merchant registered.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from psycopg.rows import dict_row

from reconciliation import limits
from schemas import errors
from schemas.crypto import content_digest, http_signature
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

_SQL: Final = queries("reconciliation.audit", "audit.sql")
_DIGEST_LINE: Final = re.compile(r'^"content-digest": (.*)$', re.MULTILINE)


def signatures(connection: psycopg.Connection, aggregate: str) -> list[dict[str, Any]]:
    """The signed commands of a payment, account or policy, in their order, each with what proves it."""
    values = {"id": aggregate, "limit": limits.SIGNED_REQUESTS_SHOWN_MAX}
    with connection.cursor(row_factory=dict_row) as cursor:
        return [_evidence(row) for row in cursor.execute(_SQL["signatures"].encode(), values)]


def why_not(public_key: Ed25519PublicKey, base: bytes, signature: bytes, body: bytes) -> str | None:
    """Why the evidence proves nothing, or None when it does."""
    if not http_signature.verifies(public_key, signature, base):
        return "the signature is not by this key over this base"
    digest = _DIGEST_LINE.search(base.decode())
    if digest is None:
        return "the body is not signed" if body else None
    try:
        content_digest.require(digest.group(1), body)
    except errors.SignatureInvalid as error:
        return error.public
    return None


def _evidence(row: Mapping[str, Any]) -> dict[str, Any]:
    key = Ed25519PublicKey.from_public_bytes(row["public_key"])
    pem = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    raw = {name: bytes(row[name]) for name in ("base", "signature", "body")}
    reason = why_not(key, **raw)
    return {
        **{name: value for name, value in row.items() if name not in raw},
        "public_key": pem.decode(),
        **{name: base64.b64encode(value).decode() for name, value in raw.items()},
        "verified": reason is None,
        "reason": reason,
    }
