"""By which meter usage is counted, and the digest of the events of a sum, in whatever order they are read. Pure.

The meter of version 1: the quantity is the sum over the events of one tenant and dimension from an instant on and
before another, each identity (tenant, source, id) counted once, with its first content. The digest is of all that they
say: of each the SHA-256 of tenant, source, id, dimension, subject (or nothing), quantity and instant (microseconds
since 1970), joined by 0x1f, of which Postgres sums the first and the second 8 bytes.
"""

from __future__ import annotations

from typing import Final

METER_VERSION: Final = 1
_WORD: Final = 2**64


def digest(high: int, low: int) -> str:
    """32 hex digits of both sums, each modulo 2^64, so whether their bytes were read as signed or not is the same.

    Digests of different events add up, and no event cancels another. It tells events that are missing, too many or
    changed; it is no signature: who chooses identities by trying could build others with the same one.
    """
    return f"{int(high) % _WORD:016x}{int(low) % _WORD:016x}"
