"""Databases of their own for random histories."""

from __future__ import annotations

import itertools
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.migrated import fresh_database, in_database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers import World


@pytest.fixture(scope="module")
def new_database(stack: World) -> Iterator[Callable[..., tuple[str, str]]]:
    """Makes an empty migrated database; gives the DSN of a role of owners and the superuser's."""
    with ExitStack() as made:
        module = uuid.uuid4().hex[:8]  # the server is everybody's
        names = (f"history_{module}_{number}" for number in itertools.count(1))

        def make(role: str = "millrace_owner") -> tuple[str, str]:
            name = next(names)
            superuser = made.enter_context(fresh_database(stack.settings, name))
            return in_database(stack.addresses.postgres_dsns[role], name), superuser

        yield make
