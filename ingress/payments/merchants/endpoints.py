"""Where merchants want to be told, and what became of each telling. The sender is another process; they share rows.

A secret is shown in the answer that makes it and never again: it is sealed before it is written, and not read here.
"""

from __future__ import annotations

import base64
import secrets
from typing import TYPE_CHECKING, Any, Final

from ingress.http.pages import NewestFirst
from ingress.http.store import Store
from ingress.payments.merchants.endpoint_values import FIELDS, checked
from schemas import errors, rendering
from schemas.payments import limits as payments_limits

if TYPE_CHECKING:
    from ingress.http.cursors import Cursors
    from ingress.http.pages import Place
    from schemas.payments.webhook_secret import WebhookSecretKeys

LIST: Final = "webhook_endpoints"
DELIVERIES: Final = "webhook_deliveries"
STATES: Final = ("unverified", "active", "disabled")
DELIVERY_STATES: Final = ("waiting", "delivered", "given_up")
_ENDPOINT: Final = (
    "id",
    "merchant_id",
    "url",
    "events",
    "description",
    "state",
    "disabled_reason",
    "created_at",
    "verified_at",
    "last_success_at",
)
_DELIVERY: Final = (
    "id",
    "webhook_endpoint",
    "event_id",
    "aggregate_key",
    "operation",
    "state",
    "tries",
    "last_status_code",
    "last_error",
    "next_at",
    "created_at",
    "finished_at",
)
_ID_BYTES: Final = 16
Json = dict[str, Any]


class Endpoints:
    """Endpoints and deliveries of the caller; another merchant's are not found."""

    def __init__(self, dsn: str, cursors: Cursors, keys: WebhookSecretKeys, *, loopback: bool) -> None:
        # Connections of its own: what was answered here is on disk, unlike the notes of other stores.
        self._store = Store(dsn, synchronous_commit="on")
        self._pages = NewestFirst(self._store, cursors)
        self._keys = keys
        self._loopback = loopback

    async def open(self) -> None:
        """Starts the pool; a database that is out is met later."""
        await self._store.open()

    async def close(self) -> None:
        """Closes every connection."""
        await self._store.close()

    async def create(self, merchant: str, payload: object) -> tuple[Json, bool]:
        """The endpoint with its secret; or the one that the merchant has with this URL, without it, and True.

        Raises InvalidCommand, and StateConflict when that one has other values or there are too many.
        """
        wanted = checked(payload, loopback=self._loopback)
        key = {"merchant": merchant, "url": wanted["url"]}
        # Looked at first: the insert would not tell a URL that is taken from a merchant that has too many.
        if (found := await self._one("endpoints_by_url", key)) is None:
            endpoint_id, secret_id, secret = _new_id("we"), _new_id("whk"), _new_secret()
            parameters = {
                **wanted,
                "id": endpoint_id,
                **self._sealed(secret_id, endpoint_id, secret),
                "merchant": merchant,
                "endpoints_max": payments_limits.MERCHANT_WEBHOOK_ENDPOINTS_MAX,
            }
            if await self._store.rows("endpoints_insert", parameters):
                return _endpoint(await self._own(merchant, endpoint_id)) | {"secret": secret}, False
            found = await self._one("endpoints_by_url", key)  # made by another call meanwhile
        if found is None:
            raise errors.StateConflict(
                f"There are {payments_limits.MERCHANT_WEBHOOK_ENDPOINTS_MAX} endpoints; delete one first."
            )
        if any(found[name] != wanted[name] for name in FIELDS):
            raise errors.StateConflict("An endpoint with this URL has other values; delete it first.")
        return _endpoint(found), True

    async def get(self, merchant: str, endpoint_id: str) -> Json:
        """One endpoint. Raises NotFound."""
        return _endpoint(await self._own(merchant, endpoint_id))

    async def page(self, merchant: str, limit: int, cursor: str | None) -> Json:
        """One page, newest first."""
        query = "endpoints_of_merchant"
        return await self._pages.page(query, LIST, merchant, {}, limit, cursor, _read_endpoint, _place, _endpoint)

    async def delete(self, merchant: str, endpoint_id: str) -> None:
        """Nothing is sent there any more, and its secrets are gone. Raises NotFound."""
        if not await self._store.rows("endpoints_delete", {"id": endpoint_id, "merchant": merchant}):
            raise errors.NotFound

    async def rotate(self, merchant: str, endpoint_id: str) -> Json:
        """The endpoint with a new secret; the one before signs on for a while. Raises NotFound, StateConflict."""
        own = await self._own(merchant, endpoint_id)
        secret = _new_secret()
        parameters = {
            "id": endpoint_id,
            "merchant": merchant,
            **self._sealed(_new_id("whk"), endpoint_id, secret),
            "overlap_s": payments_limits.MERCHANT_WEBHOOK_SECRET_OVERLAP_S,
            "secrets_max": payments_limits.MERCHANT_WEBHOOK_SECRETS_MAX,
        }
        if not await self._store.rows("endpoints_rotate", parameters):
            raise errors.StateConflict("Too many secrets are valid at once; wait until the oldest has run out.")
        return _endpoint(own) | {"secret": secret}

    async def enable(self, merchant: str, endpoint_id: str) -> Json:
        """The endpoint, which is sent to from now on if it was disabled. Raises NotFound."""
        await self._store.rows("endpoints_enable", {"id": endpoint_id, "merchant": merchant})
        return await self.get(merchant, endpoint_id)

    async def deliveries(self, merchant: str, endpoint_id: str, limit: int, cursor: str | None) -> Json:
        """One page of an endpoint's deliveries, newest first. Raises NotFound."""
        await self._own(merchant, endpoint_id)
        return await self._pages.page(
            "deliveries_of_endpoint",
            DELIVERIES,
            merchant,
            {"endpoint": endpoint_id},
            limit,
            cursor,
            _read_delivery,
            _place,
            _delivery,
        )

    async def resend(self, merchant: str, delivery_id: str) -> Json:
        """The delivery, due now. Raises NotFound, and StateConflict when its endpoint is disabled."""
        parameters = {"id": delivery_id, "merchant": merchant}
        rows = await self._store.rows("deliveries_by_id", parameters)
        if not rows:
            raise errors.NotFound
        if rows[0][-1] == "disabled":
            raise errors.StateConflict("The endpoint is disabled; enable it first.")
        await self._store.rows("deliveries_resend", {"id": delivery_id})
        rows = await self._store.rows("deliveries_by_id", parameters)
        if not rows:
            raise errors.NotFound
        return _delivery(_read_delivery(rows[0][:-1]))

    def _sealed(self, secret_id: str, endpoint_id: str, secret: str) -> Json:
        """The row of a secret. Raises KeyMissing."""
        sealed = self._keys.sealed(secret_id, endpoint_id, secret)
        columns = {"key_id": sealed.key_id, "wrapped_key": sealed.wrapped_key, "ciphertext": sealed.ciphertext}
        return {"secret_id": secret_id, **columns}

    async def _own(self, merchant: str, endpoint_id: str) -> Json:
        found = await self._one("endpoints_by_id", {"id": endpoint_id, "merchant": merchant})
        if found is None:
            raise errors.NotFound
        return found

    async def _one(self, query: str, parameters: Json) -> Json | None:
        rows = await self._store.rows(query, parameters)
        return _read_endpoint(rows[0]) if rows else None


def _new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(_ID_BYTES)}"


def _new_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(payments_limits.MERCHANT_WEBHOOK_SECRET_BYTES)).decode()


def _read_endpoint(row: tuple[Any, ...]) -> Json:
    return dict(zip(_ENDPOINT, row, strict=True))


def _read_delivery(row: tuple[Any, ...]) -> Json:
    return dict(zip(_DELIVERY, row, strict=True))


def _place(item: Json) -> Place:
    return item["created_at"], item["id"]


def _endpoint(found: Json) -> Json:
    times = rendering.timestamps(found, ("created_at", "verified_at", "last_success_at"))
    return {**found, "object": "webhook_endpoint", **times}


def _delivery(found: Json) -> Json:
    times = rendering.timestamps(found, ("next_at", "created_at", "finished_at"))
    shown = {**found, "object": "webhook_delivery", **times}
    return shown if found["state"] == "waiting" else shown | {"next_at": None}
