"""Fixtures that need real servers: one embedded stack for the whole pytest session, in a temporary home."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from compose.settings import PREFIX, Addresses, Settings
from compose.stack.errors import StackError
from compose.supervise import launch
from tests import seeds  # noqa: F401 - draws the seed of the run before workers start

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Stack:
    """The embedded servers of this session; no service of ours runs in it."""

    settings: Settings
    addresses: Addresses
    home: Path


def servers_missing(reason: str) -> None:
    """A laptop without servers skips; CI (REQUIRE_SERVERS=1) fails."""
    if os.environ.get("REQUIRE_SERVERS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def clean_environment() -> dict[str, str]:
    """The environment without settings of the shell that runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Kafka, Postgres, Valkey and ClickHouse, empty, ending with this pytest process however that ends."""
    settings = Settings(home=tmp_path_factory.mktemp("home"))
    try:
        launch.up(settings, servers_only=True, tied=True)
    except StackError as error:
        servers_missing(str(error))
    yield Stack(settings=settings, addresses=settings.addresses(), home=settings.the_home().path)
    launch.down(settings)
