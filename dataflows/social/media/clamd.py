"""What clamd says of a file, once it is seen to look at files as long as that one.

clamd says OK of a file that it skips: one past its ``MaxFileSize`` or ``MaxScanSize``, and every one where its database
is empty. So it is shown the test file of all scanners (EICAR, which is in every database) first, in an archive of as
many bytes: official signatures take nothing for it that is longer than the 68 bytes that it has.
"""

from __future__ import annotations

import socket
import struct
import tarfile
import threading
import time
from typing import TYPE_CHECKING, Final

from schemas.social import limits
from sinks.objects.folder_store import chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: in two, so that no scanner takes this file for it
EICAR: Final = rb"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + rb"-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
_LENGTH: Final = struct.Struct(">I")
_CLEAN: Final = b"stream: OK"
_FOUND: Final = b" FOUND"
_NOT_LOOKED_AT: Final = b"stream: Heuristics.Limits.Exceeded"  # with AlertExceedsMax: a bound of clamd, no malware


class ScannerSilent(OSError):
    """The scanner gave no answer that says yes or no: nothing is known, and the scan is repeated."""


class Clamd:
    """One clamd, asked by several threads."""

    def __init__(self, address: str, clock: Callable[[], float] = time.monotonic) -> None:
        host, _, port = address.rpartition(":")
        self._address = host, int(port)
        self._clock = clock
        self._lock = threading.Lock()
        self._seen_bytes, self._seen_until = 0, 0.0
        #: why it gave no answer when it was asked last; None where it gave one
        self.why_silent: str | None = None

    def is_found(self, path: Path) -> bool:
        """Whether it finds malware. Raises ScannerSilent, OSError where it does not say, or would not have looked."""
        try:
            size = max(path.stat().st_size, tarfile.RECORDSIZE)
            with self._lock:
                self._require_looks(size)
            with path.open("rb") as file:
                found = self._says_found(chunks(file), size)
        except OSError as error:
            self.why_silent = f"clamd: {error}"
            self._seen_bytes = 0  # another one may be there when it is asked again
            raise
        self.why_silent = None
        return found

    def _require_looks(self, size: int) -> None:
        """Once for each size that is the largest so far, and from time to time: its settings may change."""
        if size <= self._seen_bytes and self._clock() < self._seen_until:
            return
        if not self._says_found(_test_file(size), size):
            raise ScannerSilent(
                f"it does not find the EICAR test file in a tar of {size} bytes: its database is empty, its "
                "MaxFileSize or MaxScanSize is too small, or ScanArchive is off"
            )
        self._seen_bytes, self._seen_until = size, self._clock() + limits.CLAMD_SEEN_S

    def _says_found(self, pieces: Iterator[bytes], size: int) -> bool:
        """What it says of a stream (INSTREAM)."""
        answer = b""
        with socket.create_connection(self._address, timeout=limits.CLAMD_TIMEOUT_S) as line:
            line.sendall(b"zINSTREAM\0")
            for piece in pieces:
                line.sendall(_LENGTH.pack(len(piece)) + piece)
            line.sendall(_LENGTH.pack(0))
            line.settimeout(limits.CLAMD_TIMEOUT_S + size / limits.CLAMD_BYTES_S)
            while not answer.endswith(b"\0") and len(answer) < limits.CLAMD_ANSWER_BYTES_MAX:
                if not (data := line.recv(limits.CLAMD_ANSWER_BYTES_MAX)):
                    break
                answer += data
        said = answer.rstrip(b"\0")
        if said == _CLEAN:
            return False
        if said.endswith(_FOUND) and not said.startswith(_NOT_LOOKED_AT):
            return True
        raise ScannerSilent(said[:100].decode(errors="replace") or "it hung up")


def _test_file(size: int) -> Iterator[bytes]:
    """A tar of this size, with EICAR in it and zeros behind."""
    entry = tarfile.TarInfo("eicar.com")
    entry.size = len(EICAR)
    packed = entry.tobuf(tarfile.USTAR_FORMAT) + EICAR
    yield packed
    left = size - len(packed)
    while left > 0:
        yield bytes(min(left, limits.MEDIA_CHUNK_BYTES))
        left -= limits.MEDIA_CHUNK_BYTES
