"""Ranges of records in a topic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The exact place of a run of events: its first and last Kafka offset and seq."""

    partition: int
    first_offset: int
    last_offset: int
    first_seq: int
    last_seq: int
