"""Where servers and services listen unless a setting or another program is in the way; by names of settings."""

from __future__ import annotations

from typing import Final

#: preferred ports; a busy one is replaced by a free one unless it was set
PREFERRED_PORTS: Final = {
    "kafka_port": 9092,
    "kafka_controller_port": 9093,
    "postgres_port": 5432,
    "redis_port": 6379,
    "clickhouse_port": 8123,
    "ingress_port": 8080,
    "processor_port": 8081,
    "vault_port": 8082,
    "rls_port": 8083,
    "media_port": 8084,
}
#: where the ports of further simulators begin
FURTHER_SIMULATORS: Final = 8_091
