"""The cards of merchants behind tokens: stored once for a caller's key, opened only for their own merchant.

If a card were ever opened for another merchant's token, one merchant could charge another's customers.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from schemas import errors, identity
from schemas.fields.validation import visible
from vault import audit, limits, metrics, sealing
from vault.sealing import Place, Sealed

if TYPE_CHECKING:
    from ingress.identity.caller import Caller
    from vault.card import Card
    from vault.keyring import Keyring
    from vault.store import VaultStore

_TOKEN_BYTES: Final = 15
_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class CardToken:
    """What anybody but the vault may know of a card."""

    id: str
    network: str
    last4: str
    fingerprint: str
    exp_month: int
    exp_year: int

    def document(self) -> dict[str, Any]:
        """The token as the API shows it."""
        return {
            "id": self.id,
            "object": "token",
            "network": self.network,
            "last4": self.last4,
            "fingerprint": self.fingerprint,
            "exp_month": self.exp_month,
            "exp_year": self.exp_year,
        }


class Cards:
    """Every method raises Unavailable when the database or the keys are out, and then nothing happened or all did."""

    def __init__(self, keyring: Keyring, store: VaultStore) -> None:
        self._keyring = keyring
        self._store = store

    async def create(self, caller: Caller, key: str, card: Card, said: Mapping[str, str]) -> tuple[CardToken, bool]:
        """The token of a card, and whether this key made it before. Raises KeyReused or StateConflict.

        ``said`` stands in the audit log beside the caller, as it does where a card is deleted.
        """
        merchant = caller.merchant
        for _ in range(limits.VAULT_SEAL_TRIES_MAX):
            ring = self._keyring.ring
            place = Place(_new_token_id(), merchant)
            sealed = sealing.seal(card, place, self._keyring.active, ring)
            token = _token(place, card, sealing.fingerprint(card.number, merchant, ring))
            parameters = {
                "id": place.token_id,
                "merchant": merchant,
                "key_digest": sealing.key_digest(key, merchant, ring),
                "request_digest": sealing.request_digest(card, merchant, ring),
                "network": card.network,
                "last4": card.last4,
                "fingerprint": token.fingerprint,
                "key_id": sealed.key_id,
                "wrapped_key": sealed.wrapped_key,
                "ciphertext": sealed.ciphertext,
                **audit.parameters(caller, network=card.network, **said),
            }
            ((fenced, stored),) = await self._store.rows("card_insert", parameters)
            if stored:
                metrics.TOKENS_CREATED.labels(card.network).inc()
                return token, False
            if fenced:
                return await self._made_before(merchant, parameters), True
            await self._keyring.refresh()  # a rotation came between: seal again with the key of now
        raise errors.Unavailable("The vault's keys are being changed; try again with the same identity.")

    async def _made_before(self, merchant: str, parameters: dict[str, Any]) -> CardToken:
        ((digest, token_id),) = await self._store.rows("request_find", parameters)
        if digest is None:
            raise errors.StateConflict("The token that this key made was deleted; use a new key.")
        if not hmac.compare_digest(bytes(digest), parameters["request_digest"]):
            raise errors.KeyReused
        return await self.find(merchant, token_id)

    async def find(self, merchant: str, token_id: str) -> CardToken:
        """The merchant's own token. Raises NotFound, the same for another's token and for none."""
        place, card, fingerprint = await self._open(merchant, token_id)
        return _token(place, card, fingerprint)

    async def reveal(self, merchant: str, token_id: str, said: Mapping[str, str]) -> Card:
        """The card itself, for a call to a processor and nothing else; ``said`` of that stands in the audit log.

        Raises NotFound.
        """
        details = {"merchant": merchant} | {name: visible(text) for name, text in said.items()}
        logged = {"actor": audit.WORKER, "details": json.dumps(details)}
        _, card, _ = await self._open(merchant, token_id, "card_reveal", logged)
        return card

    async def delete(self, caller: Caller, token_id: str, said: Mapping[str, str]) -> None:
        """The card is gone for good: its data key and ciphertext are removed. Again: the same. Raises NotFound."""
        _require_id(token_id)
        named = {"id": token_id, "merchant": caller.merchant}
        if not await self._store.rows("card_shred", named | audit.parameters(caller, **said)):
            raise errors.NotFound
        metrics.TOKENS_DELETED.inc()

    async def _open(
        self, merchant: str, token_id: str, query: str = "card_find", logged: Mapping[str, str] = _NOTHING
    ) -> tuple[Place, Card, str]:
        _require_id(token_id)
        place = Place(token_id, merchant)
        fingerprint, sealed = await self._read(place, query, logged)
        try:
            card = sealing.unseal(sealed, place, self._keyring.ring)
        except sealing.KeyMissing:  # re-wrapped since we read the keys, or since we read the card
            await self._keyring.refresh()
            fingerprint, sealed = await self._read(place)
            card = sealing.unseal(sealed, place, self._keyring.ring)
        return place, card, fingerprint

    async def _read(
        self, place: Place, query: str = "card_find", logged: Mapping[str, str] = _NOTHING
    ) -> tuple[str, Sealed]:
        rows = await self._store.rows(query, {"id": place.token_id, "merchant": place.merchant_id, **logged})
        if not rows:
            raise errors.NotFound
        ((fingerprint, key_id, wrapped_key, ciphertext),) = rows
        return fingerprint, Sealed(key_id=key_id, wrapped_key=bytes(wrapped_key), ciphertext=bytes(ciphertext))


def _token(place: Place, card: Card, fingerprint: str) -> CardToken:
    return CardToken(
        id=place.token_id,
        network=card.network,
        last4=card.last4,
        fingerprint=fingerprint,
        exp_month=card.exp_month,
        exp_year=card.exp_year,
    )


def _new_token_id() -> str:
    """120 random bits: not derived from anything, so that nothing can be learned from it."""
    return f"tok_{base64.b32encode(secrets.token_bytes(_TOKEN_BYTES)).decode().lower()}"


def _require_id(token_id: str) -> None:
    if not identity.is_card_token(token_id):
        raise errors.NotFound
