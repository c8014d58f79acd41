"""The identity of an HTTP request that its caller chooses: a retry is not charged, and repeating it for ever is.

Source: reference limiter 2.2 ("retries without an identity"), draft-ietf-httpapi-idempotency-key-header.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from schemas.limiter import limits

if TYPE_CHECKING:
    from starlette.types import Scope

_KEY: Final = b"idempotency-key"
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def idempotency_key(scope: Scope) -> str | None:
    """What a request is charged under once: its method, path and Idempotency-Key, where it has one key and is no read.

    The application answers such a repetition with what it did before, or refuses it: nothing is had for free.
    """
    given = [value for name, value in scope["headers"] if name == _KEY]
    if len(given) != 1 or not given[0] or scope["method"] in _READS:
        return None
    path = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
    named = b"\0".join((scope["method"].encode(), path, scope.get("query_string", b""), given[0]))
    return hashlib.sha256(named).hexdigest()


class Repetitions:
    """How often each identity came again lately. Bounded: the one that was longest quiet makes room."""

    def __init__(self) -> None:
        self._counted: OrderedDict[tuple[str, ...], int] = OrderedDict()

    def charged(self, identity: tuple[str, ...]) -> None:
        """It consumed: what comes again from now on is counted anew."""
        self._counted.pop(identity, None)

    def is_one_too_many(self, identity: tuple[str, ...]) -> bool:
        """Counts one more; whether so many are no retries any more."""
        count = self._counted.pop(identity, 0) + 1
        self._counted[identity] = count
        if len(self._counted) > limits.LIMIT_REPEATED_MAX:
            self._counted.popitem(last=False)
        return count > limits.LIMIT_REPETITIONS_FREE_MAX
