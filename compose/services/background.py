"""Services that give way to the others (``compose.stack.niceness``): nobody waits for their answers."""

from __future__ import annotations

from typing import Final

from compose.settings.service_processes import WORKERS

BACKGROUND: Final = frozenset(
    {"clickhouse_sink", "processor_worker", "webhook_worker", "merchant_webhooks", "simulator"}
    | {"limiter_usage", "limiter_leases", *WORKERS}
)
