"""What the tables of ClickHouse are partitioned by is what their declarations say, by which a killed insert is completed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.services import SINKS
from tests.eventually import becomes
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # the fixture of this module
pytestmark = pytest.mark.servers


def test_a_table_says_which_months_it_keeps_apart(public: PublicSystem) -> None:
    """Of all services; decisions are inserted again whole, and looked for nowhere."""
    client = ClickHouseConnection(url=public.settings.addresses().clickhouse_url).client()
    declared = {
        table.name: "" if table.month_of is None else f"toYYYYMM({table.month_of})"
        for sink in SINKS.values()
        for table in sink.tables
        if "seq" in table.columns
    }
    asked = "select name, partition_key from system.tables where database = currentDatabase()"

    def partitioned() -> dict[str, str]:
        return {name: key for name, key in client.query(asked).result_rows if name in declared}

    try:
        becomes(partitioned, declared)
    finally:
        client.close()
