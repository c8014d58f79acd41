"""What the ingress saw of a confirm and its owner cannot know: velocity counts, the card's fingerprint and network.

Mode: fail_unknown. When Valkey or the view of cards does not answer in time, the confirm goes on without the signal,
and each rule says what that means (``when_unknown``); no payment waits for a counter, and counting starts again by
itself. A Valkey that lost its counters knows no window that began before that. Counters are of one merchant: what a
merchant says of its payers decides about no other merchant's.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ingress.http import metrics
from ingress.http.breaker import Breaker
from schemas import errors, identity
from schemas.payments import limits
from sinks.redis.velocity import Counter, Counting, EpochOf, VelocityCounters

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingress.commands.envelope import Request
    from ingress.http.store import Store
    from ingress.payments.active_policies import ActivePolicies
    from schemas.payments.policies.risk_policy import Velocity

Signals = dict[str, str]
_CONFIRM: Final = "confirm_payment_intent"
_REVIEW: Final = "review_payment_intent"
#: as dataflows.payments.domain.routing reads an approval
_OF_CARD: Final = ("network", "card_country")


def velocity_epochs(store: Store) -> EpochOf:
    """Postgres remembers the epoch of the counters."""

    async def epoch_of(held: int) -> int:
        ((epoch,),) = await store.rows("velocity_epoch_of", {"held": held})
        return int(epoch)

    return epoch_of


class _Subject(Struct):
    """What one confirm is about, as far as it is known."""

    merchant: str
    request: Request
    amount: int | None = None
    currency: str | None = None
    method: str | None = None
    signals: Signals = {}


class RiskSignals:
    """Gathers the signals that the active policies name. Never raises, never waits beyond its bounds."""

    def __init__(
        self,
        policies: ActivePolicies,
        store: Store,
        counters: VelocityCounters | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policies = policies
        self._store = store
        self._counters = counters
        self._clock = clock
        self._breaker = Breaker("Valkey")
        self._cards: OrderedDict[tuple[str, str], tuple[float, Signals]] = OrderedDict()  # until when, what

    def gathers(self, requests: Sequence[Request]) -> bool:
        """Whether ``of`` would ask or count anything for these requests."""
        names = {request.operation.name for request in requests}
        return _REVIEW in names or (self._policies.needs_signals and _CONFIRM in names)

    async def of(self, merchant: str, requests: Sequence[Request]) -> list[Signals | None]:
        """For each request, in order, what was seen of it; None where nothing is asked for.

        Of an approval: what the case keeps of the confirm that waits for it, so that the charge goes where the confirm
        would have sent it. Without an answer of the store nobody is approved. Raises Unavailable.
        """
        found: list[Signals | None] = [None] * len(requests)
        reviewed = [n for n, request in enumerate(requests) if request.operation.name == _REVIEW]
        if reviewed:
            kept = await self._look_up_reviews([requests[n].aggregate_key for n in reviewed])
            for n in reviewed:
                found[n] = kept.get(requests[n].aggregate_key)
        if not self._policies.needs_signals:
            return found
        subjects = {
            n: _Subject(merchant, request, method=request.payload["payment_method"])
            for n, request in enumerate(requests)
            if request.operation.name == _CONFIRM
        }
        if subjects:
            await self._gather(merchant, list(subjects.values()))
        for n, subject in subjects.items():
            found[n] = subject.signals
        return found

    async def close(self) -> None:
        """Disconnects."""
        if self._counters is not None:
            await self._counters.close()

    async def _look_up_reviews(self, intent_ids: list[str]) -> dict[str, Signals]:
        rows = await self._store.rows("review_cards", {"ids": intent_ids})
        return {
            intent_id: {name: said for name, said in zip(_OF_CARD, card, strict=True) if said is not None}
            for intent_id, *card in rows
        }

    async def _gather(self, merchant: str, subjects: list[_Subject]) -> None:
        by_amount = any(velocity.measure == "amount" for velocity in self._policies.velocities.values())
        try:
            if by_amount or (self._policies.needs_card and not all(subject.method for subject in subjects)):
                await self._look_up_payments(merchant, subjects)
            if self._policies.needs_card:
                await self._look_up_cards(merchant, subjects)
        except errors.Unavailable:
            metrics.SIGNALS_UNKNOWN.labels("store").inc()
        if self._policies.velocities and self._counters is not None:
            await self._count(subjects, self._counters)

    async def _look_up_payments(self, merchant: str, subjects: list[_Subject]) -> None:
        ids = [subject.request.aggregate_key for subject in subjects]
        rows = await self._store.rows("confirm_subjects", {"ids": ids, "merchant": merchant})
        known = {row[0]: row for row in rows}
        for subject in subjects:
            _, subject.amount, subject.currency, method = known.get(
                subject.request.aggregate_key, (None, None, None, None)
            )
            subject.method = subject.method or method

    async def _look_up_cards(self, merchant: str, subjects: list[_Subject]) -> None:
        tokens = {s.method for s in subjects if s.method is not None and identity.is_card_token(s.method)}
        known = {token: signals for token in tokens if (signals := self._remembered((merchant, token))) is not None}
        if unknown := [token for token in tokens if token not in known]:
            rows = await self._store.rows("card_signals", {"tokens": unknown, "merchant": merchant})
            for token, fingerprint, network in rows:
                known[token] = {"card": fingerprint, "network": network}
                self._remember((merchant, token), known[token])
        for subject in subjects:
            subject.signals = dict(known.get(subject.method or "", {}))

    async def _count(self, subjects: list[_Subject], counters: VelocityCounters) -> None:
        made = [(subject, _counting(subject, self._policies.velocities.items())) for subject in subjects]
        made = [(subject, counting) for subject, counting in made if counting.counters]
        if not made:
            return
        try:
            totals = await self._counted(counters, [counting for _, counting in made])
        except errors.Unavailable:
            metrics.SIGNALS_UNKNOWN.labels("valkey").inc(len(made))
            return
        for (subject, counting), row in zip(made, totals, strict=True):
            if len(row) < len(counting.counters):
                metrics.SIGNALS_UNKNOWN.labels("valkey_lost").inc()
            subject.signals |= {name: str(total) for name, total in row.items()}

    async def _counted(self, counters: VelocityCounters, countings: list[Counting]) -> list[dict[str, int]]:
        self._breaker.enter()
        try:
            totals = await counters.count(countings)
        except errors.Unavailable:
            self._breaker.failed()
            raise
        self._breaker.succeeded()
        return totals

    def _remembered(self, key: tuple[str, str]) -> Signals | None:
        until, signals = self._cards.get(key, (float("-inf"), None))
        return signals if until > self._clock() else None

    def _remember(self, key: tuple[str, str], signals: Signals) -> None:
        self._cards[key] = (self._clock() + limits.CARD_SIGNALS_CACHED_S, signals)
        self._cards.move_to_end(key)
        if len(self._cards) > limits.CARD_SIGNALS_CACHED_MAX:
            self._cards.popitem(last=False)


def _counting(subject: _Subject, velocities: Any) -> Counting:
    """What a confirm counts in: only where its subject, and the amount that is added up, are known."""
    request = subject.request
    counters = []
    for name, velocity in velocities:
        increment = _increment(subject, velocity)
        value = _value(subject, velocity)
        if value is not None and increment is not None:
            counters.append(Counter(name, f"{subject.merchant}\x1f{value}", velocity.window_s, increment))
    retry_identity = f"{subject.merchant}\x1f{request.aggregate_key}\x1f{request.idempotency_key}"
    return Counting(retry_identity, tuple(counters))


def _increment(subject: _Subject, velocity: Velocity) -> int | None:
    if velocity.measure == "count":
        return 1
    if subject.amount is None:
        return None
    return subject.amount if subject.currency == velocity.currency else 0


def _value(subject: _Subject, velocity: Velocity) -> str | None:
    if velocity.by == "merchant":
        return ""
    if velocity.by == "ip":
        ip: str | None = subject.request.payload["customer_ip"]
        return ip
    known = subject.signals.get("card")
    if known is None and subject.method is not None and not identity.is_card_token(subject.method):
        return subject.method  # a processor's token is all that we know of the card
    return known
