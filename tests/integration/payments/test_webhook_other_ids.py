"""Events of payments whose ids programs outside chose, which an earlier release took for nobody's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.migrated import database_before, upgrade

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers

MENDED_BY = "0327_events_of_other_ids.sql"
PLANT = """insert into provider_event (processor, provider_event_id, event_type, body, state, note, settled_at)
values ('simulator', %s, 'dispute.created', '', %s, %s, case when %s = 'stored' then null else now() end)"""
EVENTS = {
    "evt_nobody": ("case", "no object of ours"),
    "evt_other": ("case", "an attempt at simulator_b"),
    "evt_done": ("applied", "committed"),
    "evt_new": ("stored", None),
}


def test_they_are_looked_at_again_after_the_upgrade(stack: World) -> None:
    with database_before(stack.addresses.postgres_superuser_dsn, MENDED_BY) as connection:
        for name, (state, note) in EVENTS.items():
            connection.execute(PLANT, (name, state, note, state))
        upgrade(connection, MENDED_BY)
        rows = connection.execute(
            "select provider_event_id, state, settled_at is null, next_at > now() from provider_event"
        )
        found = {name: rest for name, *rest in rows}
        assert found["evt_nobody"] == ["parked", True, True], "when workers of this release are there"
        assert {name: found[name][0] for name in EVENTS if name != "evt_nobody"} == {
            "evt_other": "case",
            "evt_done": "applied",
            "evt_new": "stored",
        }
