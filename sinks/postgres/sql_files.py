"""Named queries in .sql files: a block starts with ``-- name: query_name`` and its comment says who calls it.

Column lists in them are those of the records (``column_lists``).
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from sinks.postgres.column_lists import expanded

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def queries(package: str, file: str) -> dict[str, str]:
    """The queries of one file by name, without their comments. Raises ValueError on a name given twice."""
    parts = _NAME.split((resources.files(package) / file).read_text())[1:]
    names, bodies = parts[::2], parts[1::2]
    if len(set(names)) != len(names):
        raise ValueError(f"{file} names a query twice")
    return {n: expanded(bare(b)) for n, b in zip(names, bodies, strict=True)}


def bare(text: str) -> str:
    """A statement without comments, indentation and end: what is short, psycopg takes apart once, not at each call."""
    lines = (line.strip() for line in text.strip().splitlines())
    return "\n".join(line for line in lines if not line.startswith("--")).rstrip(";")
