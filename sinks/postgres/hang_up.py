"""Ends the wait for a server that says nothing: it is stopped, or the way to it is cut off.

Its own statement timeout never comes then. A cancelled task would wait on for some seconds, for a server that is asked
to cancel: the connection is shut down instead, and the wait ends as with one that was lost.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg
import psycopg_pool

if TYPE_CHECKING:
    from collections.abc import Iterator


class NoAnswer(psycopg.OperationalError):
    """The server did not answer in time; whether it did what it was asked, nobody knows."""


#: how a pool, a statement's own timeout and ``answered_within`` say that nothing came in time: it is not asked again
TOO_SLOW: Final = (psycopg.errors.QueryCanceled, NoAnswer, psycopg_pool.PoolTimeout, psycopg_pool.TooManyRequests)


@contextmanager
def answered_within(connection: psycopg.AsyncConnection[Any], timeout_s: float) -> Iterator[None]:
    """What is asked of the connection here is answered in time, or raises NoAnswer; it is of no more use then."""
    hung_up = False

    def hang_up() -> None:
        nonlocal hung_up
        if not connection.closed:
            hung_up = True
            with socket.socket(fileno=os.dup(connection.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)

    timer = asyncio.get_running_loop().call_later(timeout_s, hang_up)
    try:
        yield
    except psycopg.OperationalError as error:
        if hung_up:
            raise NoAnswer(f"no answer within {timeout_s} s") from error
        raise
    finally:
        timer.cancel()
