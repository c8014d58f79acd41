"""The identity of an HTTP request that its caller chooses: a retry is not charged, and repeating it for ever is.

Source: reference limiter 2.2 ("retries without an identity"), draft-ietf-httpapi-idempotency-key-header.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Scope

_KEY: Final = b"idempotency-key"
_DIGEST: Final = b"content-digest"
_BODY: Final = (b"content-length", b"transfer-encoding")
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


def or_fingerprint(window_s: float, now_s: Callable[[], float] = time.time) -> Callable[[Scope], str | None]:
    """``idempotency_key``; for a request that has none what makes it look like a retry, within ``window_s``.

    Opt-in, for two requests that are meant to be two are one, too: of one client and credentials, the same method,
    path, query and body within one window of that length. A body is known by its Content-Digest alone: without one
    nothing is taken for its retry. A retry past the end of the window is charged again.
    """

    def identity_of(scope: Scope) -> str | None:
        found = idempotency_key(scope)
        if found is not None:
            return found
        told = dict(scope["headers"])
        digest = told.get(_DIGEST, b"")
        if any(told.get(name, b"0") != b"0" for name in _BODY) and not digest:
            return None
        path = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
        client = str((scope.get("client") or ("",))[0]).encode()
        window = str(int(now_s() / window_s)).encode()
        of_client = (client, told.get(b"authorization", b""), told.get(b"cookie", b""))
        named = (scope["method"].encode(), path, scope.get("query_string", b""), digest, *of_client, window)
        return hashlib.sha256(b"".join(len(part).to_bytes(4) + part for part in named)).hexdigest()

    return identity_of


class Repetitions:
    """How often each identity came again lately. Bounded: the one that was longest quiet makes room. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted: OrderedDict[tuple[str, ...], int] = OrderedDict()

    def charged(self, identity: tuple[str, ...]) -> None:
        """It consumed: what comes again from now on is counted anew."""
        with self._lock:
            self._counted.pop(identity, None)

    def is_one_too_many(self, identity: tuple[str, ...]) -> bool:
        """Counts one more; whether so many are no retries any more."""
        with self._lock:
            count = self._counted.pop(identity, 0) + 1
            self._counted[identity] = count
            if len(self._counted) > limits.LIMIT_REPEATED_MAX:
                self._counted.popitem(last=False)
        return count > limits.LIMIT_REPETITIONS_FREE_MAX
