"""Who may read what of the vault: every role tries."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from sinks.postgres.roles import ROLES
from tests import asked
from tests.each import each
from tests.worlds.payments.vault_world import world

if TYPE_CHECKING:
    from tests.worlds.payments.vault_world import Holder, VaultWorld

__all__ = ["world"]  # the fixture of this module
pytestmark = [pytest.mark.servers]

TABLES = ("card", "key", "token_request")
OTHERS = tuple(role for role in ROLES if role != "millrace_vault")
PUBLIC_READERS = {"millrace_ingress", "millrace_reader"}


@pytest.fixture(scope="module")
def holder(world: VaultWorld) -> Holder:
    return world.holder()


@pytest.fixture(scope="module")
def token(holder: Holder) -> str:
    return holder.token()


def refused(dsn: str, statement: sql.Composed) -> bool:
    try:
        asked.rows(dsn, statement)
    except psycopg.errors.InsufficientPrivilege:
        return True
    return False


@pytest.mark.usefixtures("token")  # there is something to see
@each("table, role", itertools.product(TABLES, OTHERS))
def test_no_other_role_touches_a_table(world: VaultWorld, role: str, table: str) -> None:
    """Not a column of it, not its size, not a change, not a lock, not through a copy or a new object."""
    dsn = world.settings.addresses().postgres_dsns[role]
    name = sql.Identifier("vault", table)
    for text in (
        "select * from {}",
        "select count(*) from {}",
        "select 1 from {} limit 1",
        "copy {} to stdout",
        "select * from {} for update",
        "delete from {}",
        "truncate {}",
        "create temporary table stolen as select * from {}",
        "create view public.stolen as select * from {}",
        "alter table {} disable row level security",
        "grant select on {} to public",
    ):
        assert refused(dsn, sql.SQL(text).format(name)), text


@each("role", OTHERS)
def test_no_other_role_becomes_the_vault(world: VaultWorld, role: str) -> None:
    dsn = world.settings.addresses().postgres_dsns[role]
    assert refused(dsn, sql.SQL("set role millrace_vault").format())
    assert refused(dsn, sql.SQL("grant millrace_vault to {}").format(sql.Identifier(role)))
    assert refused(dsn, sql.SQL("create table vault.mine (x int)").format())


@each("role", OTHERS)
def test_who_sees_whose_a_token_is(world: VaultWorld, holder: Holder, token: str, role: str) -> None:
    """Ingress and readers see four columns of the view; nobody else sees it at all."""
    dsn = world.settings.addresses().postgres_dsns[role]
    statement = sql.SQL("select * from vault.token_public where id = {}").format(sql.Literal(token))
    assert refused(dsn, statement) is (role not in PUBLIC_READERS)
    if role in PUBLIC_READERS:
        with psycopg.connect(dsn) as connection:
            assert connection.execute(statement).fetchall() == [(token, holder.name, "visa", "4242")]
        assert refused(dsn, sql.SQL("delete from vault.token_public").format())
    signals = sql.SQL("select * from vault.card_signals where id = {}").format(sql.Literal(token))
    assert refused(dsn, signals) is (role != "millrace_ingress"), "a fingerprint is for the risk rules alone"


def test_the_vault_reads_nothing_else(world: VaultWorld) -> None:
    """Least privilege the other way round: of the schema public who is denied access, and no right to make a table."""
    dsn = world.settings.addresses().postgres_dsns["millrace_vault"]
    names = world.rows(
        "select c.relname from pg_class c where relnamespace = 'public'::regnamespace and relkind in ('r', 'v')"
    )
    assert len(names) > 10
    open_to_it = [
        n for (n,) in names if not refused(dsn, sql.SQL("select * from {}").format(sql.Identifier("public", n)))
    ]
    assert sorted(open_to_it) == ["access_denied", "access_denied_version"]
    assert refused(dsn, sql.SQL("create table public.mine (x int)").format())
    assert refused(dsn, sql.SQL("delete from vault.card").format())
    assert refused(dsn, sql.SQL("update vault.card set merchant_id = 'm'").format())


def test_every_role_was_tried() -> None:
    assert set(OTHERS) == {
        "millrace_owner",
        "millrace_limiter_owner",
        "millrace_social_owner",
        "millrace_social_worker",
        "millrace_social_media",
        "millrace_social_scanner",
        "millrace_social_propagation",
        "millrace_social_eraser",
        "millrace_tenancy_owner",
        "millrace_tenancy_mover",
        "millrace_tenancy_metering",
        "millrace_tenancy_monitor",
        "millrace_ingress",
        "millrace_worker",
        "millrace_settlement",
        "millrace_leases",
        "millrace_sink",
        "millrace_operator",
        "millrace_console",
        "millrace_reader",
    }
