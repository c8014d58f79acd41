"""The console's boards of tenants say what the API says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ingress.tenancy.console.tenant_boards import gates, refusing, room_of, status_of
from ingress.tenancy.placement_routes import placement
from schemas.tenancy import limits

NOW = datetime(2026, 11, 23, tzinfo=UTC)
FRESH = [{"as_of": NOW, "probes": 1}]
OLD = [{"as_of": NOW - timedelta(seconds=limits.ISOLATION_STALE_S + 1), "probes": 1}]
CLEAN, GAP = [{"gaps": 0}], [{"gaps": 1}]
OPEN, SEEN = [{"resolved_at": None}], [{"resolved_at": NOW}]


@pytest.mark.parametrize(
    ("rounds", "lints", "rows", "status"),
    [
        (FRESH, CLEAN, [], "ok"),
        (FRESH, CLEAN, SEEN, "ok"),
        (FRESH, CLEAN, OPEN, "violated"),
        (FRESH, GAP, [], "violated"),
        (OLD, CLEAN, [], "stale"),
        ([], [], [], "stale"),
        (OLD, CLEAN, OPEN, "violated"),
    ],
)
def test_isolation_is_ok_only_when_all_was_looked_at_lately(
    rounds: list[dict[str, object]], lints: list[dict[str, object]], rows: list[dict[str, object]], status: str
) -> None:
    assert status_of(rounds, lints, rows, NOW) == status


def test_one_gate_of_a_move_is_open_and_those_before_are_done() -> None:
    shown = gates("verifying")
    assert [name for name, how in shown if how == "open"] == ["verifying"]
    assert [how for _, how in shown] == ["done"] * 4 + ["open"] + ["to come"] * 3
    assert gates("rolling_back") == gates("aborted") == []


def a_store(mode: str, tenants: int, **other: object) -> dict[str, object]:
    """One without a bound of its own."""
    none = dict.fromkeys(("tenants_max", "bytes_max", "bytes"))
    return {"store": mode, "mode": mode, "is_made": True, "tenants": tenants, "standing": "open"} | none | other


def test_a_store_has_room_on_the_board_where_a_tenant_would_be_taken() -> None:
    pooled, schemas = limits.STORE_TENANTS_MAX["pooled"], limits.STORE_TENANTS_MAX["partitioned"]
    rows = [
        a_store("pooled", pooled),
        a_store("pooled", 0, is_made=False),
        a_store("partitioned", schemas - 1),
        a_store("dedicated", 1, tenants_max=9, bytes_max=100, bytes=100),
        a_store("pooled", 3, standing="draining"),
        a_store("pooled", 0, standing="retired"),
    ]
    assert [(found["places"], found["state"]) for found in map(room_of, rows)] == [
        (pooled, "full"),
        (pooled, "being made"),
        (schemas, "has room"),
        (9, "full"),
        (pooled, "draining"),
        (pooled, "retired"),
    ]
    assert refusing(rows) == ["dedicated", "pooled"]
    assert refusing([*rows, a_store("pooled", 0)]) == ["dedicated"]
    names = ("store", "mode", "is_made", "tenants_max", "bytes_max", "tenants", "bytes", "standing")
    told = [placement(*(row[name] for name in names), 1, 0, 0) for row in rows]  # type: ignore[arg-type] # in this order
    assert [(one["tenants_max"], one["state"]) for one in told] == [
        (pooled, "full"),
        (pooled, "provisioning"),
        (schemas, "active"),
        (9, "full"),
        (pooled, "draining"),
        (pooled, "retired"),
    ]
