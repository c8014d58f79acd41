"""The lease by which a process opens keys of tenants, and says up to which shred it has forgotten what it held.

Pure: who has a connection asks what ``asking`` gives, and tells ``answered`` what the database said. Guarantee: once
the database has an acknowledgement, or takes a lease for ended, that process opens nothing of the shredded tenant's any
more. A lease counts from before it was asked for, by this machine's own clock, and is looked at with each use: whoever
stood still over its end has nothing to open with, whatever lies in its memory.
"""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from schemas import errors
from schemas.tenancy import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TAKEN: Final = "key_lease_taken"
KEPT: Final = "key_lease_kept"
LEFT: Final = "key_lease_left"
_ID_BYTES: Final = 12
_NEVER: Final = float("-inf")


def awake_or_not() -> float:
    """Seconds by a clock that nobody sets, also of the time that the machine slept, where there is such a clock."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


@dataclass(frozen=True, slots=True)
class Asking:
    """One question to the database: the name of a statement, and what it is given."""

    statement: str
    given: Mapping[str, object]
    asked_at: float


class KeyLease:
    """The leases of one process, one after the other. One thread at a time asks; others may use what is open."""

    def __init__(
        self, instance: str, forget: Callable[[], None] = lambda: None, clock: Callable[[], float] = awake_or_not
    ) -> None:
        """``forget`` drops every key that is open; it is called before that is acknowledged."""
        #: who opens or uses keys in another thread than the one that asks holds this meanwhile
        self.using = threading.Lock()
        self._instance = instance
        self._forget = forget
        self._clock = clock
        self._holder = ""
        self._acked = 0
        self._gone: set[str] = set()
        self._held: tuple[int, float] = (0, _NEVER)  # which lease, and until when

    @property
    def term(self) -> int | None:
        """The number of the lease that is held now: what was read under another one opens nothing."""
        number, until = self._held
        return number if self._clock() < until else None

    def require(self, tenant_id: str, term: int | None) -> None:
        """Raises KeyShredded for a tenant whose shred was heard of, Unavailable when that lease is not held."""
        if tenant_id in self._gone:
            raise errors.KeyShredded
        if term is None or term != self.term:
            raise errors.Unavailable("The lease on keys of tenants has ended; try again.", tenant=tenant_id)

    def asking(self) -> Asking:
        """Another lease where none is held, else that it goes on."""
        asked_at = self._clock()
        lease_s = limits.KEY_LEASE_S
        if self.term is not None:
            return Asking(KEPT, {"holder": self._holder, "acked": self._acked, "lease_s": lease_s}, asked_at)
        self._end()
        self._holder = f"kh_{secrets.token_hex(_ID_BYTES)}"
        return Asking(TAKEN, {"holder": self._holder, "instance": self._instance, "lease_s": lease_s}, asked_at)

    def answered(self, asking: Asking, rows: Sequence[tuple[Any, ...]]) -> bool:
        """Whether to ask again at once: to acknowledge what was heard, or as there is no lease."""
        number, _ = self._held
        until = asking.asked_at + limits.KEY_LEASE_S
        if asking.statement == TAKEN:
            self._acked = rows[0][0]
            self._held = (number + 1, until)
            return False
        if not rows or self.term is None:  # an answer that comes behind the end revives nothing: it counted as ended
            self._end()
            return True
        heard = [(seq, tenant_id) for seq, tenant_id in rows if seq is not None]
        if heard:
            with self.using:
                self._gone.update(tenant_id for _, tenant_id in heard)
                self._forget()
            self._acked = max(seq for seq, _ in heard)
        self._held = (number, until)
        return bool(heard)

    def leaving(self) -> Asking:
        """What tells that this process holds nothing any more; it does not, from here on."""
        self._end()
        return Asking(LEFT, {"holder": self._holder}, self._clock())

    def _end(self) -> None:
        with self.using:
            self._held = (self._held[0], _NEVER)
            self._forget()
