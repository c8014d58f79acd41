"""Operations that the run of schemathesis does not see succeed, and why not; other tests see each of them succeed."""

from __future__ import annotations

from typing import Final

from ingress import openapi

_OF_POLICIES: Final = tuple(
    operation["operationId"]
    for path, item in openapi.document()["paths"].items()
    for operation in item.values()
    if path.endswith(("/policies", "/policies/{version}"))
    and path != "/v1/policies"
    and operation["operationId"].startswith(("publish_", "get_"))
)
_OF_ATTEMPTS: Final = ("ask_processor", "propose_outcome", "get_outcome", "approve_outcome", "reject_outcome")
_PAST_ITS_STATE: Final = "the simulator, or a mover, is past that state before anybody can ask"
NOT_SEEN: Final[dict[str, str]] = {
    **dict.fromkeys(_OF_POLICIES, "what it publishes would govern everybody else's payments: nothing is"),
    **dict.fromkeys(_OF_ATTEMPTS, "it is about an attempt whose outcome nobody knows"),
    **dict.fromkeys(("cancel_refund", "abort_migration"), _PAST_ITS_STATE),
    **dict.fromkeys(("get_dispute", "submit_dispute_evidence"), "a processor tells of a dispute by a webhook"),
    **dict.fromkeys(("stream_events", "stream_home"), "it ends with its token: it is not asked (schemathesis.toml)"),
    **dict.fromkeys(("drain_placement", "activate_placement"), "of the example's name there is no schema"),
    "get_certificate": "the deletion of a tenant, which is certified, takes minutes",
    "get_policy_snapshot_by_digest": "the next policy that somebody publishes is in another snapshot",
    "get_usage": "no gateway has decided about a key of the tenant",
    "lift_isolation": "safe mode is not on",
    "receive_webhook": "it has to be signed with the processor's secret",
    "resend_webhook_delivery": "nothing can be delivered to the URL of an example",
    "review_payment_intent": "a risk policy sends payments to review, and none is published",
    "revoke_signing_key": "it has to be signed with the key of a merchant that has one",
}
