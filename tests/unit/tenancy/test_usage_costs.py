"""What ClickHouse took is shared by the rows of each insert, and told once a minute."""

from __future__ import annotations

from schemas.tenancy import limits
from sinks.clickhouse.tenancy.usage_costs import UsageCosts


def test_each_insert_is_shared_by_its_rows_and_told_once() -> None:
    now_s = [0.0]
    costs = UsageCosts(lambda: now_s[0])
    costs.heard(["tn_b", "tn_a", "tn_a", "tn_a"], 4_000)
    costs.heard(["tn_b"], 500.4)
    costs.heard(["tn_c"], 0.0)  # a block that was there already
    costs.heard([], 9.0)
    assert costs.due() == {}  # no minute has gone by
    now_s[0] += limits.CLICKHOUSE_COSTS_KEPT_S
    assert costs.due() == {"tn_a": 3_000, "tn_b": 1_500}
    now_s[0] += limits.CLICKHOUSE_COSTS_KEPT_S
    assert costs.due() == {}
    costs.heard(["tn_a"], 7.0)
    assert costs.due() == {"tn_a": 7}
