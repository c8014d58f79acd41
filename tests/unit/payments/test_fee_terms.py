"""Which of the published versions a merchant is told of: the one that its owner reckons by, and those that will begin."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dataflows.payments.domain.policies.fees import FeeSchedule, FeeVersion, schedule_of
from ingress.payments.merchants import fee_terms
from schemas.payments.policies.fee_policy import FeePolicy, FeeTerms

NOW = 1_000
_times = st.lists(st.integers(0, 2 * NOW), max_size=6)


def newest_first(times: list[int]) -> list[dict[str, Any]]:
    return [{"version": n, "effective_at": at} for n, at in reversed(list(enumerate(times, 1)))]


@given(_times)
def test_the_terms_told_are_those_that_an_owner_reckons_by_now_and_later(times: list[int]) -> None:
    versions = newest_first(times)
    kept = tuple(FeeVersion(v["version"], v["effective_at"], policy(v["version"])) for v in versions)
    for at in (NOW, *(t for t in times if t > NOW)):
        reckoned = schedule_of(kept, "m", "USD", at, FeeSchedule(platform_bps=0)).platform_bps
        told = fee_terms.in_force(versions, NOW)
        for later in fee_terms.upcoming(versions, NOW):
            told = later if later["effective_at"] <= at else told
        assert (told["version"] if told else 0) == reckoned
    begins = [row["effective_at"] for row in fee_terms.upcoming(versions, NOW)]
    assert begins == sorted(set(begins))


def policy(version: int) -> FeePolicy:
    return FeePolicy(effective_at=datetime(2026, 1, 1, tzinfo=UTC), default=FeeTerms(bps=version))
