"""What an owner asks Postgres for its policies: it does once a second, for as long as it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from dataflows.payments.policies import PolicyBook

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import World

pytestmark = pytest.mark.servers


def test_an_owner_asks_for_all_its_policies_at_once(stack: World, tmp_path: Path) -> None:
    """Four statements, and one wait for all answers."""
    book, path = PolicyBook(), tmp_path / "sent"
    dsn = stack.addresses.postgres_dsns["millrace_owner"]
    with psycopg.connect(dsn, autocommit=True) as connection, path.open("wb") as trace:
        book.refresh(connection)
        connection.pgconn.trace(trace.fileno())
        book.refresh(connection)
        connection.pgconn.untrace()
    traced = [line.split("\t") for line in path.read_text().splitlines()]  # some go on in the next line
    messages = [line[3] for line in traced if line[1:2] == ["F"]]
    assert (messages.count("Execute"), messages.count("Sync")) == (4, 1)
    assert book.is_complete
