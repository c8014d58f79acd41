"""The simulator's SQL by name, read once from the .sql files beside this module."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def read(file_name: str, package: str = str(__package__)) -> str:
    """The text of a file beside a package's modules."""
    return resources.files(package).joinpath(file_name).read_text(encoding="utf-8")


def named(text: str) -> Mapping[str, str]:
    """The statements of a file by the names above them."""
    _, *parts = _NAME.split(text)
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}


SCHEMA: Final = read("schema.sql")
UPGRADE_BEFORE: Final = read("upgrade_before.sql")
UPGRADE_AFTER: Final = read("upgrade_after.sql")
UPGRADE_OPERATIONS: Final = read("upgrade_operations.sql")
QUERIES: Final = {**named(read("queries.sql")), **named(read("settlements.sql"))}
