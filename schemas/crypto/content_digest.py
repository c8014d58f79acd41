"""Content-Digest (RFC 9530): the digest of a body in a header field, so that what covers fields covers the body."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

import http_sf

from schemas import errors

#: what counts; the RFC's other algorithms are broken, and are passed over as it says
_HASHES: Final = {"sha-256": hashlib.sha256, "sha-512": hashlib.sha512}


def of(body: bytes) -> str:
    """The field's value for a body."""
    return http_sf.ser({"sha-256": (hashlib.sha256(body).digest(), {})})


def require(value: str, body: bytes) -> None:
    """Every digest that we know is of this body, and there is one. Raises SignatureInvalid."""
    try:
        digests = http_sf.parse(value.encode("ascii"), tltype="dictionary", on_duplicate_key=_refuse_duplicate)
    except ValueError as error:  # of both kinds: no ASCII, no structured field
        raise errors.SignatureInvalid("Content-Digest is not a dictionary of digests (RFC 9530).") from error
    known = {name: member for name, member in digests.items() if name in _HASHES}  # type: ignore[union-attr]
    if not known:
        raise errors.SignatureInvalid("Content-Digest needs a digest by sha-256 or sha-512.")
    for name, member in known.items():
        digest = member[0] if isinstance(member, tuple) else None
        if not isinstance(digest, bytes) or not hmac.compare_digest(digest, _HASHES[name](body).digest()):
            raise errors.SignatureInvalid(f"Content-Digest ({name}) is not of this body: something changed it.")


def _refuse_duplicate(key: str, _: str) -> None:
    raise errors.SignatureInvalid(f"Content-Digest says {key[:40]} twice.")
