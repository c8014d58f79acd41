"""A tripwire on the way out: no log of this installation says what only a canary's payload does.

Requests and commands pass every process, so a text that one of them writes down is there within a round. Only what was
written since the round before is read.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from compose import limits
from compose.isolation.found import Found

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from pathlib import Path

    from compose.isolation.canaries import Canary


class Egress:
    """The logs of one folder, and how far each was read."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._read_to: dict[str, int] = {}

    def probes(self, canaries: Sequence[Canary]) -> Generator[Found]:
        """One probe: which logs have a marker, if any. They count as read when the next one is asked for."""
        markers = [canary.marker.encode() for canary in canaries]
        overlap = max(map(len, markers)) - 1
        read_to: dict[str, int] = {}
        said = sorted(
            {
                path.name
                for path in self._logs.glob("*.log")
                for text in self._new(path, overlap, read_to)
                if _any(markers, text)
            }
        )
        evidence = f"a canary's payload is in {', '.join(said)}" if said else None
        yield Found("egress logs", evidence, is_leak=bool(said))
        self._read_to = read_to

    def _new(self, path: Path, overlap: int, read_to: dict[str, int]) -> Iterator[bytes]:
        """What was written since, with the end of what was read before: a marker may lie across.

        Of a log that was begun anew, also what was written before that and is in ``.log.1`` by now.
        """
        try:
            begin = self._read_to.get(path.name, 0)
            if begin > path.stat().st_size:
                with suppress(FileNotFoundError), path.with_suffix(".log.1").open("rb") as file:
                    yield from _parts(file, begin - overlap, overlap)
                begin = 0
            with path.open("rb") as file:
                yield from _parts(file, begin - overlap, overlap)
                read_to[path.name] = file.tell()
        except FileNotFoundError:  # it is gone: another one may have its name
            return


def _parts(file: BinaryIO, begin: int, overlap: int) -> Iterator[bytes]:
    """What a file has from a place on, each part with the end of the one before."""
    file.seek(max(0, begin))
    before = b""
    while part := file.read(limits.ISOLATION_LOG_PART_BYTES):
        yield before + part
        before = (before + part)[-overlap:]


def _any(markers: Sequence[bytes], text: bytes) -> bool:
    return any(marker in text for marker in markers)
