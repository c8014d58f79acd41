"""A record is declared once: its table, its events, replay and analytics have every field of it, or this says which not."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import pytest
from msgspec import Struct

from reconciliation.payments.current_tables import (
    MerchantAccountCurrent,
    PaymentIntentCurrent,
    PayoutCurrent,
    PayoutDestinationCurrent,
)
from schemas import services
from schemas.avro import codec
from schemas.avro import declared as declared_schemas
from schemas.fields.column import declared
from schemas.payments import records
from sinks.clickhouse.services import SINKS
from sinks.postgres import column_lists

TABLES: dict[str, type[Struct]] = {
    "payment_intent": records.PaymentIntent,
    "processor_attempt": records.ProcessorAttempt,
    "refund": records.Refund,
    "dispute": records.Dispute,
    "merchant_account": records.MerchantAccount,
    "payout": records.Payout,
    "payout_destination": records.PayoutDestination,
}
ANALYTICAL = {
    "payment_intents": records.PaymentIntent,
    "processor_attempts": records.ProcessorAttempt,
    "refunds": records.Refund,
    "disputes": records.Dispute,
    "merchant_accounts": records.MerchantAccount,
    "payouts": records.Payout,
}
REPLAYED: tuple[tuple[Any, type[Struct]], ...] = (
    (PaymentIntentCurrent, records.PaymentIntent),
    (MerchantAccountCurrent, records.MerchantAccount),
    (PayoutCurrent, records.Payout),
    (PayoutDestinationCurrent, records.PayoutDestination),
)
EVENT_TYPES = [(s, t) for s in services.SERVICES for t in s.event_types if t.body is not None]


def migrated(package: str, folder: str, table: str) -> set[str]:
    """Every column that the definitions of a table ever name; a shadow has its own."""
    files = sorted((resources.files(package) / folder).iterdir(), key=lambda file: file.name)
    text = "\n".join(file.read_text() for file in files if file.name.endswith(".sql"))
    made = re.findall(rf"create table (?:if not exists )?{re.escape(table)} \((.*?)\n\)", text, re.DOTALL)
    grown = re.findall(rf"alter table {re.escape(table)}\b([^;]*);", text)
    columns = {word for body in made for word in re.findall(r"^    (\w+)\s", body, re.MULTILINE)}
    return columns - {"index"} | {
        word for body in grown for word in re.findall(r"add column (?:if not exists )?(\w+)", body)
    }


@pytest.mark.parametrize("table", TABLES)
def test_every_field_has_a_column(table: str) -> None:
    assert {field.name for field in declared(TABLES[table])} <= migrated("sinks.postgres", "migrations", table)


@pytest.mark.parametrize("table", ANALYTICAL)
def test_every_analytical_field_has_a_column_in_clickhouse(table: str) -> None:
    declared_tables = {one.name: one for sink in SINKS.values() for one in sink.tables}
    assert set(declared_tables[table].columns) == migrated("sinks.clickhouse.payments", "schema", table)


@pytest.mark.parametrize(("projection", "record"), REPLAYED, ids=lambda value: value.__name__)
def test_a_replay_compares_every_field(projection: Any, record: type[Struct]) -> None:
    """Also those that came after it was written: authorized_until and next_action once were compared by none."""
    assert {field.name for field in declared(record)} == set(projection.columns) - {"partition"}


def test_the_shadow_of_intents_has_every_column() -> None:
    """It was made like the table as that was then (migration 0004)."""
    shadow = migrated("sinks.postgres", "migrations", "millrace_replay.payment_intent")
    first = {"id", "version", "merchant_id", "amount", "currency", "state", "capture_method", "payment_method"}
    first |= {"processor", "amount_capturable", "amount_received", "amount_refunded", "amount_disputed"}
    first |= {"last_payment_error", "cancellation_reason", "latest_attempt", "metadata", "created_at", "updated_at"}
    assert {field.name for field in declared(records.PaymentIntent)} - first <= shadow


@pytest.mark.parametrize(("service", "event_type"), EVENT_TYPES, ids=lambda value: value.name)
def test_an_event_has_an_id_for_what_its_records_declare(service: Any, event_type: Any) -> None:
    """A field with a later ``since`` makes a version of the schema: it needs its row in ids.json."""
    newest = codec.schema_named(event_type.record).version
    body = event_type.body
    assert declared_schemas.newest_event_version(body) <= newest


@pytest.mark.parametrize("record", TABLES.values(), ids=lambda record: record.__name__)
def test_every_field_is_written_when_the_record_is_new_or_right_after(record: type[Struct]) -> None:
    for field in declared(record):
        assert any(field.is_written(statement) for statement in ("insert", "update", "amend")), field.name


def test_a_mark_becomes_the_columns_in_their_order() -> None:
    text = column_lists.expanded("select {{read Payout p}} from payout p")
    assert text.startswith("select p.id, p.account_id, ")
    assert "(extract(epoch from p.created_at) * 1000000)::bigint" in text
    shown = column_lists.expanded("select {{shown Dispute d}} from dispute d")
    assert shown.endswith(
        ", null, d.evidence_state, (extract(epoch from d.evidence_due_by) * 1000000)::bigint from dispute d"
    )  # no answer shows the evidence
    with pytest.raises(KeyError, match="0 services declare a record Nothing"):
        column_lists.expanded("{{read Nothing n}}")
