"""Whoever stands still within a transaction is ended by Postgres, or who takes over would wait for its locks for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from dataflows.payments.attempts import dispatch_store
from dataflows.payments.merchant_webhooks import store as delivery_store
from dataflows.payments.webhooks import inbox_store
from dataflows.social.fanout import worker as fan_out
from sinks import limits
from sinks.streams import positions

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers
SESSIONS = {
    "streams": positions.SESSION,
    "attempts": dispatch_store._SESSION,
    "merchant webhooks": delivery_store._SESSION,
    "webhooks": inbox_store._SESSION,
    "fan-out": fan_out._SESSION,
}


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_that_does_nothing_in_a_transaction_is_ended(stack: World, name: str) -> None:
    shown = "select setting::int from pg_settings where name = 'idle_in_transaction_session_timeout'"
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, options=SESSIONS[name]) as connection:
        row = connection.execute(shown).fetchone()
    assert row is not None
    assert 0 < row[0] <= limits.IDLE_IN_TRANSACTION_TIMEOUT_MS
