"""Reference rates in the public system, as two persons publish them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.worlds.public_system import Merchant, PublicSystem

PATH = "/v1/reference_rates/policies"


def publish_rates(public: PublicSystem, operator: Merchant, other: Merchant) -> None:
    """A euro is 162 yen, by half a percent; owners read it within seconds."""
    now = datetime.now(UTC)
    times = {"as_of": (now - timedelta(minutes=1)).isoformat(), "valid_until": (now + timedelta(hours=1)).isoformat()}
    document = {"source": "the bank", "rates": {"EUR/JPY": {"rate": "162", "band_bps": 50}}} | times
    with public.policies():
        newest = operator.http.get(PATH, params={"limit": 1}).json()["data"]
        document |= {"expected_version": newest[0]["version"] if newest else 0}
        said = [person.http.post(PATH, json=document).status_code for person in (operator, operator, other)]
        assert said == [202, 202, 201]
