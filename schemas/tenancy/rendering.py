"""How tenants look, in answers of commands and in reads alike."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from schemas.tenancy.value_types import limits_of

_SECOND_US: Final = 1_000_000


def moment(time_us: int) -> str:
    """RFC 3339 in UTC, to the microsecond."""
    seconds, rest = divmod(time_us, _SECOND_US)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"


def tenant_document(tenant: Mapping[str, Any]) -> dict[str, Any]:
    """A tenant, of the columns of its row and of its placement's."""
    return {
        "tenant_id": tenant["tenant_id"],
        "name": tenant["name"],
        "tier": tenant["tier"],
        "state": tenant["state"],
        "suspension": tenant["suspension"],
        "reason": tenant["reason"],
        "timezone": tenant["timezone"],
        "home_currency": tenant["home_currency"],
        "quotas": limits_of(tenant["quotas"]),
        "prices": dict(tenant["prices"]),
        "placement_id": tenant["placement_id"],
        "placement": {
            "placement_id": tenant["placement_id"],
            "region": tenant["region"],
            "mode": tenant["mode"],
            "shard_or_database": tenant["shard_or_database"],
            "generation": tenant["generation"],
        },
        "key_ref": tenant["key_ref"],
        "policy_version": tenant["policy_version"],
        "version": tenant["version"],
        "certificate_id": tenant["certificate_id"],
        "created_at": moment(tenant["created_at"]),
        "updated_at": moment(tenant["updated_at"]),
    }
