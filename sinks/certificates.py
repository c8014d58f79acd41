"""Certificates: documents that we sign, so that whoever has one can prove it without us. Ed25519, compact JWS.

The private key lies in a private file of the home, made once. The public ones are kept in the database and served:
where the file is lost another one is made in its place, and what was signed before is proved all the same.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import psycopg
from joserfc import jwk, jws

from schemas import errors
from sinks import limits, private_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NAME: Final = "certificates.json"
_ALGORITHM: Final = "Ed25519"
_KNOWN: Final = "insert into certificate_key (key_id, public_key) values (%s, %s) on conflict do nothing"


class CertificateKeys:
    """The signing key of one home."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def ensure(self) -> None:
        """There is a key afterwards; made at once by several processes, all see the same."""
        if self._path.exists():
            return
        key = jwk.OKPKey.generate_key("Ed25519", {"use": "sig", "alg": _ALGORITHM}, auto_kid=True)
        key.ensure_kid()
        private_file.write_once(self._path, json.dumps(key.as_dict(private=True)))

    def sign(self, document: dict[str, Any]) -> tuple[str, str]:
        """The document as text, and the JWS over exactly that text."""
        key = self._key()
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        header = {"alg": _ALGORITHM, "kid": key.kid}
        return text, jws.serialize_compact(header, text.encode(), key, algorithms=[_ALGORITHM])

    def public(self, known: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
        """The keys that certificates are verified with, as a JWK set: those that are ``known``, and the file's.

        Raises Unavailable where there is neither.
        """
        try:
            own = [self._key().as_dict(private=False)]
        except errors.Unavailable:
            if not known:
                raise
            own = []
        return {"keys": list({str(key["kid"]): key for key in (*known, *own)}.values())}

    def _key(self) -> jwk.OKPKey:
        try:
            return jwk.OKPKey.import_key(json.loads(self._path.read_text()))
        except (OSError, ValueError):
            raise errors.Unavailable("The key of certificates cannot be read.") from None


def begin(dsn: str, folder: Path) -> None:
    """A home has a key that signs, and the database its public half. Before any service: none of them makes one."""
    keys = CertificateKeys(folder)
    keys.ensure()
    (public,) = keys.public()["keys"]
    with psycopg.connect(dsn, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S) as connection:
        connection.execute(_KNOWN, (public["kid"], json.dumps(public)))
