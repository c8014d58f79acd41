"""The operations of the rate limiter: publishing quota policies, and what gateways ask of durable quotas."""

from __future__ import annotations

from typing import Final

from schemas import identity, senders
from schemas.fields import validation
from schemas.limiter import limit_policy_fields, limit_policy_rules, quota_fields
from schemas.operation import Named, Operation

_SERVICE: Final = "limiter"
_POLICY: Final = "pl"
_PUBLISH: Final = "POST /v1/policies"


def _named_policy(named: Named) -> str:
    """The policy that the payload names; absent, one is made."""
    policy_id = named.payload.get("policy_id")
    if isinstance(policy_id, str):
        return policy_id
    return identity.derived_id(_POLICY, named.scope, _PUBLISH, named.idempotency_key)


def _quota(name: str, record: str, payload: validation.Fields, summary: str) -> Operation:
    """On the durable quotas of a tenant: what a gateway of the rate limiter decides with; no client may call it."""
    return Operation(
        name=name,
        service=_SERVICE,
        method="CHECK",
        path=f"/quotas/{{id}}/{name}",
        record=record,
        payload=payload,
        senders=(senders.GATEWAY,),
        summary=summary,
    )


_ALL: Final = (
    Operation(
        name="publish_policy",
        service=_SERVICE,
        method="POST",
        path="/v1/policies",
        record="PublishPolicy",
        payload=limit_policy_fields.PUBLISH_POLICY,
        summary="Publish a quota policy, or the next version of one",
        result="CommittedQuotaPolicy",
        scope="limits:write",
        refusals=("not_found", "state_conflict"),
        creates=_POLICY,
        aggregate=_named_policy,
        together=limit_policy_rules.wrong_terms,
        audited=True,
        senders=(senders.PUBLISHER,),
    ),
    Operation(
        name="withdraw_policy",
        service=_SERVICE,
        method="POST",
        path="/v1/policies/{id}/withdraw",
        id_name="policy_id",
        record="WithdrawPolicy",
        payload={},
        summary="Take a quota policy out of force, for good",
        result="CommittedQuotaPolicy",
        scope="limits:write",
        refusals=("state_conflict", "forbidden"),
        audited=True,
        senders=(senders.PUBLISHER,),
    ),
    _quota(
        "consume_quota",
        "ConsumeQuota",
        quota_fields.CONSUME_QUOTA,
        "a gateway asks whether a request fits the durable quotas of a tenant",
    ),
    _quota(
        "refund_quota",
        "RefundQuota",
        quota_fields.REFUND_QUOTA,
        "what a request consumed of the durable quotas of a tenant is given back, once",
    ),
)
OPERATIONS: Final[dict[str, Operation]] = {operation.name: operation for operation in _ALL}
