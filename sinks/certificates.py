"""Certificates: documents that we sign, so that whoever has one can prove it without us. Ed25519, compact JWS.

The private key lies in a private file of the home, made once; the public ones are served.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from joserfc import jwk, jws

from schemas import errors
from sinks import private_file

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "certificates.json"
_ALGORITHM: Final = "Ed25519"


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

    def public(self) -> dict[str, Any]:
        """The keys that certificates are verified with, as a JWK set."""
        return {"keys": [self._key().as_dict(private=False)]}

    def _key(self) -> jwk.OKPKey:
        try:
            return jwk.OKPKey.import_key(json.loads(self._path.read_text()))
        except (OSError, ValueError):
            raise errors.Unavailable("The key of certificates cannot be read.") from None
