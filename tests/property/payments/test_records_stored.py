"""What a record says is what its table gives back, field by field, and lists are served by their index."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from msgspec import structs

from dataflows.payments import statements
from dataflows.payments.domain.stored import payments_of
from ingress.commands.arrivals import Arrivals
from ingress.http.cursors import Cursors
from ingress.http.store import _SETTINGS, Store, _read_queries
from ingress.payments.filters import Filters, Span
from ingress.payments.resources import INTENTS, Resources
from schemas.payments import limits
from schemas.payments.records import PaymentIntent
from sinks.kafka.connection import KafkaConnection
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


def test_every_field_of_an_intent_comes_back_and_lists_look_up_what_they_filter_by(
    new_database: Callable[..., tuple[str, str]], monkeypatch: pytest.MonkeyPatch
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
    monkeypatch.setattr(limits, "LIST_PASSED_MAX", 1_000)
    asyncio.run(_is_found_over_bounded_pages(superuser))


def _is_looked_up(dsn: str) -> None:
    """Each list of payments by its own index, in its order: only entries of one moment are sorted, and no more is read
    than a page needs."""
    entered = {"bestellung": INTENT.metadata["bestellung"]}
    with psycopg.connect(dsn, prepare_threshold=None, options=_SETTINGS, autocommit=True) as connection:
        connection.execute("analyze payment_intent")
        connection.execute("analyze metadata_place")
        for filters, index, found in (
            (Filters(leading={"reference": "another"}), "payment_intent_of_reference", [INTENT.id]),
            (Filters(metadata=entered), "metadata_place_in_order", ["pi_999", "pi_998", "pi_997"]),
            (Filters(state="canceled", amount=Span(5, 6)), "payment_intent_of_merchant", [INTENT.id]),
            (Filters(state="canceled", metadata=entered), "metadata_place_in_order", []),  # its metadata was taken away
        ):
            query = _read_queries(("ingress",))[filters.variant("intents_of_merchant", None, "intents_of_metadata")]
            place = {"merchant": INTENT.merchant_id, "before_at": 2**53, "before_id": "~"}
            asked = filters.parameters() | place | {"limit": 3, "passed_max": 2_000}
            rows = connection.execute(query, asked).fetchall()
            assert [row[0] for row in rows if row[-2]] == found, index
            plan = "\n".join(row[0] for row in connection.execute("explain " + query, asked).fetchall())
            assert index in plan, plan
            assert not re.search(r"(?<!Incremental )Sort  \(", plan), plan


async def _is_found_over_bounded_pages(dsn: str) -> None:
    """What is rare among many comes too, after pages that are empty and say that there is more."""
    store = Store(dsn)
    arrivals = Arrivals(KafkaConnection(bootstrap="localhost:1"), "test", {})  # nobody listens
    await store.open()
    try:
        intents = Resources(store, Cursors(b"secret"), arrivals, INTENTS)
        cursor, pages = None, []
        while not pages or cursor:
            page = await intents.page(INTENT.merchant_id, 2, cursor, Filters(state="canceled"))
            cursor = page["next_cursor"]
            pages.append([one["id"] for one in page["data"]])
        assert (len(pages), [one for page in pages for one in page]) == (4, [INTENT.id])
    finally:
        await store.close()
