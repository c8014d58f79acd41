"""What the stream of decisions keeps of a policy: its ``audit`` setting. Totals are exact whatever it says.

``full``: every decision is a row. ``denied+sampled 1/n``: every refusal, and of what was allowed the requests whose
identity hashes to 0 of n, each with weight n. ``denied``: refusals only. ``aggregate``: no rows.
Source: reference limiter 4.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

import xxhash

#: for the schema of the API; the number is at most LIMIT_AUDIT_ONE_IN_MAX
PATTERN: Final = r"^(full|denied|aggregate|denied\+sampled 1/[1-9][0-9]{0,5})$"
_PATTERN: Final = re.compile(PATTERN)
_REASON: Final = "must be full, denied, aggregate, or denied+sampled 1/n with n from 1 to 999999"


class Auditing(NamedTuple):
    """Which decisions become rows: of ``one_in`` allowed ones one, 0 = none."""

    keeps_denied: bool
    one_in: int

    @property
    def is_full(self) -> bool:
        """Whether every decision becomes a row."""
        return self.one_in == 1

    @property
    def is_sampled(self) -> bool:
        """Whether a request's identity decides."""
        return self.one_in > 1


FULL: Final = Auditing(keeps_denied=True, one_in=1)


@lru_cache(1_024)
def auditing(text: str) -> Auditing:
    """What a valid setting means."""
    if text == "full":
        return FULL
    _, _, one_in = text.partition("/")
    return Auditing(keeps_denied=text != "aggregate", one_in=int(one_in) if one_in else 0)


def wrong_audit(value: object) -> str | None:
    """Why a value is no setting, or None."""
    return None if isinstance(value, str) and _PATTERN.fullmatch(value) else _REASON


def is_in_sample(one_in: int, identity: str) -> bool:
    """Whether a request is in a sample of one in so many: the same at every gateway, for it and all of its retries."""
    return xxhash.xxh3_64_intdigest(identity.encode(errors="surrogatepass")) % one_in == 0
