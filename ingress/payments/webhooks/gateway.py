"""From the raw bytes of a webhook to its durable rows: verify, read, keep. A 2xx means that nothing of it can be lost.

What is not verified leaves nothing but a count. Repeats are answered as the first time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ingress.payments.webhooks import events, metrics, signatures
from ingress.payments.webhooks.inbox import Inbox
from schemas import errors
from schemas.payments.processors import adapter_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.datastructures import Headers

    from ingress.payments.webhooks.events import ProviderEvent


class WebhookGateway:
    """Every processor that we have secrets of. ``open`` before use, ``close`` after.

    ``require_clock`` raises Unavailable while the clock is too far off to tell an old signature from a new one.
    """

    def __init__(
        self,
        dsn: str,
        secrets: Mapping[str, Sequence[str]],
        require_clock: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = {name: signatures.read_secrets(adapter_of(name), given) for name, given in secrets.items()}
        self._inbox = Inbox(dsn)
        self._require_clock = require_clock
        self._clock = clock

    async def open(self) -> None:
        """Connects in the background."""
        await self._inbox.open()

    async def close(self) -> None:
        """Disconnects. Call it when no request is open."""
        await self._inbox.close()

    def require(self, processor: str) -> None:
        """Raises NotFound when no webhooks of this processor are taken."""
        if processor not in self._keys:
            raise errors.NotFound("There is no such processor.")

    async def receive(self, processor: str, headers: Headers, raw: bytes) -> None:
        """Returns once everything that is genuine in the body is durable.

        Raises InvalidSignature when nothing is genuine, MalformedRequest when nothing is an event, Unavailable when the
        events are not known to be durable, or when by our clock nothing can be told of their age.
        """
        try:
            found = self._verified(processor, headers, raw)
        except signatures.InvalidSignature:
            _count(processor, "forged")
            raise
        except errors.MalformedRequest:
            _count(processor, "malformed")
            raise
        except errors.Unavailable:
            _count(processor, "untimed")
            raise
        stored = await self._inbox.keep(found)
        _count(processor, "stored", stored)
        _count(processor, "repeated", len(found) - stored)

    def _verified(self, processor: str, headers: Headers, raw: bytes) -> list[ProviderEvent]:
        keys, scheme = self._keys[processor], adapter_of(processor)
        if scheme == "adyen":
            return _verified_items(raw, keys)
        self._require_clock()
        if scheme == "stripe":
            signatures.check_stripe(raw, _only(headers, "stripe-signature"), keys, self._clock())
            return [events.event_of(processor, raw, None, keys[0])]
        message_id, timestamp, signed = (_only(headers, f"webhook-{name}") for name in ("id", "timestamp", "signature"))
        signatures.check_standard(raw, message_id, timestamp, signed, keys, self._clock())
        return [events.event_of(processor, raw, message_id, keys[0])]


def _verified_items(raw: bytes, keys: Sequence[bytes]) -> list[ProviderEvent]:
    """Adyen signs each item of a batch: a forged one is dropped, the others are taken."""
    items = events.adyen_items(raw)
    genuine = [item for item in items if signatures.is_adyen_item(item, keys)]
    if not genuine:
        raise signatures.InvalidSignature
    _count("adyen", "forged", len(items) - len(genuine))
    return list(_readable(genuine, keys[0]))


def _readable(items: Sequence[dict[str, Any]], key: bytes) -> Iterator[ProviderEvent]:
    """The events of verified items. One without an identity costs the others nothing, unless all are so."""
    failure: errors.MalformedRequest | None = None
    count = 0
    for item in items:
        try:
            yield events.event_of_adyen(item, key)
            count += 1
        except errors.MalformedRequest as error:
            failure = error
    if failure is not None:
        if not count:
            raise failure
        _count("adyen", "malformed", len(items) - count)


def _only(headers: Headers, name: str) -> str:
    """The one value of a header: with two of them, two readers could disagree about which one was checked."""
    values = headers.getlist(name)
    if len(values) != 1:
        raise signatures.InvalidSignature
    return values[0]


def _count(processor: str, outcome: str, number: int = 1) -> None:
    metrics.EVENTS.labels(processor, outcome).inc(number)
