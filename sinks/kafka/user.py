"""A user of a broker of ours: a name and a password, and what it may write, read and join."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

#: of every client of ours but the broker itself: a password never crosses the wire, nor does the broker store it
MECHANISM: Final = "SCRAM-SHA-512"
#: who may do anything: the broker itself and the supervisor, and a person at the shell with our tools
BROKER: Final = "broker"
OPERATOR: Final = "operator"
#: analysts and scripts: what is told to everybody who may look
READER: Final = "reader"


class KafkaUser(Struct, frozen=True, kw_only=True):
    """One user; topics and groups as they are called in the cluster, groups by how their names begin."""

    name: str
    password: str
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()  # groups whose members it may see, and not be one of
    sees_rules: bool = False  # who may do what

    def __repr__(self) -> str:
        return f"KafkaUser({self.name!r})"


def credentials(user: str, password: str) -> dict[str, str]:
    """The settings by which librdkafka makes a client of a broker on this machine."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": MECHANISM,
        "sasl.username": user,
        "sasl.password": password,
    }
