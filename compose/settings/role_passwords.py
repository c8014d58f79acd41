"""The passwords of the roles of Postgres, where several machines share an external server."""

from __future__ import annotations

from pydantic import SecretStr
from pydantic_settings import BaseSettings


class RolePasswords(BaseSettings):
    """One for each role of ``sinks/postgres/roles.py``; what is not set is made in the home."""

    postgres_owner_password: SecretStr | None = None
    postgres_limiter_owner_password: SecretStr | None = None
    postgres_ingress_password: SecretStr | None = None
    postgres_worker_password: SecretStr | None = None
    postgres_settlement_password: SecretStr | None = None
    postgres_leases_password: SecretStr | None = None
    postgres_tenancy_owner_password: SecretStr | None = None
    postgres_tenancy_mover_password: SecretStr | None = None
    postgres_tenancy_metering_password: SecretStr | None = None
    postgres_tenancy_monitor_password: SecretStr | None = None
    postgres_social_owner_password: SecretStr | None = None
    postgres_social_worker_password: SecretStr | None = None
    postgres_social_scanner_password: SecretStr | None = None
    postgres_social_media_password: SecretStr | None = None
    postgres_social_propagation_password: SecretStr | None = None
    postgres_social_eraser_password: SecretStr | None = None
    postgres_sink_password: SecretStr | None = None
    postgres_operator_password: SecretStr | None = None
    postgres_console_password: SecretStr | None = None
    postgres_vault_password: SecretStr | None = None
    postgres_reader_password: SecretStr | None = None
