"""How far the clock of this process is from a store's: windows are the store's, calendars and expiry are this one's.

Counters go by the store's clock alone. Ours says which window of a calendar is asked for, until when ``closed``
policies owe what a failover lost, and when a snapshot has expired: when it is wrong, no answer shows it. So both are
compared, and the operator hears of it. Source: reference limiter 2.8.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from sinks.redis.line import command

if TYPE_CHECKING:
    from collections.abc import Callable

    from sinks.redis.line import Line

_TIME: Final = command(b"TIME")
_US_PER_S: Final = 1_000_000
_PARTS: Final = 2  # of the answer: seconds, and microseconds of the next one


async def ahead_s(line: Line, now_s: Callable[[], float] = time.time) -> float | None:
    """By how much our clock is ahead of the store's, negative when it is behind; None when the store does not say.

    Raises LineLost.
    """
    asked_s = now_s()
    answer = await line.send(_TIME)
    answered_s = now_s()
    if not isinstance(answer, list) or len(answer) != _PARTS:
        return None
    return surely_ahead_s(asked_s, answered_s, answer[0] + answer[1] / _US_PER_S)


def surely_ahead_s(asked_s: float, answered_s: float, store_s: float) -> float:
    """The least difference that explains the answer: a store that was slow to answer is not one whose clock is off."""
    if store_s < asked_s:
        return asked_s - store_s
    return min(0.0, answered_s - store_s)
