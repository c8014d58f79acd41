"""What a record says is what its table gives back, field by field, and lists are served by their index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from msgspec import structs

from dataflows.payments import statements
from dataflows.payments.domain.stored import payments_of
from ingress.http.store import _read_queries
from schemas.records import PaymentIntent
from sinks.postgres import arrays
from sinks.postgres.owner_connection import connect
from tests.contracts import golden

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.servers
BODY: dict[str, Any] = golden.RECORDS["PaymentSystemCommitted"]["body"]
INTENT = PaymentIntent(**BODY["payment_intent"])


def others(count: int) -> list[PaymentIntent]:
    return [structs.replace(INTENT, id=f"pi_{n}", reference=None if n % 2 else f"order {n}") for n in range(count)]


def test_every_field_of_an_intent_comes_back_and_a_reference_is_looked_up(
    new_database: Callable[..., tuple[str, str]],
) -> None:
    dsn, superuser = new_database()
    with connect(dsn, "records") as connection:
        for statement in (
            statements.intents_insert([INTENT, *others(3_000)], 7),
            statements.intents_amend([INTENT]),  # what no insert writes
        ):
            connection.execute(*statement)
        rows = connection.execute(statements.SQL["intents_read"], (arrays.text_array([INTENT.id]),)).fetchall()
        assert payments_of(rows, [])[INTENT.id].intent == INTENT
        changed = structs.replace(INTENT, state="canceled", version=4, next_action=None, authorized_until=None)
        connection.execute(*statements.intents_update([changed], [INTENT.version]))
        agreed = structs.replace(changed, amount=5, metadata={}, reference="another")
        connection.execute(*statements.intents_amend([agreed]))
        rows = connection.execute(statements.SQL["intents_read"], (arrays.text_array([INTENT.id]),)).fetchall()
        assert payments_of(rows, [])[INTENT.id].intent == agreed
    _is_looked_up(superuser)


def _is_looked_up(dsn: str) -> None:
    query = _read_queries("ingress")["intents_of_merchant.reference"]
    asked = {
        "merchant": INTENT.merchant_id,
        "reference": "another",
        "created_from": 0,
        "created_at": 2**53,
        "id": "~",
        "limit": 3,
    }
    with psycopg.connect(dsn, prepare_threshold=None) as connection:
        assert [row[0] for row in connection.execute(query, asked).fetchall()] == [INTENT.id]
        connection.execute("set enable_seqscan = off")
        plan = "\n".join(row[0] for row in connection.execute("explain " + query, asked).fetchall())
    assert "payment_intent_of_reference" in plan, plan
