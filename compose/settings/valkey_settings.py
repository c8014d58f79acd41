"""Valkey's part of the settings: who our processes are there, and what they prove it with."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from compose.settings.home_settings import HomeSettings
from compose.settings.store_transport import StoreTransport
from compose.settings.valkey_access import KINDS, users
from compose.stack.errors import StackError
from sinks.redis.user import url_as

if TYPE_CHECKING:
    from sinks.redis.user import RedisUser


class ValkeySettings(StoreTransport, HomeSettings):
    """What an operator may set about users of Valkey; where it is, ``StoreTransport`` says."""

    #: by kind of process, as a JSON object: it is then a user of its own there, as at the embedded server
    redis_passwords: dict[str, SecretStr] = Field(default_factory=dict)

    def refused_address(self) -> str | None:
        """Why an address is refused, or the passwords beside it."""
        if fault := super().refused_address():
            return fault
        wrong = self._wrong_passwords() if self.redis_passwords else None
        return None if wrong is None else f"MILLRACE_REDIS_PASSWORDS is wrong: {wrong}"

    def _wrong_passwords(self) -> str | None:
        unknown = sorted(self.redis_passwords.keys() - set(KINDS))
        missing = [kind for kind in KINDS if kind not in self.redis_passwords]
        given = [secret.get_secret_value() for secret in self.redis_passwords.values()]
        if self.redis_url is None:
            return "the embedded Valkey has passwords of its own; set MILLRACE_REDIS_URL"
        if _names_somebody(self.redis_url.get_secret_value()):
            return "MILLRACE_REDIS_URL has a name or password in it: leave them out there"
        if unknown:
            return f"there is no kind of process {', '.join(unknown)}; there are {', '.join(KINDS)}"
        if missing:
            return f"give one for {', '.join(missing)}, too"
        if not all(given) or len({*given}) < len(given):
            return "each kind of process needs a password, and one of its own"
        return None

    def knows_valkey_users(self) -> bool:
        """Whether each kind of process is a user of its own where counters are: then it may load nothing there."""
        return self.redis_url is None or bool(self.redis_passwords)

    def redis_password(self, kind: str) -> str:
        """That of one kind of process; no other is opened."""
        if self.redis_url is None:
            return self.the_home().secret(f"redis_{kind}")
        return self.redis_passwords[kind].get_secret_value()

    def valkey_users(self) -> list[RedisUser]:
        """Whom servers of the limiter's shards know: for the supervisor and the shell alone. Raises StackError."""
        if not self.knows_valkey_users():
            raise StackError("everybody is whom MILLRACE_REDIS_URL names: set MILLRACE_REDIS_PASSWORDS")
        return users(self.redis_password)

    def counters_as(self, kind: str, url: str) -> str:
        """The server of the counters as such a process."""
        return url_as(url, kind, self.redis_password(kind)) if self.knows_valkey_users() else url

    def homes_as(self, kind: str, url: str) -> str:
        """A server of homes alone: whom its URL names, or else such a process, where passwords were given."""
        return url if _names_somebody(url) or not self.redis_passwords else self.counters_as(kind, url)


def _names_somebody(url: str) -> bool:
    parts = urlsplit(url)
    return parts.username is not None or parts.password is not None
