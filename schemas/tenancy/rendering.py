"""How tenants look, in answers of commands and in reads alike."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from schemas.tenancy import pricing
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
        "prices": {name: pricing.shown(price) for name, price in tenant["prices"].items()},
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


def migration_document(migration: Mapping[str, Any]) -> dict[str, Any]:
    """A move, of the columns of its row; what is not known yet is zero."""
    return {
        "migration_id": migration["migration_id"],
        "tenant_id": migration["tenant_id"],
        "state": migration["state"],
        "source": migration["source"],
        "target": migration["target"],
        "from_generation": migration["from_generation"],
        "to_generation": migration["to_generation"],
        "rows_per_second": migration["rows_per_second"],
        "rows_copied": migration.get("rows_copied", 0),
        "rows_verified": migration.get("rows_verified", 0),
        "mismatches": migration.get("mismatches", 0),
        "dual_reads": {
            name: migration.get(f"dual_{name}", 0)
            for name in ("match", "target_behind", "missing", "diff", "target_ahead")
        },
        "reason": migration.get("reason"),
        "version": migration["version"],
        "created_at": moment(migration["created_at"]),
        "updated_at": moment(migration["updated_at"]),
    }


def move_document(migration: Mapping[str, Any]) -> dict[str, Any]:
    """A move as it is read while it goes on: also whether its tenant's writes wait, and what there is to copy.

    ``served_reads``: those of ``dual_reads`` that callers asked for; the others are the mover's own comparisons.
    """
    further = ("fenced", "source_digest", "target_digest", "resources", "served_reads")
    return migration_document(migration) | {name: migration[name] for name in further}


def history_document(row: Mapping[str, Any]) -> dict[str, Any]:
    """What was changed of a tenant in one of its versions, of the columns of its row."""
    return {
        "version": row["version"],
        "at": moment(row["at"]),
        "by": row["made_by"],
        "person": row["person"],
        "operation": row["operation"],
        "request_id": row["request_id"],
        "changed": {name: {"from": was, "to": is_} for name, (was, is_) in sorted(row["changed"].items())},
    }


def export_document(export: Mapping[str, Any]) -> dict[str, Any]:
    """An export, of the columns of its row."""
    names = ("export_id", "tenant_id", "state", "resources", "sha256")
    return {name: export[name] for name in names} | {"created_at": moment(export["created_at"])}
