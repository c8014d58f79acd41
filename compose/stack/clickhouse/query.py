"""What the engine is asked and what it answers; nothing of the engine, whose threads begin where it is imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One request: SQL, possibly followed by an INSERT's data, and all that came with it."""

    sql: bytes  # the ``query`` of the URL; empty when the SQL stands in the body
    body: IO[bytes]
    body_bytes: int
    database: str | None = None
    default_format: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    read_only: bool = False  # an analyst's, or asked by GET
    streamed: bool = False  # the caller takes blocks as they come


@dataclass(slots=True)
class Answer:
    """Blocks to send, and what the summary header says, which is not known yet when they are streamed."""

    blocks: Iterator[bytes]
    output_format: str
    summary: dict[str, str]
    streamed: bool = False
    left_session: bool = False  # nothing that was asked could have changed it
