"""Merchants' public keys, and whether their calls have to be signed. A change is one transaction with its audit row.

Keys beget keys: while a merchant has an active key, only a signed call changes anything here, so a stolen token brings
no key of its own in. Who lost every key asks an operator.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any, Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ingress import limits as ingress_limits
from ingress.http.pages import NewestFirst
from schemas import errors, limits, rendering
from schemas.crypto import http_signature
from schemas.fields import validation

if TYPE_CHECKING:
    from ingress.http.cursors import Cursors
    from ingress.http.pages import Place
    from ingress.http.store import Store
    from ingress.identity.caller import Caller
    from ingress.identity.known_keys import KnownKeys
    from ingress.identity.signed_requests import Proof

LIST: Final = "signing_keys"
REQUIREMENTS: Final = ("off", "optional", "required")
REQUIREMENT_DEFAULT: Final = "optional"
_ROW: Final = (
    "id",
    "merchant_id",
    "public_key",
    "description",
    "created_by",
    "created_at",
    "revoked_by",
    "revoked_at",
)
_ID_CHARACTERS: Final = 26
_SIGN_BIT: Final = 0x7F
#: y of the points of small order, the sign of x left out: under such a "key" a signature proves nothing
_SMALL_ORDER: Final = frozenset(
    bytes.fromhex(text)
    for text in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
)
Json = dict[str, Any]


class SigningKeys:
    """Registers, revokes and lists, over a store whose commits wait for the disk."""

    def __init__(self, store: Store, cursors: Cursors, known: KnownKeys) -> None:
        self._store = store
        self._pages = NewestFirst(store, cursors)
        self._known = known

    async def register(self, caller: Caller, payload: object, proof: Proof | None) -> tuple[Json, bool]:
        """The key, and whether it was there before. Raises InvalidCommand, StateConflict or a signature's error."""
        public_key, description = _checked(payload)
        key_id = key_id_of(caller.merchant, public_key)
        word = await self._word(
            "signing_keys_register",
            caller.merchant,
            {
                "id": key_id,
                "public_key": public_key,
                "description": description,
                "actor": validation.visible(caller.subject),
                "keys_max": ingress_limits.SIGNING_KEYS_ACTIVE_MAX,
            }
            | _signed_by(proof),
        )
        if word == "revoked":
            raise errors.StateConflict("This key was revoked, which is for good; make another one.")
        if word == "too_many":
            raise errors.StateConflict(
                f"There are {ingress_limits.SIGNING_KEYS_ACTIVE_MAX} active keys; revoke one first."
            )
        return await self.get(caller.merchant, key_id), word == "known"

    async def revoke(
        self, merchant: str, key_id: str, actor: str, proof: Proof | None = None, reason: str | None = None
    ) -> tuple[Json, bool]:
        """The key, which verifies nothing new any more, and whether it was so before. Raises NotFound, StateConflict.

        With a reason it is an operator who acts.
        """
        parameters = {"id": key_id, "actor": actor, "operator": reason is not None, "reason": reason}
        word = await self._word("signing_keys_revoke", merchant, parameters | _signed_by(proof))
        if word == "not_found":
            raise errors.NotFound
        if word == "last_key":
            raise errors.StateConflict(
                "It is the last active key, and signatures are required: register another one or require none first."
            )
        return await self.get(merchant, key_id), word == "known"

    async def get(self, merchant: str, key_id: str) -> Json:
        """One key. Raises NotFound."""
        rows = await self._store.rows("signing_keys_by_id", {"id": key_id, "merchant": merchant})
        if not rows:
            raise errors.NotFound
        return _shown(_read(rows[0]))

    async def page(self, merchant: str, limit: int, cursor: str | None) -> Json:
        """One page, newest first; revoked keys too, for they verify what was signed before."""
        query = "signing_keys_of_merchant"
        return await self._pages.page(query, LIST, merchant, {}, limit, cursor, _read, _place, _shown)

    async def require(
        self, merchant: str, requirement: object, actor: str, proof: Proof | None = None, reason: str | None = None
    ) -> tuple[Json, bool]:
        """What calls have to be, and whether somebody had set it so before. Raises InvalidCommand, StateConflict.

        With a reason it is an operator who acts.
        """
        if requirement not in REQUIREMENTS:
            wrong = {"field": "requirement", "reason": f"must be one of {', '.join(REQUIREMENTS)}"}
            raise errors.InvalidCommand([wrong])
        parameters = {"requirement": requirement, "actor": actor, "operator": reason is not None, "reason": reason}
        word = await self._word("signature_requirement_set", merchant, parameters | _signed_by(proof))
        if word == "no_key":
            raise errors.StateConflict("Without an active key nothing could be signed: register one first.")
        found = await self.requirement(merchant)
        return found, word == "known" and found["changed_by"] is not None

    async def requirement(self, merchant: str) -> Json:
        """What the merchant requires."""
        rows = await self._store.rows("signature_requirement", {"merchant": merchant})
        requirement, changed_by, changed_at = rows[0] if rows else (REQUIREMENT_DEFAULT, None, None)
        return {
            "object": "signature_requirement",
            "merchant_id": merchant,
            "requirement": requirement,
            "changed_by": changed_by,
            "changed_at": None if changed_at is None else rendering.timestamp(changed_at),
        }

    async def _word(self, query: str, merchant: str, parameters: Json) -> str:
        """What became of a change; this process knows of it at once."""
        try:
            ((word,),) = await self._store.rows(query, parameters | {"merchant": merchant})
        finally:
            self._known.forget(merchant)
        if word == errors.SignatureRequired.code:
            raise errors.SignatureRequired
        if word == errors.SignatureInvalid.code:
            raise errors.SignatureInvalid("The key was revoked meanwhile; sign with an active one.")
        return str(word)


def key_id_of(merchant: str, public_key: bytes) -> str:
    """The id of a key, which names merchant and key: registered again, it is the same one."""
    digest = hashlib.sha256(merchant.encode() + b"\0" + public_key).digest()
    return f"msk_{base64.b32encode(digest)[:_ID_CHARACTERS].decode().lower()}"


def _signed_by(proof: Proof | None) -> Json:
    return {"signed_by": None if proof is None else proof.key_id, "evidence": None if proof is None else proof.id}


def _checked(payload: object) -> tuple[bytes, str | None]:
    """The key's 32 bytes and its description. Raises MalformedRequest or InvalidCommand."""
    if not isinstance(payload, dict):
        raise errors.MalformedRequest("The body must be a JSON object.")
    wrong = [
        {"field": name[: limits.TEXT_LENGTH_MAX], "reason": "is not a field of a signing key"}
        for name in payload.keys() - {"public_key", "description"}
    ]
    description = payload.get("description")
    if description is not None and (reason := validation.free_text(description, limits.TEXT_LENGTH_MAX)):
        wrong.append({"field": "description", "reason": reason})
    found = _public_key(payload.get("public_key"))
    if isinstance(found, str):
        wrong.append({"field": "public_key", "reason": found})
    if wrong or isinstance(found, str):
        raise errors.InvalidCommand(wrong)
    return found, description


def _public_key(text: object) -> bytes | str:
    """The key's bytes, or the reason why it is not a key."""
    if not isinstance(text, str) or not text.isascii() or len(text) > ingress_limits.SIGNING_KEY_PEM_LENGTH_MAX:
        return "must be an Ed25519 public key in PEM, as openssl pkey -pubout prints it"
    if "PRIVATE KEY" in text:
        return "is a private key: it is not secret any more; make another one, and send its public half"
    try:
        key = serialization.load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        return "must be an Ed25519 public key in PEM, as openssl pkey -pubout prints it"
    raw = key.public_bytes_raw()
    if raw[:-1] + bytes([raw[-1] & _SIGN_BIT]) in _SMALL_ORDER:
        return "is a point of small order: anybody could sign for it"
    return raw


def _read(row: tuple[Any, ...]) -> Json:
    return dict(zip(_ROW, row, strict=True))


def _place(row: Json) -> Place:
    return row["created_at"], row["id"]


def _shown(row: Json) -> Json:
    public_key = Ed25519PublicKey.from_public_bytes(bytes(row["public_key"]))
    pem = public_key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    revoked_at = row["revoked_at"]
    times = {
        "created_at": rendering.timestamp(row["created_at"]),
        "revoked_at": None if revoked_at is None else rendering.timestamp(revoked_at),
    }
    state = {"algorithm": http_signature.ALGORITHM, "state": "active" if revoked_at is None else "revoked"}
    return {"object": "signing_key", **row, "public_key": pem.decode(), **times, **state}
