"""Progress of a partition: the position below which everything is decided, and the commands decided ahead of it.

The transaction that decides stores both, so the next owner neither passes over a record nor decides one twice.
Where callers take no turns, nothing is ever ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from dataflows.owner.batch import Record

_encode: Final = msgspec.json.Encoder().encode


class Progress(Struct, frozen=True):
    """Which commands of a partition are decided."""

    next_offset: int  # everything below is decided
    leader_epoch: int | None  # of the leader that took the record before it; None: unknown
    ahead: Mapping[int, int | None]  # decided offsets above it, each with its leader epoch

    def after(self, records: Sequence[Record]) -> Progress:
        """The progress once these are decided, too. Their offsets ascend, and none is decided yet."""
        following = records[0].offset == self.next_offset and records[-1].offset - self.next_offset == len(records) - 1
        if following and not self.ahead:
            return Progress(records[-1].offset + 1, records[-1].leader_epoch, {})
        ahead = dict(self.ahead) | {record.offset: record.leader_epoch for record in records}
        at, leader_epoch = self.next_offset, self.leader_epoch
        while at in ahead:
            leader_epoch = ahead.pop(at)
            at += 1
        return Progress(at, leader_epoch, ahead)

    @property
    def ahead_text(self) -> str:
        """The commands decided ahead, as text for the database."""
        return _encode(self.ahead).decode() if self.ahead else "{}"


def ahead_of(next_offset: int, stored: Mapping[str, int | None]) -> dict[int, int | None]:
    """The commands decided ahead, from that text; an owner of an earlier release may have moved beyond them."""
    return {int(offset): leader_epoch for offset, leader_epoch in stored.items() if int(offset) > next_offset}
