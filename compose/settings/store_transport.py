"""Where external servers are, and whether what our processes tell them can be read on the way."""

from __future__ import annotations

from typing import Final, Literal
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr, model_validator

from compose.settings.issuer_settings import IssuerSettings
from schemas.this_machine import is_here

_POSTGRES_TLS: Final = ("require", "verify-ca", "verify-full")
_OF_CLICKHOUSE: Final = (("https", "http"), "https://user:password@host:port/database")
_OF_VALKEY: Final = (("rediss", "redis", "unix"), "rediss://user:password@host:port/0")
#: what a URL may begin with, and how one looks
_FORMS: Final = {
    "postgres_dsn": (("postgresql", "postgres"), "postgresql://user:password@host:port/database"),
    "redis_url": _OF_VALKEY,
    "social_homes_url": _OF_VALKEY,
    "clickhouse_url": _OF_CLICKHOUSE,
    "clickhouse_reader_url": _OF_CLICKHOUSE,
}


class StoreTransport(IssuerSettings):
    """Addresses of Kafka, Postgres, Valkey and ClickHouse elsewhere; one that is set replaces the embedded server."""

    kafka_bootstrap: str | None = None
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    #: a superuser's (or database owner's) URL: migrations create the roles with it; sslmode and sslrootcert go in it
    postgres_dsn: SecretStr | None = None
    postgres_address: str | None = None  # the same without user and password: all that our processes are told of it
    redis_url: SecretStr | None = None  # rediss:// for TLS
    #: where homes of social posts lie; without it beside the counters, at the server of ``redis_url``
    social_homes_url: SecretStr | None = None
    clickhouse_url: SecretStr | None = None  # https:// for TLS; user, password and database stand in it
    #: the same server as a user that only reads, for analysts: ``millrace up`` prints it
    clickhouse_reader_url: SecretStr | None = None

    @model_validator(mode="after")
    def _are_addresses(self) -> StoreTransport:
        if fault := self.refused_address():
            raise ValueError(fault)
        return self

    def refused_address(self) -> str | None:
        """Why one of these addresses is refused: it is none, or is read on the way.

        Rule: in production nothing of ours crosses a network in the clear.
        """
        for name, (schemes, form) in _FORMS.items():
            url: SecretStr | None = getattr(self, name)
            if url is not None and not _is_url(url.get_secret_value(), schemes):
                return f"MILLRACE_{name.upper()} is wrong: give a URL: {form}"
        plain = {
            "MILLRACE_KAFKA_BOOTSTRAP": (self._is_plain_kafka(), "MILLRACE_KAFKA_SECURITY_PROTOCOL=SASL_SSL"),
            "MILLRACE_POSTGRES_DSN": (self._is_plain_postgres(), "sslmode=verify-full in it"),
            "MILLRACE_REDIS_URL": (_is_plain_url(self.redis_url, "rediss"), "a rediss:// address"),
            "MILLRACE_SOCIAL_HOMES_URL": (_is_plain_url(self.social_homes_url, "rediss"), "a rediss:// address"),
            "MILLRACE_CLICKHOUSE_URL": (_is_plain_url(self.clickhouse_url, "https"), "an https:// address"),
            "MILLRACE_CLICKHOUSE_READER_URL": (
                _is_plain_url(self.clickhouse_reader_url, "https"),
                "an https:// address",
            ),
        }
        for name, (is_plain, remedy) in plain.items():
            if is_plain and self.is_production:
                return f"{name} leads over a network in the clear: production needs {remedy}"
        return None

    def _is_plain_kafka(self) -> bool:
        if self.kafka_bootstrap is None or self.kafka_security_protocol in ("SSL", "SASL_SSL"):
            return False
        servers = (server.strip().rpartition(":")[0] for server in self.kafka_bootstrap.split(","))
        return not all(is_here(host) for host in servers)

    def _is_plain_postgres(self) -> bool:
        address = self.postgres_address if self.postgres_dsn is None else self.postgres_dsn.get_secret_value()
        if address is None:
            return False
        try:
            said = conninfo_to_dict(address)
        except psycopg.ProgrammingError:
            return True  # nobody can tell
        hosts = str(said.get("hostaddr") or said.get("host") or "").split(",")
        return said.get("sslmode") not in _POSTGRES_TLS and not all(is_here(host) for host in hosts)


def _is_url(text: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises ValueError for what is no number
    except ValueError:
        return False
    return parts.scheme in schemes and bool(parts.netloc or parts.path)


def _is_plain_url(url: SecretStr | None, encrypted: str) -> bool:
    if url is None:
        return False
    parts = urlsplit(url.get_secret_value())
    return parts.scheme not in (encrypted, "unix") and not is_here(parts.hostname or "")
