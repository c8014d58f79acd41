"""What can be replayed is named to whoever asks for something else, before any store is asked."""

from __future__ import annotations

import pytest

from reconciliation.contract.checked_service import checked
from reconciliation.replay.run import ReplaySettings, run_replay, targets
from reconciliation.replay.source import Start
from schemas.services import BY_NAME
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.kafka.connection import KafkaConnection


@pytest.mark.parametrize(
    ("service", "said"),
    [("payments", "there are account_balance, .*clickhouse.events"), ("tenancy", "it has none$")],
)
def test_a_service_names_its_projections_or_says_that_it_has_none(service: str, said: str) -> None:
    settings = ReplaySettings(
        postgres_dsn="", kafka=KafkaConnection(bootstrap=""), clickhouse=ClickHouseConnection(url=""),
        of=checked(BY_NAME[service]),
    )  # fmt: skip
    with pytest.raises(ValueError, match=f"no projection 'other' of {service}; {said}"):
        run_replay(settings, "other", Start())
    assert ("clickhouse" in targets(settings.of)) == (service == "payments")
