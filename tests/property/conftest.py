"""Databases of their own for random histories, cloned from one that was migrated once."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from sinks.postgres.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Stack

_TEMPLATE = "history_template"


def in_database(dsn: str, name: str) -> str:
    """The DSN of another database of the same server."""
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


@pytest.fixture(scope="session")
def new_database(stack: Stack) -> Iterator[Callable[[], tuple[str, str]]]:
    """Makes an empty migrated database; gives the owner's DSN and the superuser's."""
    superuser = stack.addresses.postgres_superuser_dsn
    made: list[str] = []

    def execute(statement: str, name: str) -> None:
        with psycopg.connect(superuser, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(name=sql.Identifier(name), template=sql.Identifier(_TEMPLATE)))

    def make() -> tuple[str, str]:
        if not made:
            execute("create database {name}", _TEMPLATE)
            made.append(_TEMPLATE)
            migrate(in_database(superuser, _TEMPLATE), stack.settings.role_passwords())
        name = f"history_{len(made)}"
        execute("create database {name} template {template}", name)
        made.append(name)
        return in_database(stack.addresses.postgres_dsns["millrace_owner"], name), in_database(superuser, name)

    yield make
    for name in made:
        execute("drop database {name} with (force)", name)
