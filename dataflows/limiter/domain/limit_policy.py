"""Publishing a quota policy: versions 1, 2, 3 ... of one id, each decided by the one before; the last withdraws it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from msgspec import Struct, structs

from schemas.limiter.limit_key import normal_name
from schemas.limiter.limit_policy import (
    ANY,
    LimitPolicy,
    as_policy,
    further_limits_of,
    guard_of,
    place_of,
    spans_tenants,
)
from schemas.limiter.limit_terms import terms
from schemas.records import Command, Rejection
from schemas.refusals import version_conflict

_NOT_FOUND: Final = Rejection("not_found", "No such object.", {})
_EXPECTS_NOTHING: Final = Rejection(
    "invalid_command",
    "Two who publish at once would overwrite each other. Say which version this one follows.",
    {"errors": [{"field": "expected_version", "reason": "is required with policy_id"}]},
)
_COUNTED_ELSEWHERE: Final = Rejection(
    "invalid_command",
    "What was used would be forgotten: durable quotas are counted elsewhere. Publish another policy beside this one.",
    {"errors": [{"field": "payload.consistency", "reason": "cannot change to durable or from it"}]},
)


_NO_TERMS: Final = Rejection(
    "invalid_command",
    "Nobody can count by this policy: its fields do not go together, or leave exact arithmetic.",
    {"errors": [{"field": "payload", "reason": "gives no terms that are exact"}]},
)
_ANOTHERS_TENANT: Final = Rejection(
    "forbidden",
    "A tenant's token may rule over that tenant alone.",
    {"errors": [{"field": "payload.scope.tenant", "reason": "must be the tenant that the token names"}]},
)
_WITHDRAWN: Final = "This policy was withdrawn, for good. Publish another one."
_TAKEN: Final = (
    "Another policy has this scope and counts by the same parts: one of the two would decide nothing. Publish the next"
    " version of that one, with `further_limits` for several limits of the same keys."
)
_ONE_SHARD_ONLY: Final = (
    "One counter of this policy would be of tenants on several shards. Name `tenant` in `per`, or one tenant in the"
    " scope."
)


class OwnedPolicy(Struct, frozen=True, kw_only=True):
    """The aggregate: the version that is in force, and who may publish the next one."""

    publisher: str
    policy: LimitPolicy
    created_at: int
    updated_at: int


class Placed(NamedTuple):
    """Who has a place: what only one policy may have."""

    policy_id: str
    publisher: str


def decide_publish(
    current: OwnedPolicy | None,
    command: Command,
    now: int,
    shards: int = 1,
    placed: Mapping[str, Placed] = MappingProxyType({}),
) -> OwnedPolicy | Rejection:
    """The next version. Another publisher's policy does not exist for the caller.

    ``shards``: over how many counters are spread; it only ever grows, so that a refusal for it is for good. ``placed``:
    who has the place that the version is for.
    """
    decided = _following(current, command, now)
    if isinstance(decided, Rejection):
        return decided
    if not _may_rule(command.scope, decided.policy.scope.tenant):
        return _ANOTHERS_TENANT
    if not has_terms(decided.policy):
        return _NO_TERMS
    if shards > 1 and spans_tenants(decided.policy):
        return Rejection("state_conflict", _ONE_SHARD_ONLY, {"current_state": "sharded", "shards": shards})
    held = placed.get(place_of(decided.policy))
    if held is not None and held.policy_id != decided.policy.policy_id:
        return _taken(held, command.scope)
    return decided


def _taken(held: Placed, publisher: str) -> Rejection:
    """Another publisher's policy is not named: for the caller it does not exist."""
    by = {"policy_id": held.policy_id} if held.publisher == publisher else {}
    return Rejection("state_conflict", _TAKEN, {"current_state": "taken", **by})


def decide_withdraw(current: OwnedPolicy | None, command: Command, now: int) -> OwnedPolicy | Rejection:
    """The last version: what it said, and that nobody decides by it any more. Another publisher's does not exist."""
    if current is None or current.publisher != command.scope:
        return _NOT_FOUND
    version = current.policy.version
    if command.expected_version not in (None, version):
        return _expects_another(command.expected_version, version)
    if current.policy.withdrawn:
        return _withdrawn(version)
    if not _may_rule(command.scope, current.policy.scope.tenant):
        return _ANOTHERS_TENANT
    last = structs.replace(current.policy, version=version + 1, withdrawn=True)
    return structs.replace(current, policy=last, updated_at=now)


def _withdrawn(version: int) -> Rejection:
    return Rejection("state_conflict", _WITHDRAWN, {"current_state": "withdrawn", "current_version": version})


def _may_rule(publisher: str, tenant: str) -> bool:
    """Whether a publisher's policies may be for a tenant: a tenant's its own, those of whoever is of no kind all."""
    kind, is_of_a_kind, name = publisher.partition(":")
    return not is_of_a_kind or (kind == "tenant" and normal_name(name) == tenant)


def has_terms(policy: LimitPolicy) -> bool:
    """Whether gateways can count by it: a command that came without our API may say anything."""
    beside = (guard_of(policy), *further_limits_of(policy))
    return all(terms(limit) is not None for limit in (policy, *beside) if limit is not None)


def may_count_over_tenants(payload: dict[str, Any]) -> bool:
    """Whether a publication may be one that several shards cannot count: then their number has to be known."""
    return "tenant" not in payload["per"] and payload["scope"]["tenant"] == ANY


def _following(current: OwnedPolicy | None, command: Command, now: int) -> OwnedPolicy | Rejection:
    payload: dict[str, Any] = command.payload
    named: str | None = payload["policy_id"]
    if current is None:
        return _first(command, payload, now) if named is None else _NOT_FOUND
    version = current.policy.version
    if current.publisher != command.scope:
        return _NOT_FOUND
    if named is None:
        return Rejection("state_conflict", "This policy exists.", {"current_version": version})
    if command.expected_version != version:
        return _expects_another(command.expected_version, version)
    return _next(current, command, now)


def _next(current: OwnedPolicy, command: Command, now: int) -> OwnedPolicy | Rejection:
    payload, version = command.payload, current.policy.version
    if current.policy.withdrawn:
        return _withdrawn(version)
    following = as_policy(payload, command.aggregate_key, version + 1)
    if (following.consistency == "durable") != (current.policy.consistency == "durable"):
        return _COUNTED_ELSEWHERE
    return OwnedPolicy(publisher=current.publisher, policy=following, created_at=current.created_at, updated_at=now)


def _expects_another(expected: int | None, version: int) -> Rejection:
    return _EXPECTS_NOTHING if expected is None else version_conflict(expected, version)


def _first(command: Command, payload: dict[str, Any], now: int) -> OwnedPolicy | Rejection:
    if command.expected_version not in (None, 0):
        return Rejection("version_conflict", "The object does not exist yet.", {"current_version": 0})
    first = as_policy(payload, command.aggregate_key, 1)
    return OwnedPolicy(publisher=command.scope, policy=first, created_at=now, updated_at=now)
