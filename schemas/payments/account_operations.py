"""The operations on merchants' accounts: payouts, where they go, what operators decide about an account."""

from __future__ import annotations

from typing import Final

from schemas import identity, senders
from schemas.fields import validation
from schemas.operation import Named, Operation
from schemas.payments import bank_account, payloads
from schemas.payments.value_types import MERCHANT_NAME

#: money leaves for a bank: who takes payments need not be able to
PAYOUTS: Final = "payouts:write"
#: where that money may go: who pays out every day registers no bank account
DESTINATIONS: Final = "payout_destinations:write"
_SERVICE: Final = "payments"


def _account_of_part(named: Named) -> str:
    return identity.account_of(named.path_id or "")


def _account_of_merchant(named: Named) -> str:
    return identity.account_id(named.path_id or "")


def _own_account(named: Named) -> str:
    return identity.account_id(named.scope)


def _payout(name: str, path: str, record: str, payload: validation.Fields, summary: str, *refusals: str) -> Operation:
    is_new = name == "create_payout"
    return Operation(
        name=name,
        service=_SERVICE,
        method="POST",
        path=path,
        record=record,
        payload=payload,
        summary=summary,
        result="CommittedPayout",
        scope=PAYOUTS,
        outside=senders.MERCHANT,
        refusals=(*refusals, "maintenance"),
        creates="pt" if is_new else None,
        id_name="payout_id",
        path_field=None if is_new else "payout",
        aggregate=_own_account if is_new else _account_of_part,
    )


def _of_account(
    name: str, verb: str, record: str, payload: validation.Fields, sender: str, summary: str, *refusals: str
) -> Operation:
    """An operator's, on a merchant's account; its route audits it. What moves money is sent when two persons agree."""
    return Operation(
        name=name,
        service=_SERVICE,
        method="POST",
        path=f"/v1/accounts/{{id}}/{verb}",
        record=record,
        payload=payload,
        summary=summary,
        result="CommittedAccount",
        refusals=refusals,
        id_name="merchant_id",
        id_form=MERCHANT_NAME,
        path_field="merchant_id",
        aggregate=_account_of_merchant,
        senders=(sender,),
    )


ACCOUNT_OPERATIONS: Final = (
    _payout(
        "create_payout",
        "/v1/payouts",
        "CreatePayout",
        payloads.CREATE_PAYOUT,
        "Pay out what is available",
        "account_frozen",
        "insufficient_funds",
        "destination_not_usable",
    ),
    _payout(
        "cancel_payout",
        "/v1/payouts/{id}/cancel",
        "CancelPayout",
        payloads.CANCEL_PAYOUT,
        "Cancel a payout that is pending",
        "state_conflict",
    ),
    Operation(
        name="create_payout_destination",
        service=_SERVICE,
        method="POST",
        path="/v1/payout_destinations",
        record="CreatePayoutDestination",
        payload=payloads.CREATE_DESTINATION,
        summary="Register a bank account to be paid at, from its usable_at on",
        result="CommittedPayoutDestination",
        scope=DESTINATIONS,
        outside=senders.MERCHANT,
        refusals=("account_frozen", "too_many_destinations", "maintenance"),
        creates="bd",
        aggregate=_own_account,
        together=bank_account.faults,
    ),
    Operation(
        name="disable_payout_destination",
        service=_SERVICE,
        method="POST",
        path="/v1/payout_destinations/{id}/disable",
        record="DisablePayoutDestination",
        payload=payloads.DISABLE_DESTINATION,
        summary="Pay nothing there any more, for good",
        result="CommittedPayoutDestination",
        scope=DESTINATIONS,
        outside=senders.MERCHANT,
        refusals=("state_conflict", "maintenance"),
        id_name="destination_id",
        path_field="destination",
        aggregate=_account_of_part,
    ),
    Operation(
        name="record_payout_outcome",
        service=_SERVICE,
        method="FACT",
        path="/payouts/{id}/outcome",
        record="RecordPayoutOutcome",
        payload=payloads.PAYOUT_OUTCOME,
        summary="What the bank did with a payout",
        result="CommittedPayout",
        refusals=("amount_mismatch", "stale_fact"),
        path_field="payout",
        aggregate=_account_of_part,
        senders=(senders.REPAIRS, senders.RECONCILE),
    ),
    _of_account(
        "hold_reserve",
        "hold_reserve",
        "HoldReserve",
        payloads.RESERVE,
        senders.REPAIRS,
        "Set money aside",
        "insufficient_funds",
    ),
    _of_account(
        "release_reserve",
        "release_reserve",
        "ReleaseReserve",
        payloads.RESERVE,
        senders.REPAIRS,
        "Give it back",
        "insufficient_funds",
    ),
    _of_account(
        "convert_currency",
        "convert_currency",
        "ConvertCurrency",
        payloads.CONVERSION,
        senders.REPAIRS,
        "Exchange at a stated rate within the band of the published reference rate",
        "insufficient_funds",
        "no_reference_rate",
        "rate_outside_band",
    ),
    _of_account(
        "allow_payout_destination",
        "allow_payout_destination",
        "AllowPayoutDestination",
        payloads.ALLOW_DESTINATION,
        senders.REPAIRS,
        "End the cooling-off time of a destination",
        "state_conflict",
    ),
    _of_account(
        "freeze_account",
        "freeze",
        "FreezeAccount",
        payloads.FREEZE,
        senders.OPERATORS,
        "Nothing new is begun",
        "state_conflict",
    ),
    _of_account(
        "unfreeze_account",
        "unfreeze",
        "UnfreezeAccount",
        payloads.FREEZE,
        senders.OPERATORS,
        "Work goes on",
        "state_conflict",
    ),
)
