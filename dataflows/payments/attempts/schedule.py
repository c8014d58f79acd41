"""When an attempt is due again. Pure: waits in milliseconds out of counts, by the tables of ``limits``."""

from __future__ import annotations

from typing import Final

from schemas.payments import limits

_SECOND_MS: Final = 1_000
#: how long an attempt may stay in doubt before a person has to look at it
DOUBT_MAX_S: Final = sum(limits.ATTEMPT_POLL_SCHEDULE_S)


def poll_delay_ms(unknown_count: int) -> int | None:
    """The wait before the next query after so many earlier unknown outcomes; None past the schedule."""
    if unknown_count >= len(limits.ATTEMPT_POLL_SCHEDULE_S):
        return None
    return limits.ATTEMPT_POLL_SCHEDULE_S[unknown_count] * _SECOND_MS


def action_delay_ms() -> int:
    """The wait before it is asked again what a payer has done."""
    return limits.ATTEMPT_ACTION_POLL_S * _SECOND_MS


def retry_delay_ms(send_count: int, jitter: float) -> int:
    """The wait after a call that was proved not executed: doubling, bounded, spread by ``jitter`` from 0 to 1."""
    exponent = min(max(send_count - 1, 0), limits.ATTEMPT_RETRY_MAX_MS.bit_length())  # no huge powers
    ceiling = min(limits.ATTEMPT_RETRY_FIRST_MS << exponent, limits.ATTEMPT_RETRY_MAX_MS)
    return round(ceiling * (1 + jitter) / 2)


def confirm_delay_ms() -> int:
    """The wait for a fact's event before the fact is produced again."""
    return limits.ATTEMPT_CONFIRM_SCHEDULE_S[0] * _SECOND_MS
