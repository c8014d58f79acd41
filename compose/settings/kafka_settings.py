"""Kafka's part of the settings: who our processes are there, and what they prove it with."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import Field, SecretStr, model_validator

from compose.settings.addresses import secret_text
from compose.settings.home_settings import HomeSettings
from compose.settings.kafka_access import ACCESS
from compose.settings.store_transport import StoreTransport
from sinks.kafka.copies import Copies
from sinks.kafka.sender_keys import SenderKeys
from sinks.kafka.user import OPERATOR, KafkaUser, credentials

_REPLICAS_MAX: Final = 32


class KafkaSettings(StoreTransport, HomeSettings):
    """What an operator may set about users of Kafka; where it is, ``StoreTransport`` says."""

    #: begins the name of every topic and consumer group: several installations then share one cluster
    kafka_prefix: str = Field(default="", pattern=r"^[a-zA-Z0-9._-]{0,64}$")
    #: how many brokers have each record, and how many must before it is acknowledged; None: as the cluster does
    kafka_replication_factor: int | None = Field(default=None, ge=1, le=_REPLICAS_MAX)
    kafka_min_insync_replicas: int | None = Field(default=None, ge=1, le=_REPLICAS_MAX)
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    kafka_sasl_username: str | None = None
    kafka_sasl_password: SecretStr | None = None
    #: by kind of process, as a JSON object: it is then a user of its own name there, as at the embedded broker
    kafka_sasl_passwords: dict[str, SecretStr] = Field(default_factory=dict)
    kafka_ssl_ca_location: Path | None = None
    kafka_ssl_certificate_location: Path | None = None
    kafka_ssl_key_location: Path | None = None
    kafka_ssl_key_password: SecretStr | None = None

    @model_validator(mode="after")
    def _has_enough_replicas(self) -> KafkaSettings:
        replicas, in_sync = self.kafka_replication_factor, self.kafka_min_insync_replicas
        if in_sync is not None and (replicas is None or in_sync > replicas):
            raise ValueError(
                "MILLRACE_KAFKA_MIN_INSYNC_REPLICAS is wrong: MILLRACE_KAFKA_REPLICATION_FACTOR must be as many or more"
            )
        if self.kafka_bootstrap is None and max(replicas or 1, in_sync or 1) > 1:
            raise ValueError(
                "MILLRACE_KAFKA_REPLICATION_FACTOR is wrong: the embedded Kafka is one broker;"
                " set MILLRACE_KAFKA_BOOTSTRAP"
            )
        return self

    def kafka_copies(self) -> Copies:
        """What topics are made with."""
        return Copies(self.kafka_replication_factor, self.kafka_min_insync_replicas)

    def kafka_security(self, user: str = OPERATOR) -> dict[str, str]:
        """The security options of a Kafka client, by librdkafka's names.

        At the embedded broker each kind of process is a user of its own; at another those that the settings name are.
        """
        if self.kafka_bootstrap is None:
            return credentials(user, self.the_home().secret(f"kafka_{user}"))
        if self.kafka_security_protocol == "PLAINTEXT":
            return {}
        sasl = self.kafka_security_protocol.startswith("SASL")
        own = self.kafka_sasl_passwords.get(user)
        options = {
            "security.protocol": self.kafka_security_protocol,
            "sasl.mechanism": self.kafka_sasl_mechanism if sasl else None,
            "sasl.username": self.kafka_sasl_username if own is None else user,
            "sasl.password": secret_text(self.kafka_sasl_password if own is None else own),
            "ssl.ca.location": _text(self.kafka_ssl_ca_location),
            "ssl.certificate.location": _text(self.kafka_ssl_certificate_location),
            "ssl.key.location": _text(self.kafka_ssl_key_location),
            "ssl.key.password": secret_text(self.kafka_ssl_key_password),
        }
        return {name: value for name, value in options.items() if value is not None}

    def sender_keys(self) -> SenderKeys:
        """The keys of producers of commands: an owner reads them all."""
        return SenderKeys(self.the_home().path / "keys" / "senders")

    def kafka_users(self) -> list[KafkaUser]:
        """Whom the embedded broker knows: for the supervisor alone."""
        home = self.the_home()
        users = [a.user(name, home.secret(f"kafka_{name}"), self.kafka_prefix) for name, a in ACCESS.items()]
        return [*users, KafkaUser(name=OPERATOR, password=home.secret(f"kafka_{OPERATOR}"))]


def _text(value: Path | None) -> str | None:
    return None if value is None else str(value)
