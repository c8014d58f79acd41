"""What an event becomes in ClickHouse: the declared columns, no personal data, and the same rows for ever."""

from __future__ import annotations

import re

from schemas import services
from schemas.avro import codec
from schemas.payments import rendering
from schemas.records import Event
from sinks.clickhouse import tables
from sinks.clickhouse.metering import Metered
from sinks.clickhouse.payments import rows
from sinks.clickhouse.payments.metering import metered
from sinks.clickhouse.payments.service import SINKS
from sinks.clickhouse.payments.tables import DISPUTES, PAYMENT_INTENTS, REFUNDS
from sinks.clickhouse.services import SINKS as ALL_SINKS
from sinks.clickhouse.social.service import SINKS as SOCIAL
from sinks.clickhouse.tables import TableRows
from tests.contracts import golden
from tests.worlds.committed_world import CommittedWorld

FILES = [file for sink in ALL_SINKS.values() for file in sink.definitions()]
WORLD = CommittedWorld(seed=11).payments_made(30)


def all_rows() -> TableRows:
    made = SINKS[0].no_rows()
    for commit in WORLD.commits:
        SINKS[0].add_event(made, commit.partition, codec.decode_event(commit.payload))
    return made


def test_every_row_has_the_columns_of_its_table() -> None:
    made = all_rows()
    assert made.keys() == {table.name for table in SINKS[0].tables}
    for table in SINKS[0].tables:
        assert made[table.name], table.name
        assert {len(row) for row in made[table.name]} == {len(table.columns)}
        assert len(set(table.columns)) == len(table.columns)


def test_no_payment_method_and_no_metadata_is_copied() -> None:
    """Rule: sensitive material is redacted before analytical storage (spec 1, section 5)."""
    values = {str(value) for made in all_rows().values() for row in made for value in row}
    assert not any(value.startswith("tok_") or "order" in value or "A-" in value for value in values)
    names = {column for table in SINKS[0].tables for column in table.columns}
    assert not names & {"payment_method", "metadata"}


def test_identities_tell_rows_apart() -> None:
    for table in SINKS[0].tables:
        places = [table.columns.index(column) for column in table.identity]
        keys = [tuple(row[i] for i in places) for row in all_rows()[table.name]]
        assert len(set(keys)) == len(keys), table.name


def test_ledger_lines_are_numbered_as_in_postgres() -> None:
    made = {(row[2], row[3]): (row[6], row[7], row[8]) for row in all_rows()["ledger_lines"]}
    expected = {
        (txn.txn_id, n): (e.account_id, e.debit, e.credit)
        for commit in WORLD.commits
        for txn in commit.txns
        for n, e in enumerate(txn.entries)
    }
    assert made == expected


def test_exponents_follow_the_currency() -> None:
    at = [PAYMENT_INTENTS.columns.index(name) for name in ("currency", "currency_exponent")]
    found = {row[at[0]]: row[at[1]] for row in all_rows()["payment_intents"]}
    assert found == {"USD": 2, "EUR": 2, "GBP": 2, "JPY": 0, "KWD": 3}


def test_statements_are_cut_at_semicolons_that_end_a_line() -> None:
    text = "-- a; comment;\ncreate table x (a String default ';');\n\ncreate view y as select 1;\n"
    assert tables.statements(text) == ["create table x (a String default ';')", "create view y as select 1"]


def test_every_definition_file_says_if_not_exists_or_replace() -> None:
    """Two processes apply the files at once."""
    replacing = set()
    for file, text in FILES:
        for statement in tables.statements(text):
            if (made := re.match(r"create table if not exists (\w+)", statement)) and "ReplacingMergeTree" in statement:
                replacing.add(made[1])
            rows = re.match(r"insert into (\w+) select \* replace |alter table (\w+) delete where ", statement)
            if rows is not None:  # rows that are there replace themselves
                assert (rows[1] or rows[2]) in replacing, (file, statement)
                continue
            again = ("create table if not exists", "create or replace view", "alter table")
            assert statement.startswith(again), (file, statement)
            assert "alter table" not in statement or " add column if not exists " in statement, (file, statement)


def test_every_table_remembers_tokens() -> None:
    """Trap: without a window an insert token has no effect at all."""
    created = [s for _, text in FILES for s in tables.statements(text) if s.startswith("create table")]
    assert {name.split()[5] for name in created} >= {table.name for sink in ALL_SINKS.values() for table in sink.tables}
    assert all("non_replicated_deduplication_window = 10000" in statement for statement in created)


def test_the_operations_that_are_counted_exist() -> None:
    assert {c.command.operation for c in WORLD.commits} <= services.OPERATIONS.keys()


def test_a_refund_of_an_old_event_has_a_row_without_what_nobody_kept() -> None:
    """A replay reads the stream from its beginning."""
    made = SINKS[0].no_rows()
    for version in (2, 3, 4):
        old = (golden.FOLDER / f"PaymentSystemCommitted.v{version}.bin").read_bytes()
        rows.add_event(made, 0, codec.decode_event(old))
        assert rendering.payment_event_body(codec.decode_event(old).body)["refund"]["state"] == "failed"
    place = REFUNDS.columns.index("pending_reason")
    assert [row[place] for row in made["refunds"]] == [None, None, "insufficient_funds"]


def test_a_dispute_of_an_old_event_has_a_row_without_a_deadline() -> None:
    made = SINKS[0].no_rows()
    for version in (7, 8):
        event = codec.decode_event((golden.FOLDER / f"PaymentSystemCommitted.v{version}.bin").read_bytes())
        rows.add_event(made, 0, event)
        shown = rendering.payment_event_body(event.body)["dispute"]["evidence_due_by"]
        assert shown == (None if version == 7 else "2027-01-22T06:40:00.000000Z")
    place = DISPUTES.columns.index("evidence_due_by")
    assert [row[place] for row in made["disputes"]] == [None, 1_800_600_000_000_000]


def test_every_commit_and_every_capture_is_metered_once() -> None:
    found = [used for commit in WORLD.commits for used in metered(codec.decode_event(commit.payload))]
    captures = [(c.scope, 1) for c in WORLD.commits for txn in c.txns if txn.kind == "capture"]
    assert captures
    assert sorted(u[1:] for u in found if u.dimension == "payments_captured") == sorted(captures)
    assert sum(u == Metered("commands", u.subject, 1) for u in found) == len(WORLD.commits)


def test_the_events_of_every_service_are_metered_and_those_of_social_users_name_none() -> None:
    """Tenancy's come as usage events of their own."""
    metering = {sink.service for sink in ALL_SINKS.values() if sink.meter}
    assert metering | {"tenancy"} >= services.BY_NAME.keys()
    made = SOCIAL[0].no_rows()
    for seq, kind in enumerate(("post_published", "followed"), 1):
        event = Event(
            event_id=f"e{seq}",
            aggregate_key="user:u_secret",
            event_type="social_post_service_committed",
            schema_version=1,
            trace_id="",
            seq=seq,
            occurred_at=seq,
            version=1,
            scope="user:u_secret",
            operation="x",
            body={"kind": kind, "post_id": "po_1", "target_id": "u_secret", "state": None, "pushed": False},
        )
        SOCIAL[0].add_event(made, 0, event)
    used = [(row[2], row[4]) for row in made["metered_social"]]
    assert used == [("commands", 1), ("posts_published", 1), ("commands", 1)]
    assert "u_secret" not in repr(made)
