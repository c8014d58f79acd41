"""The rows that records refer to by number: in memory as blocks have them, and in a file beside the ring.

One JSON line a row, after one with the source; a row is written before the first record of it. With the ring it
outlives the process. A disk that takes no more delays and fails no decision: what a killed process then leaves of the
rows behind is lost.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
import structlog
import xxhash

from limiter.policy.keys import key_hash
from limiter.stream.blocks import Row, encoded_row
from limiter.stream.columns import joined, packed_list
from schemas.limiter.topics import DECISIONS_PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_NUMBER_BYTES: Final = 4
_line: Final = msgspec.json.Encoder().encode
_log: Final = structlog.get_logger(__name__)


class Rows:
    """Rows of a dictionary, by number: as blocks have them, and where blocks with them go."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._encoded: list[bytes] = []
        self.partitions = array("B")
        for row in rows:
            self.add(row)

    def __len__(self) -> int:
        return len(self._encoded)

    def add(self, row: Row) -> None:
        """The next one."""
        self._encoded.append(encoded_row(row))
        self.partitions.append(partition_of(row.key))

    def encoded(self, numbers: bytes) -> bytes:
        """The list of these rows (uint32)."""
        return packed_list(len(numbers) // _NUMBER_BYTES, joined(self._encoded, numbers))


class RowDictionary:
    """The rows of one process, and their file: what was in it is gone once this one is made."""

    def __init__(self, ring_file: Path, source: str) -> None:
        self._source = source
        path = _beside(ring_file)
        path.unlink(missing_ok=True)
        self._file = path.open("wb", buffering=0)
        self._begin()

    def _begin(self) -> None:
        self.rows = Rows()
        self.seeds = array("Q")  # of identities, by row
        self._known: dict[Row, int] = {}
        self._kept_bytes: int | None = 0  # of the file, all of it whole lines; None: nothing more is written to it
        self._keep(_line(self._source) + b"\n")

    def number(self, row: Row) -> int | None:
        """None for one that is not in it."""
        return self._known.get(row)

    def add(self, row: Row) -> int:
        """A new one, and its number."""
        number = self._known[row] = len(self.rows)
        self.rows.add(row)
        self.seeds.append(key_hash(row.key))
        self._keep(_line(row) + b"\n")
        return number

    def _keep(self, line: bytes) -> None:
        """Or none from here on: the place of a line is the number of its row."""
        if self._kept_bytes is None:
            return
        try:
            written = self._file.write(line)
        except OSError as error:
            written = 0
            _log.error("rows_not_kept", reason=str(error), lost="what a kill leaves of them")
        if written == len(line):
            self._kept_bytes += written
            return
        with suppress(OSError):
            self._file.truncate(self._kept_bytes)
        self._kept_bytes = None

    def forget(self) -> None:
        """All numbers are void."""
        self._file.seek(0)
        self._file.truncate()
        self._begin()

    def close(self) -> None:
        """It stays on the disk."""
        self._file.close()


def left_rows(ring_file: Path) -> tuple[str, list[Row]]:
    """The source and the rows that the process before has left; a line that it had not ended counts for nothing."""
    source, *lines = _beside(ring_file).read_bytes().splitlines() or [b'""']  # the disk was full at the start
    rows = [msgspec.json.decode(line, type=Row) for line in lines if line.endswith(b"]")]
    return msgspec.json.decode(source, type=str), rows


def _beside(ring_file: Path) -> Path:
    return ring_file.with_suffix(".rows")


def partition_of(key: str) -> int:
    """All decisions on a key are in one partition."""
    return xxhash.xxh3_64_intdigest(key.encode()) % DECISIONS_PARTITIONS
