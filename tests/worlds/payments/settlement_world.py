"""A database with attempts as owners leave them, and reports about them, for tests of reconciliation without services."""

from __future__ import annotations

import io
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg

from reconciliation.payments.settlement.ingest import ReportFile, Taken, take_in
from reconciliation.payments.settlement.reports.simulator import COLUMNS, read_rows
from reconciliation.payments.settlement.store import found_table, keep_found, missing_find
from schemas import identity
from tests import asked
from tests.migrated import clone_database, in_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compose.settings.settings import Settings

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class SettlementWorld:
    """One database; attempts are captured a second after they were begun, one a minute."""

    superuser_dsn: str
    dsn: str
    attempts: list[dict[str, Any]] = field(default_factory=list)

    def capture(self, amount: int = 2_000, **changes: Any) -> dict[str, Any]:
        """An attempt that took money, of a payment of its own unless ``intent_id`` and ``attempt`` are given."""
        return self.add({"kind": "purchase", "status": "captured", "amount": amount} | changes)

    def refund(self, amount: int = 500, **changes: Any) -> dict[str, Any]:
        """An attempt that gave money back."""
        return self.add({"kind": "refund", "status": "refunded", "amount": amount} | changes)

    def add(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Stores an attempt."""
        begun = START + timedelta(minutes=len(self.attempts))
        row = {
            "intent_id": f"pi_{uuid.uuid4().hex[:26]}",
            "attempt": 1,
            "processor": "simulator",
            "currency": "USD",
            "payment_method": "tok_sim_approve",
            "parent_ref": None,
            "final": True,
            "error_code": None,
            "created_at": begun,
            "updated_at": begun + timedelta(seconds=1),
        } | changes
        row["operation_id"] = identity.operation_id(row["intent_id"], row["attempt"])
        row.setdefault("provider_ref", "sim_" + row["operation_id"])
        names = list(row)
        self.sql(
            f"insert into processor_attempt ({', '.join(names)}) values ({', '.join(['%s'] * len(names))})",
            *row.values(),
        )
        self.attempts.append(row)
        return row

    def sql(self, query: Any, *parameters: object) -> list[tuple[Any, ...]]:
        """A statement as a superuser."""
        return asked.rows(self.superuser_dsn, query, *parameters)

    @contextmanager
    def operator(self) -> Iterator[psycopg.Connection]:
        """A session of the role that reconciles."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            yield connection

    def take_in(
        self,
        rows: list[dict[str, Any]],
        report_id: str = "rpt_1",
        text: bytes | None = None,
        *,
        is_complete_history: bool = True,
    ) -> Taken:
        """A report of the simulator, fetched, and then what is missing."""
        data = text if text is not None else csv_of(rows, report_id)
        report = ReportFile(
            processor="simulator",
            report_id=report_id,
            sha256=data,
            format="simulator",
            is_complete_history=is_complete_history,
        )
        with self.operator() as connection:
            taken = take_in(connection, report, read_rows(io.BytesIO(data)))
            with found_table(connection):
                missing_find(connection, "simulator")
                keep_found(connection, "simulator", report_id, [])
        return taken

    def open_discrepancies(self) -> list[tuple[str, str, int]]:
        """Class, reference and amount of what is not explained."""
        return sorted(
            self.sql("select class, reference, amount from settlement_discrepancy where state = 'open'")  # type: ignore[arg-type]  # rows of three
        )

    def state(self) -> list[list[tuple[Any, ...]]]:
        """Everything that reconciliation keeps."""
        return [
            self.sql("select * from settlement_line order by processor, line_id"),
            self.sql("select * from settlement_discrepancy order by processor, subject, class"),
            self.sql("select id, kind, reference, state from repair_case order by id"),
        ]

    def due(self) -> dict[str, tuple[str, int, int, int]]:
        """What owners have to be told, by line: finding, gross, fee, difference."""
        rows = self.sql(
            "select line_id, finding, coalesce(posted_gross, gross), coalesce(posted_fee, fee), posted_difference"
            " from settlement_line where posting = 'due' and finding is not null"
        )
        return {row[0]: (row[1], row[2], row[3], row[4]) for row in rows}

    def suspense(self) -> int:
        """What the owner books to suspense for everything that is due: above zero is a gain."""
        signs = {"matched": 0, "over": 1, "short": -1}
        return sum(
            difference * signs.get(finding, 1 if gross > 0 else -1)
            for finding, gross, _, difference in self.due().values()
        )


def line_of(attempt: dict[str, Any], line_id: str, **changes: Any) -> dict[str, Any]:
    """The line that a clean report has for an attempt."""
    is_refund = attempt["kind"] == "refund"
    gross = changes.pop("gross", -attempt["amount"] if is_refund else attempt["amount"])
    fee = changes.pop("fee", 0 if is_refund else (attempt["amount"] * 60 + 5_000) // 10_000)
    return {
        "line_id": line_id,
        "report_id": "",
        "type": "refund" if is_refund else "charge",
        "operation_id": attempt["operation_id"],
        "reference": attempt["intent_id"],
        "provider_ref": attempt["provider_ref"],
        "currency": attempt["currency"],
        "gross": gross,
        "fee": fee,
        "net": gross - fee,
        "created": "2026-01-02T03:04:05Z",
    } | changes


def payout_of(rows: list[dict[str, Any]], line_id: str = "ln_payout") -> dict[str, Any]:
    """The payout that ends a report: the sum of its lines."""
    net = -sum(row["net"] for row in rows)
    return rows[0] | {"line_id": line_id, "type": "payout", "operation_id": "", "reference": f"po_{line_id}",
                      "provider_ref": f"po_{line_id}", "gross": net, "fee": 0, "net": net}  # fmt: skip


def csv_of(rows: list[dict[str, Any]], report_id: str = "rpt_1") -> bytes:
    """The report as the simulator writes it."""
    lines = [",".join(COLUMNS)]
    lines += [",".join(str((row | {"report_id": report_id})[name]) for name in COLUMNS) for row in rows]
    return ("\n".join(lines) + "\n").encode()


@contextmanager
def settlement_world(settings: Settings) -> Iterator[SettlementWorld]:
    """An empty database of its own in the running server."""
    name = f"settlement_{uuid.uuid4().hex[:12]}"
    addresses = settings.addresses()
    dsn = clone_database(addresses.postgres_superuser_dsn, name)
    yield SettlementWorld(dsn, in_database(addresses.postgres_dsns["millrace_operator"], name))
