"""What the isolation monitor makes of statements that it sampled."""

from __future__ import annotations

from compose.isolation.statements import unkeyed
from tests.each import each

TABLES = frozenset({"tenant", "resource_head", "usage_event", "resource"})


@each(
    ("text", "found"),
    [
        ("select payload from resource_head where resource_id = $1", ["resource_head"]),
        ("select payload from resource_head where tenant_id = $1 and resource_id = $2", []),
        ("SELECT 1 FROM public.Usage_Event", ["usage_event"]),
        ("select 1 from only tenancy_pool.resource", ["resource"]),
        ("select 1 from partition_owner p join usage_event e on e.seq = p.next_offset", ["usage_event"]),
        ("update usage_event set quantity = 0", ["usage_event"]),
        ("delete from usage_event using resource_head where true", ["resource_head", "usage_event"]),
        ("-- by tenant_id\nselect 1 from usage_event", ["usage_event"]),
        ("select /* tenant_id */ 1 from usage_event", ["usage_event"]),
        ("select tenant from placement", []),
        ("select 1 from payment_intent where id = $1", []),
        ("commit", []),
    ],
)
def test_a_statement_on_tenants_rows_says_whose(text: str, found: list[str]) -> None:
    assert unkeyed(text, TABLES) == found
