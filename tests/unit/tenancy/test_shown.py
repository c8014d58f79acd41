"""What is known of tenants fits a terminal, whatever their names are made of, and no id is cut."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from compose.cli.tenants import shown

TENANT = "tn_" + "a" * 26
NAMES = ("Acme", "n" * 200, "\u65e5\u672c\u8a9e" * 40, "tab\tand \x1b[31mred", "")


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_tenants_fits_eighty_cells(name: str) -> None:
    rows: list[dict[str, Any]] = [
        {"tenant_id": TENANT, "state": "offboarding", "mode": "partitioned", "resources": count, "name": name}
        for count in (7, 1_234_567)
    ]
    lines = shown.table(rows, tuple(rows[0]))
    assert max(map(cell_len, lines)) <= shown.WIDTH
    assert all(line.startswith(TENANT) and "\x1b" not in line and "\t" not in line for line in lines[1:])
    assert [line.split()[3] for line in lines[1:]] == ["7", "1,234,567"]


def test_wide_characters_leave_the_columns_below_one_another() -> None:
    rows = [{"name": "\u65e5\u672c", "mode": "pooled"}, {"name": "four", "mode": "dedicated"}]
    lines = shown.table(rows, ("name", "mode"))
    assert {cell_len(line[: line.index(row["mode"])]) for line, row in zip(lines[1:], rows, strict=True)} == {6}


@pytest.mark.parametrize("name", NAMES)
def test_the_facts_of_one_tenant_fit_and_are_whole(name: str) -> None:
    lines = shown.facts({"tenant_id": TENANT, "policy": {"region": name}})
    assert max(map(cell_len, lines)) <= shown.WIDTH
    assert sum(line.count("\u672c") for line in lines) == name.count("\u672c")
    assert sum(line.removeprefix("policy.region").count("n") for line in lines) >= name.count("n")
