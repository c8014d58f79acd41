"""Every statement on a table of tenants' data says whose rows it means: a join or a condition on ``tenant_id``.

Row security holds without it, where it is. This finds what it does not see: the tables of the control database.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import pytest
import sqlglot
from sqlglot import exp

from compose.isolation import statements as monitored
from tests.tidy import tree

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "tenant_id"
#: statements of platform processes about all tenants, and why each must be
OF_ALL_TENANTS = {
    "ingress/queries/tenancy/tenants_newest.sql:": "staff's list of tenants",
    "dataflows/tenancy/mover/mover.sql:anything_waits": "the mover looks for work of any tenant",
    "dataflows/tenancy/mover/mover.sql:exports_running": "the mover looks for work of any tenant",
    "dataflows/tenancy/mover/mover.sql:keys_gone": "the mover writes down which tenants' keys are destroyed",
    "dataflows/tenancy/mover/mover.sql:deleting": "the mover looks for work of any tenant",
    "dataflows/tenancy/mover/mover.sql:shredded": "the mover looks for work of any tenant",
    "dataflows/tenancy/mover/mover.sql:shreds_unnumbered": "the mover looks for work of any tenant",
    "dataflows/tenancy/mover/mover.sql:shred_numbered": "shreds of all tenants have one order",
    "dataflows/tenancy/mover/mover.sql:holders_late": "a holder of keys holds up shreds of any tenant",
    "dataflows/tenancy/mover/mover.sql:keys_wrapped_before": "the mover wraps keys of all tenants anew",
    "dataflows/tenancy/mover/mover.sql:tenants_stored": "the mover looks at what each tenant stores, some at a time",
    "dataflows/tenancy/mover/mover.sql:stores_draining": "a store is drained of any tenant",
    "dataflows/tenancy/mover/mover.sql:reseal_due": "the mover looks for tenants whose rows are to be sealed anew",
    "dataflows/tenancy/mover/mover.sql:reseal_waiting": "its metric counts them",
    "dataflows/tenancy/mover/mover.sql:drain_next": "the mover looks for whoever is in a store that is drained",
    "ingress/queries/tenancy/tenant_stores.sql:": "staff's list of stores tells how many moves drain each",
    "dataflows/tenancy/mover/mover.sql:moves_open": "the mover looks for work of any tenant",
    "sinks/postgres/queries/tenancy/invoices.sql:runs_due": "the metering process looks for work of any tenant",
    "sinks/postgres/queries/tenancy/invoices.sql:again_due": "the metering process looks for work of any tenant",
    "sinks/postgres/queries/tenancy/invoices.sql:invoice_place": "an invoice is named by its id; whose it is, is read here",
    "sinks/postgres/queries/tenancy/others.sql:objects_of_others": "the monitor asks for what is any other tenant's",
    "sinks/postgres/queries/tenancy/record_feed.sql:cost_rows": "the sink reads all slices, of any tenant",
    "sinks/postgres/queries/tenancy/usage_feed.sql:usage_feed_rows": "the sink reads a partition, of any tenant",
}
_MARKS = re.compile(r"%\(\w+\)[sbt]|%[sbt]")
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_TABLE = re.compile(r"create table (\w+(?:\.\w+)?) \((.*?)\n\)", re.DOTALL)


@cache
def tables() -> frozenset[str]:
    """Tables whose primary key begins with the tenant, as migrations make them."""
    found = set()
    for file in tree.files(".sql"):
        if "/migrations/" in file:
            for name, columns in _TABLE.findall(tree.text(file)):
                if re.search(rf"primary key \({KEY}\b|^ *{KEY} .*primary key", columns, re.MULTILINE):
                    found.add(name.rpartition(".")[2])
    return frozenset(found)


def statements(file: str) -> Iterator[tuple[str, str]]:
    """Name and text of each statement of a file."""
    first, *named = _NAME.split(tree.text(file))
    yield from zip(named[::2], named[1::2], strict=True) if named else [("", first)]


def unkeyed(text: str) -> list[str]:
    """Tables of tenants' data that a statement reads or changes without saying whose rows."""
    found = []
    for statement in sqlglot.parse(_MARKS.sub("null", text).replace("%%", "%"), read="postgres"):
        if statement is None:
            continue
        found += [
            table.name
            for table in statement.find_all(exp.Table)
            if table.name in tables() and not _is_written_whole(table) and not _is_keyed(table)
        ]
    return found


def _is_written_whole(table: exp.Table) -> bool:
    """The target of an insert: every row says its own tenant, for that is the key."""
    target = table.parent
    return isinstance(target, exp.Insert | exp.Schema) and (
        isinstance(target, exp.Insert) or isinstance(target.parent, exp.Insert)
    )


def _is_keyed(table: exp.Table) -> bool:
    """Whether the table's key is that of a parameter, or of a table beside it whose key is."""
    scope = table.find_ancestor(exp.Select, exp.Update, exp.Delete)
    if scope is None:
        return False
    beside = [t for t in scope.find_all(exp.Table) if t.name in tables() and _scope_of(t) is scope]
    names = {t.alias_or_name for t in beside}
    linked: dict[str, set[str]] = {name: set() for name in names}
    anchored: set[str] = set()
    for condition in scope.find_all(exp.EQ, exp.In):
        if _scope_of(condition) is not scope:
            continue
        sides = [condition.this, condition.args.get("expression")]
        keys = {c.table or _only(names) for side in sides if side is not None for c in _columns(side) if c.name == KEY}
        mine = keys & names
        for name in mine:
            linked[name] |= mine
        if len(mine) == 1:  # the other side is a parameter, a list of them, or a row of another scope
            anchored |= mine
    if any(_uses_key(join) for join in scope.args.get("joins") or ()):
        linked = dict.fromkeys(names, names)
    while more := {name for name in names - anchored if linked[name] & anchored}:
        anchored |= more
    return table.alias_or_name in anchored


def _scope_of(node: exp.Expression) -> exp.Expression | None:
    return node.find_ancestor(exp.Select, exp.Update, exp.Delete)


def _uses_key(join: exp.Expression) -> bool:
    return any(column.name == KEY for column in join.args.get("using") or ())


def _only(names: set[str]) -> str:
    """What a column without a table is of."""
    return next(iter(names)) if len(names) == 1 else ""


def _columns(side: exp.Expression) -> list[exp.Column]:
    return [side] if isinstance(side, exp.Column) else [c for c in side.expressions if isinstance(c, exp.Column)]


#: keys of tables that have a tenant, and begin with something else
OF_NO_TENANT = {
    "placement": "a pool is of many tenants, or of none",
    "resource_feed": "the mover brings images to a placement, in their order",
}
_UNIQUE = re.compile(r"primary key \((\w+)|unique \((\w+)|^ *(\w+) .*primary key", re.MULTILINE)
_UNIQUE_INDEX = re.compile(r"create unique index \w+ on (\w+(?:\.\w+)?) (?:using \w+ )?\((\w+)")


def keys_of_others(text: str) -> list[str]:
    """The tables with a tenant of a migration that have a unique key which begins with something else.

    Such a key tells whoever writes whether another tenant has the same.
    """
    made = {name: columns for name, columns in _TABLE.findall(text) if re.search(rf"^ *{KEY} ", columns, re.MULTILINE)}
    firsts = [(name, next(filter(None, found))) for name, columns in made.items() for found in _UNIQUE.findall(columns)]
    firsts += [(name, column) for name, column in _UNIQUE_INDEX.findall(text) if name in tables() | made.keys()]
    return [name for name, column in firsts if column != KEY and name not in OF_NO_TENANT]


def test_every_unique_key_of_tenants_begins_with_the_tenant() -> None:
    migrations = [file for file in tree.files(".sql") if "/migrations/" in file]
    assert [f"{file}: {name}" for file in migrations for name in keys_of_others(tree.text(file))] == []


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("primary key (tenant_id, n)", []),
        ("primary key (n, tenant_id)", ["t"]),
        ("unique (n),\n    primary key (tenant_id, n)", ["t"]),
        ("n text primary key", ["t"]),
    ],
)
def test_a_unique_key_that_begins_otherwise_is_found(key: str, found: list[str]) -> None:
    made = f"create table t (\n    tenant_id text not null,\n    {key}\n);"
    assert keys_of_others(made) == found
    assert keys_of_others(f"{made}\ncreate unique index t_n on t (n);") == [*found, "t"]


def test_tables_of_tenants_are_known() -> None:
    assert {"tenant", "tenant_key", "resource_head", "quota_usage", "tenant_migration", "usage_event"} <= tables()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("select payload from resource_head", ["resource_head"]),
        ("select * from resource_head h where h.resource_id = %(id)s", ["resource_head"]),
        ("select * from resource_head h where h.tenant_id = %(t)s and h.resource_id = %(id)s", []),
        (
            "select * from tenant t join quota_usage q on q.tenant_id = t.tenant_id where t.tenant_id = any (%s::text[])",
            [],
        ),
        ("select * from tenant t join quota_usage q using (tenant_id) where t.tenant_id = %s", []),
        ("select * from tenant t, quota_usage q where t.tenant_id = %s", ["quota_usage"]),
        ("update quota_usage set used = 0 where dimension = %s", ["quota_usage"]),
        ("delete from resource_head where tenant_id = %s", []),
        ("insert into quota_usage (tenant_id, dimension, used) values (%s, %s, %s)", []),
        ("select 1 from payment_intent where id = %s", []),
        ("select * from tenant t join quota_usage q on q.tenant_id = t.tenant_id", ["tenant", "quota_usage"]),
        ("with a as (select used from quota_usage) select * from a where tenant_id = %s", ["quota_usage"]),
    ],
)
def test_the_rule_finds_what_is_not_keyed(text: str, found: list[str]) -> None:
    assert unkeyed(text) == found


def _of_tenants() -> dict[str, str]:
    folders = ("ingress/queries/tenancy/", "dataflows/tenancy/", "sinks/postgres/queries/tenancy/")
    files = [file for file in tree.files(".sql") if file.startswith(folders)]
    return {f"{file}:{name}": text for file in files for name, text in statements(file)}


def test_what_works_for_tenants_names_the_tenant_in_every_statement() -> None:
    found = {place: unkeyed(text) for place, text in _of_tenants().items()}
    wide = {place: tables for place, tables in found.items() if tables}
    tree.nothing_in(
        [
            f"{place}: means {', '.join(wide[place])} of whichever tenant"
            for place in wide.keys() - OF_ALL_TENANTS.keys()
        ],
        [f"{place}: names its tenant: take it off the list" for place in OF_ALL_TENANTS.keys() - wide.keys()],
    )


def test_none_of_them_is_evidence_to_the_monitor_which_samples_what_runs() -> None:
    """It asks for less: that the tenant is named at all, in what is of all tenants, too."""
    known = frozenset(tables())
    tree.nothing_in([place for place, text in _of_tenants().items() if monitored.unkeyed(text, known)], [])
