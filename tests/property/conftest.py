"""Databases of their own for random histories."""

from __future__ import annotations

import itertools
import uuid
from typing import TYPE_CHECKING

import pytest

from tests.migrated import clone_database, in_database

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import World


@pytest.fixture(scope="module")
def new_database(stack: World) -> Callable[..., tuple[str, str]]:
    """Makes an empty migrated database; gives the DSN of a role of owners and the superuser's."""
    module = uuid.uuid4().hex[:8]  # the server is everybody's
    names = (f"history_{module}_{number}" for number in itertools.count(1))

    def make(role: str = "millrace_owner") -> tuple[str, str]:
        name = next(names)
        superuser = clone_database(stack.addresses.postgres_superuser_dsn, name)
        return in_database(stack.addresses.postgres_dsns[role], name), superuser

    return make
