"""Commands on merchants' accounts, and accounts built through the public door of the domain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dataflows.payments.domain.accounts import account_commands
from dataflows.payments.domain.accounts.account import Account, AccountContext, AccountDecision, PayoutTerms
from dataflows.payments.domain.accounts.account_postings import available
from dataflows.payments.domain.ledger.posting import Posting
from schemas import identity
from schemas.payments import repair
from schemas.payments.policies.reference_rates import ReferenceRate, ReferenceRates
from schemas.payments.records import Payout, PayoutDestination
from schemas.records import Command, Rejection
from tests.worlds.payments.payment_cases import command

MERCHANT: Final = "m_1"
ACCOUNT: Final = identity.account_id(MERCHANT)
BANK: Final = "AT611904300234573201"
OPERATOR: Final = "operator:by_test"
NOW: Final = 1_800_000_000_000_000
AVAILABLE: Final = available(MERCHANT, "EUR")
TRANSIT: Final = f"merchant_payout_in_transit:{MERCHANT}:EUR"
CASH: Final = f"cash:{BANK}:EUR"


def payout(amount: int = 600, *, key: str = "p", merchant: str = MERCHANT, **said: Any) -> Command:
    """A merchant asks to be paid out."""
    payload = {"amount": amount, "currency": "EUR", "destination": "main", "metadata": {}}
    versions = {"expected_version": said.pop("expected_version", None)}
    return command(
        "create_payout",
        payload | said,
        key=key,
        scope=merchant,
        aggregate_key=identity.account_id(merchant),
        **versions,
    )


def cancel(made: Payout, *, key: str = "c", merchant: str = MERCHANT, **said: Any) -> Command:
    """The merchant takes it back."""
    return command("cancel_payout", {"payout": made.id}, key=key, scope=merchant, aggregate_key=made.account_id, **said)


def outcome(made: Payout, status: str, *, scope: str = "ledger:reconciliation", **said: Any) -> Command:
    """What the bank did."""
    payload = {
        "payout": made.id,
        "status": status,
        "amount": made.amount,
        "currency": made.currency,
        "bank": BANK,
        "reason": "returned" if status == "failed" else None,
    }
    key = f"{made.id}:{status}"
    return command("record_payout_outcome", payload | said, key=key, scope=scope, aggregate_key=made.account_id)


def register(*, key: str = "d", merchant: str = MERCHANT, **said: Any) -> Command:
    """A merchant names a bank account to be paid at."""
    payload: dict[str, object] = {"name": "Hausbank", "account_number": BANK, "bank_code": None}
    account = identity.account_id(merchant)
    return command("create_payout_destination", payload | said, key=key, scope=merchant, aggregate_key=account)


def disable(made: PayoutDestination, *, key: str = "dd", merchant: str = MERCHANT, **said: Any) -> Command:
    """The merchant is paid there no more."""
    payload: dict[str, object] = {"destination": made.id}
    account = made.account_id
    return command("disable_payout_destination", payload, key=key, scope=merchant, aggregate_key=account, **said)


def allow(made: PayoutDestination, **said: Any) -> Command:
    """Two persons of staff end its cooling-off time."""
    return operator("allow_payout_destination", destination=made.id, reason="asked by telephone", **said)


def operator(
    operation: str, *, key: str = "o", scope: str = OPERATOR, merchant: str = MERCHANT, **said: Any
) -> Command:
    """An operator acts on the account: hold_reserve, release_reserve, convert_currency, freeze_account, unfreeze_account."""
    payload: dict[str, object] = {"merchant_id": merchant, **said}
    return command(operation, payload, key=key, scope=scope, aggregate_key=identity.account_id(merchant))


def reserve(operation: str, amount: int, **said: Any) -> Command:
    """Money is set aside, or given back."""
    return operator(operation, amount=amount, currency="EUR", reason="many refunds", **said)


def funding(amount: int, reference: str = "funds:1", merchant: str = MERCHANT, currency: str = "EUR") -> Command:
    """A repair that makes money available, as two persons agreed."""
    owed, theirs = f"processor_receivable:simulator:{currency}", available(merchant, currency)
    entries = [
        {"account_id": owed, "debit": amount, "credit": 0, "currency": currency},
        {"account_id": theirs, "debit": 0, "credit": amount, "currency": currency},
    ]
    return repair.command_of(reference, "entries", entries, "funds", "ann", "bob", issued_at=0)


def rates_of(pairs: dict[str, tuple[str, int]], as_of: int = NOW - 1, life_s: int = 3_600) -> ReferenceRates:
    """Reference rates with their bands in basis points, from a moment (microseconds) on."""
    begins = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=as_of)
    return ReferenceRates(
        source="test",
        as_of=begins,
        valid_until=begins + timedelta(seconds=life_s),
        rates={pair: ReferenceRate(rate=rate, band_bps=band) for pair, (rate, band) in pairs.items()},
    )


RATES: Final = rates_of({"EUR/JPY": ("162.35", 100)})


class Books:
    """One account with a ledger of its own: what an owner's batches come to, without servers."""

    def __init__(self, **held: int) -> None:
        self.known: Account | None = None
        self.held: dict[str, int] = {AVAILABLE: held.get("available", 0)}
        self.references: list[str] = []
        self.rates: ReferenceRates | None = RATES
        self.terms = PayoutTerms()
        self.now = NOW

    def decide(self, step: Command) -> AccountDecision | Rejection:
        """Decides, and keeps what was decided."""
        decided = account_commands.decide(
            self.known,
            step,
            AccountContext(now=self.now, held=self.held, reference_rates=self.rates, payouts=self.terms),
        )
        if isinstance(decided, AccountDecision):
            self.known = self.known or Account(account=decided.account)
            self.known.account = decided.account
            if decided.payout is not None:
                self.known.payouts[decided.payout.id] = decided.payout
            if decided.destination is not None:
                self.known.destinations[decided.destination.id] = decided.destination
            for posting in decided.postings:
                self._post(posting)
        return decided

    def made(self, step: Command) -> Payout:
        """The payout of a command that must not be refused."""
        decided = self.decide(step)
        assert isinstance(decided, AccountDecision), decided
        assert decided.payout is not None
        return decided.payout

    def registered(self, step: Command) -> PayoutDestination:
        """The destination of a command that must not be refused."""
        decided = self.decide(step)
        assert isinstance(decided, AccountDecision), decided
        assert decided.destination is not None
        return decided.destination

    def _post(self, posting: Posting) -> None:
        assert posting.reference not in self.references, f"{posting.reference} posted twice"
        self.references.append(posting.reference)
        sums: dict[str, int] = {}
        for entry in posting.entries:
            assert entry.account_id.endswith(f":{entry.currency}")
            sums[entry.currency] = sums.get(entry.currency, 0) + entry.debit - entry.credit
            self.held[entry.account_id] = self.held.get(entry.account_id, 0) + entry.credit - entry.debit
        assert not any(sums.values()), posting
