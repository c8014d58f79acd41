"""Support access: asked for with a reason, approved by another person, for a time; of some tenants, with their consent.

In an emergency (break the glass) two others approve, and the tenant is told at once but not asked.
The consent may narrow a grant: fields and time in force are never more than what was asked for.

A person is the subject of a token. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec import Struct, structs

from schemas.records import Command, Rejection
from schemas.refusals import stale, state_conflict, wrong_value
from schemas.tenancy import limits
from schemas.tenancy.desk_operations import WRITES
from schemas.tenancy.instants import instant, parsed

State = Literal["requested", "approved", "active", "denied", "revoked", "expired", "reviewed"]
#: states in which a grant may still change
OPEN: Final[tuple[State, ...]] = ("requested", "approved", "active")
_OVER: Final[tuple[State, ...]] = ("denied", "revoked", "expired")
_SECOND_US: Final = 1_000_000
_CONSENTING: Final = "enterprise"
_COLUMNS: Final = (
    *("grant_id", "tenant_id", "requester", "reason", "ticket", "scopes", "duration_s", "state", "needs_consent"),
    *("approvers", "consented_by", "ended_by", "created_at", "expires_at", "version"),
    *("break_glass", "reviewed_by", "reviewed_at", "findings", "masked_fields"),
    *("not_before", "asked_duration_s", "asked_masked_fields"),
)


class SupportGrant(Struct, frozen=True, kw_only=True):
    """One grant. Its time begins when no approval or consent is missing, and not before ``not_before``.

    ``duration_s`` and ``masked_fields`` are in force; what was asked for is kept apart once a consent narrowed it.
    """

    grant_id: str
    tenant_id: str
    requester: str
    reason: str
    ticket: str
    scopes: tuple[str, ...]
    masked_fields: tuple[str, ...] = ()
    duration_s: int
    state: State
    needs_consent: bool
    break_glass: bool = False
    approvers: tuple[str, ...] = ()
    consented_by: str | None = None
    ended_by: str | None = None
    created_at: int
    expires_at: int | None = None
    reviewed_by: str | None = None
    reviewed_at: int | None = None
    findings: str | None = None
    not_before: int | None = None
    asked_duration_s: int | None = None
    asked_masked_fields: tuple[str, ...] | None = None
    version: int = 1

    @property
    def approvals_needed(self) -> int:
        """How many other persons must approve."""
        return limits.BREAK_GLASS_APPROVERS if self.break_glass else 1

    def state_at(self, now: int) -> State:
        """The state now, also if its time is over or has not begun."""
        if self.state != "active":
            return self.state
        if self.expires_at is not None and now >= self.expires_at:
            return "expired"
        return "approved" if self.not_before is not None and now < self.not_before else "active"


def of_row(row: tuple[Any, ...]) -> SupportGrant:
    """A stored grant, from its columns in the order that every query of grants uses."""
    named = dict(zip(_COLUMNS, row, strict=True))
    said = ("scopes", "masked_fields", "asked_masked_fields")
    words = {name: tuple(named[name].split()) for name in said if named[name] is not None}
    return SupportGrant(**named | words | {"approvers": tuple(named["approvers"])})


def requested(grant_id: str, tenant_id: str, tier: str, command: Command, now: int) -> SupportGrant | Rejection:
    """A new grant, or a refusal."""
    said: dict[str, Any] = command.payload
    break_glass, not_before = bool(said["break_glass"]), parsed(said["not_before"])
    if not_before is not None and not_before > now + limits.SUPPORT_GRANT_AHEAD_MAX_S * _SECOND_US:
        days = limits.SUPPORT_GRANT_AHEAD_MAX_S // 86_400
        return wrong_value("payload.not_before", f"must be within the next {days} days")
    return SupportGrant(
        grant_id=grant_id,
        tenant_id=tenant_id,
        requester=said["person"],
        reason=said["reason"],
        ticket=said["ticket"],
        scopes=tuple(said["scopes"]),
        masked_fields=tuple(said["masked_fields"] or ()),
        duration_s=said["duration_s"],
        state="requested",
        needs_consent=_needs_consent(tier, break_glass),
        break_glass=break_glass,
        not_before=not_before,
        created_at=now,
    )


def decide(
    grant: SupportGrant | None, tenant_id: str, tier: str, command: Command, now: int
) -> SupportGrant | Rejection:
    """The grant afterwards, or a refusal. Another tenant's grant does not exist. ``tier``: as it is now."""
    if grant is None or grant.tenant_id != tenant_id:
        return Rejection("not_found", "There is no such support grant.", {})
    if refused := stale(command.expected_version, grant.version):
        return refused
    person, state = str(command.payload["person"]), grant.state_at(now)
    changed = structs.replace(grant, version=grant.version + 1)
    if command.operation == "approve_support_grant":
        return _approved(changed, state, tier, person, now)
    if command.operation == "consent_support_grant":
        return _consented(changed, state, command.payload, now)
    if command.operation == "review_support_grant":
        return _reviewed(changed, state, person, str(command.payload["findings"]), now)
    return _ended(changed, state, "denied" if command.operation == "deny_support_grant" else "revoked", person)


def _needs_consent(tier: str, break_glass: bool) -> bool:
    return tier == _CONSENTING and not break_glass


def _approved(grant: SupportGrant, state: State, tier: str, person: str, now: int) -> SupportGrant | Rejection:
    """Approves. A tenant that has come to a tier with consent is asked; a tenant that was to be asked still is."""
    if person == grant.requester:
        return Rejection("four_eyes_required", "Another person than the requester has to approve it.", {})
    if state != "requested":
        return _conflict(state)
    if person in grant.approvers:
        return Rejection("four_eyes_required", "One more person has to approve it.", {})
    needs_consent = grant.needs_consent or _needs_consent(tier, grant.break_glass)
    approved = structs.replace(grant, approvers=(*grant.approvers, person), needs_consent=needs_consent)
    if len(approved.approvers) < grant.approvals_needed:
        return approved
    return _begun(structs.replace(approved, state="approved"), now)


def asked_anew(grant: SupportGrant, tenant_id: str, tier: str, now: int) -> SupportGrant | None:
    """The grant after a change of the tier: one that has not begun waits for consent. None: it does not change."""
    if grant.tenant_id != tenant_id or not _needs_consent(tier, grant.break_glass) or grant.consented_by is not None:
        return None
    if grant.state != "active" or grant.state_at(now) != "approved":
        return None
    waits = {"state": "approved", "needs_consent": True, "expires_at": None}
    return structs.replace(grant, version=grant.version + 1, **waits)


def _consented(grant: SupportGrant, state: State, said: dict[str, Any], now: int) -> SupportGrant | Rejection:
    if state not in ("requested", "approved") or grant.consented_by is not None:
        return _conflict(state)
    if said["person"] == grant.requester:
        return Rejection("four_eyes_required", "Another person than the requester has to consent to it.", {})
    narrowed = _narrowed(grant, said["duration_s"], said["masked_fields"] or ())
    if isinstance(narrowed, Rejection):
        return narrowed
    return _begun(structs.replace(narrowed, consented_by=str(said["person"])), now)


def _narrowed(grant: SupportGrant, duration_s: int | None, masks: Sequence[str]) -> SupportGrant | Rejection:
    """The grant with at most the time and fields that were asked for. Masks are only added, never removed."""
    if duration_s is not None and duration_s > grant.duration_s:
        return wrong_value("payload.duration_s", f"must be at most {grant.duration_s}: no more than was asked for")
    both = tuple(dict.fromkeys((*grant.masked_fields, *masks)))
    if masks and WRITES in grant.scopes:
        return wrong_value("payload.masked_fields", f"must not be said with {WRITES}: it would write unseen")
    if len(both) > limits.MASKS_MAX:
        reason = f"must be at most {limits.MASKS_MAX}, with those that were asked for"
        return wrong_value("payload.masked_fields", reason)
    shorter = grant.duration_s if duration_s is None else duration_s
    if (shorter, both) == (grant.duration_s, grant.masked_fields):
        return grant
    asked = {"asked_duration_s": grant.duration_s, "asked_masked_fields": grant.masked_fields}
    return structs.replace(grant, duration_s=shorter, masked_fields=both, **asked)


def _ended(grant: SupportGrant, state: State, ends: State, person: str) -> SupportGrant | Rejection:
    """Denies or revokes. An active grant cannot be denied, only revoked."""
    if state not in OPEN or (ends == "denied" and state == "active"):
        return _conflict(state)
    return structs.replace(grant, state=ends, ended_by=person)


def _reviewed(grant: SupportGrant, state: State, person: str, findings: str, now: int) -> SupportGrant | Rejection:
    """Records a review, not by who asked, nor by who approved if the glass was broken."""
    if person == grant.requester or (grant.break_glass and person in grant.approvers):
        return Rejection("four_eyes_required", "Another person has to review it.", {})
    if state not in _OVER:
        return _conflict(state)
    return structs.replace(grant, state="reviewed", reviewed_by=person, reviewed_at=now, findings=findings)


def _begun(grant: SupportGrant, now: int) -> SupportGrant:
    """Active once nothing is missing; its time runs from then, or from ``not_before`` if that is later."""
    if grant.state == "requested" or (grant.needs_consent and grant.consented_by is None):
        return grant
    begins = max(now, grant.not_before or now)
    return structs.replace(grant, state="active", expires_at=begins + grant.duration_s * _SECOND_US)


def _conflict(state: State) -> Rejection:
    return state_conflict(state, f"The support grant is {state}.")


def rendered(grant: SupportGrant, now: int) -> dict[str, Any]:
    """The grant as callers see it."""
    return {
        "object": "support_grant",
        "grant_id": grant.grant_id,
        "tenant_id": grant.tenant_id,
        "requester": grant.requester,
        "approvers": list(grant.approvers),
        "consented_by": grant.consented_by,
        "needs_consent": grant.needs_consent,
        "break_glass": grant.break_glass,
        "ended_by": grant.ended_by,
        "reason": grant.reason,
        "ticket": grant.ticket,
        "scopes": list(grant.scopes),
        "masked_fields": list(grant.masked_fields),
        "duration_s": grant.duration_s,
        "asked": None
        if grant.asked_duration_s is None
        else {"duration_s": grant.asked_duration_s, "masked_fields": list(grant.asked_masked_fields or ())},
        "state": grant.state_at(now),
        "not_before": None if grant.not_before is None else instant(grant.not_before),
        "expires_at": None if grant.expires_at is None else instant(grant.expires_at),
        "reviewed_by": grant.reviewed_by,
        "reviewed_at": None if grant.reviewed_at is None else instant(grant.reviewed_at),
        "findings": grant.findings,
        "created_at": instant(grant.created_at),
        "version": grant.version,
    }
