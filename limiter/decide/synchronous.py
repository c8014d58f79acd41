"""The limiter for code without an event loop: WSGI applications, scripts, threads. Same guarantees, blocking calls.

One thread runs the limiter's loop and maintains it. Every other thread hands it a question and waits, within the bounds
of ``Limiter.check``. That costs tens of microseconds, so an asyncio process uses ``Limiter`` directly. Threads do not
survive a fork: a process that forks must make its limiter afterwards. One from before a fork raises instead of hanging.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from limiter.store.store import StoreUnavailable
from schemas.errors import InvariantViolation, Overloaded, Unavailable
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType
    from typing import Self

    from limiter.decide.limiter import Limiter
    from limiter.policy.policies import PolicySet
    from limiter.spending.decision import Decision

Answer = TypeVar("Answer")
_CLOSED: Final = "The limiter is closed."


class SyncLimiter:
    """A limiter that any thread may ask; ``made`` opens it and its parts on the loop, and closes them.

    ``with SyncLimiter(made) as limiter: limiter.check("t", "u", "/r")``. A caller that is not answered
    in time gets Unavailable; only the request's identity tells what was consumed. Too many at once get Overloaded.
    """

    def __init__(
        self,
        made: Callable[[], AbstractAsyncContextManager[Limiter]],
        *,
        waiting_max: int = limits.LIMIT_SYNC_WAITING_MAX,
        timeout_s: float = limits.LIMIT_SYNC_TIMEOUT_S,
    ) -> None:
        self._made = made
        self._timeout_s = timeout_s
        self._places = threading.BoundedSemaphore(waiting_max)
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._limiter: Limiter | None = None
        self._started: Future[None] = Future()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="limiter", daemon=True)
        self._thread.start()
        self._started.result()  # raises here what ``made`` raised

    @property
    def policies(self) -> PolicySet:
        """The policies in use. Raises Unavailable once it is closed."""
        return self._open().policies

    def check(
        self,
        tenant: str,
        user: str,
        route: str,
        cost: int = 1,
        request_id: str | None = None,
        network: str | None = None,
    ) -> Decision:
        """As ``Limiter.check``. Raises Unavailable and Overloaded too."""
        return self._asked(lambda limiter: limiter.check(tenant, user, route, cost, request_id, network))

    def holds_permits(self, tenant: str, user: str, route: str, network: str | None = None) -> bool:
        """As ``Limiter.holds_permits``. Raises Unavailable and Overloaded too."""
        if not self.policies.has_permits:
            return False

        async def held(limiter: Limiter) -> bool:  # keys belong to the loop
            return limiter.holds_permits(tenant, user, route, network)

        return self._asked(held)

    def refund(self, tenant: str, user: str, route: str, request_id: str, network: str | None = None) -> int:
        """As ``Limiter.refund``. Raises Unavailable and Overloaded too."""
        return self._asked(lambda limiter: limiter.refund(tenant, user, route, request_id, network))

    def release(
        self, tenant: str, user: str, route: str, request_id: str, cost: int = 1, network: str | None = None
    ) -> int:
        """As ``Limiter.release``. Raises Unavailable and Overloaded too."""
        return self._asked(lambda limiter: limiter.release(tenant, user, route, request_id, cost, network))

    def close(self) -> None:
        """Gives back what is held; a second call does nothing."""
        if self._limiter is None or os.getpid() != self._pid:
            return
        self._limiter = None
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _open(self) -> Limiter:
        if os.getpid() != self._pid:
            raise InvariantViolation("This limiter was made before a fork: make one in every process.")
        if threading.current_thread() is self._thread:
            raise InvariantViolation("This is the limiter's own loop: it would wait for itself.")
        if self._limiter is None:
            raise Unavailable(_CLOSED)
        return self._limiter

    def _asked(self, ask: Callable[[Limiter], Coroutine[Any, Any, Answer]]) -> Answer:
        limiter = self._open()
        if not self._places.acquire(blocking=False):
            raise Overloaded(cause="too many threads wait for the limiter")
        try:
            return self._answer(ask(limiter))
        finally:
            self._places.release()

    def _answer(self, asked: Coroutine[Any, Any, Answer]) -> Answer:
        try:
            answer = asyncio.run_coroutine_threadsafe(asked, self._loop)
        except RuntimeError as error:  # it was closed a moment ago
            asked.close()
            raise Unavailable(_CLOSED) from error
        try:
            return answer.result(self._timeout_s)
        except TimeoutError as error:
            answer.cancel()
            raise Unavailable(cause="no decision in time") from error
        except CancelledError as error:
            raise Unavailable(_CLOSED) from error

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # cancels what is left and logs why
                runner.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        async with self._made() as limiter:
            self._limiter = limiter
            self._started.set_result(None)
            while not self._ended.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._ended.wait(), limits.LIMIT_MAINTAIN_S)
                with suppress(StoreUnavailable):  # then later
                    await limiter.maintain()
            with suppress(StoreUnavailable):  # then the store charges held leases whole, in time
                await limiter.close()
