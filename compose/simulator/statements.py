"""The simulator's SQL by name, read once from the .sql files beside this module."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def _read(file_name: str) -> str:
    return resources.files(__package__).joinpath(file_name).read_text(encoding="utf-8")


def _named(text: str) -> Mapping[str, str]:
    _, *parts = _NAME.split(text)
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}


SCHEMA: Final = _read("schema.sql")
UPGRADE_BEFORE: Final = _read("upgrade_before.sql")
UPGRADE_AFTER: Final = _read("upgrade_after.sql")
UPGRADE_OPERATIONS: Final = _read("upgrade_operations.sql")
QUERIES: Final = {**_named(_read("queries.sql")), **_named(_read("settlements.sql"))}
