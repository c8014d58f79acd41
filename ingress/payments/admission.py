"""What payments ask of a command before it is sent: is new work taken, is the card one's own, what do rules see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingress.commands.admission import Admission
from schemas import errors
from schemas.payments.operations import OF_MERCHANTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingress.commands.admission import Signals
    from ingress.commands.envelope import Request
    from ingress.http.answers import Answer
    from ingress.identity.caller import Caller
    from ingress.payments.active_policies import ActivePolicies
    from ingress.payments.dry_run import DryRuns
    from ingress.payments.payment_methods import PaymentMethods
    from ingress.payments.risk.risk_signals import RiskSignals


_OTHERS: Final = ("tenant:", "user:")  # who is no merchant, and no operator


class PaymentsAdmission(Admission):
    """In maintenance a merchant's new work is refused; operators go on."""

    def __init__(
        self,
        active_policies: ActivePolicies,
        payment_methods: PaymentMethods,
        risk_signals: RiskSignals,
        dry_runs: DryRuns,
    ) -> None:
        self._active_policies = active_policies
        self._payment_methods = payment_methods
        self._risk_signals = risk_signals
        self._dry_runs = dry_runs

    async def refusals(self, caller: Caller, requests: Sequence[Request]) -> list[errors.PlatformError | None]:
        """Maintenance first, then card tokens of others. Raises Forbidden for a token of a tenant or a user."""
        if caller.principal.startswith(_OTHERS):
            raise errors.Forbidden("The token names no merchant.")
        found = [self._not_taken(request) for request in requests]
        taken = [n for n, refusal in enumerate(found) if refusal is None]
        own = await self._payment_methods.refusals(caller.principal, [requests[n].payload for n in taken])
        for n, refusal in zip(taken, own, strict=True):
            found[n] = refusal
        return found

    def gathers(self, requests: Sequence[Request]) -> bool:
        """Of confirms while risk rules need signals, and of approvals."""
        return self._risk_signals.gathers(requests)

    async def signals(self, caller: Caller, requests: Sequence[Request]) -> list[Signals | None]:
        """What the risk rules ask for of confirms, and what approvals take over."""
        return await self._risk_signals.of(caller.principal, requests)

    async def forecast(self, caller: Caller, request: Request) -> Answer:
        """By the owner's own functions, over what is committed now."""
        return await self._dry_runs.forecast(caller, request)

    def _not_taken(self, request: Request) -> errors.PlatformError | None:
        if request.operation.scope not in OF_MERCHANTS:
            return None
        try:
            self._active_policies.require_new_work()
        except errors.Unavailable as error:
            return error
        return None
