"""Varnish in front of the media origin, with purges by key (varnish-modules), where the operator asks for it."""

from __future__ import annotations

import http.client
import shutil
import signal
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from compose import limits as compose_limits
from compose.stack.errors import StackError
from compose.stack.home import write_private
from compose.stack.ports import LOOPBACK
from schemas.social import limits as social_limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OK: Final = 200


@dataclass(slots=True)
class Varnish:
    """Copies of what everybody may see, in memory: all of it may be lost at any time."""

    data: Path
    port: int
    origin_port: int
    purge_key: str = field(repr=False)
    name: str = "media_cache"
    stop_signal: signal.Signals = signal.SIGTERM

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def _rules(self) -> Path:
        return self.data / "media_cache.vcl"

    def prepare(self) -> None:
        """Writes the rules. Raises StackError where there is no Varnish."""
        varnishd()
        self.data.mkdir(parents=True, exist_ok=True)
        text = (resources.files("compose.stack") / "media_cache.vcl").read_text()
        said = {
            "host": LOOPBACK,
            "port": self.origin_port,
            "fetch_s": social_limits.MEDIA_CACHE_FETCH_S,
            "key": self.purge_key,
        }
        for name, value in said.items():
            text = text.replace(f"@{name}@", str(value))
        write_private(self._rules, text)

    def command(self) -> Sequence[str]:
        """The server in the foreground, without an interface for commands."""
        storage = f"malloc,{social_limits.MEDIA_CACHE_BYTES}"
        head = [varnishd(), "-F", "-j", "none", "-n", str(self.data / "work"), "-a", self.address]
        return [*head, "-f", str(self._rules), "-s", storage, "-T", "none", "-p", "vcc_allow_inline_c=off"]

    def environment(self) -> Mapping[str, str]:
        """Nothing is added."""
        return {}

    def unhealthy(self) -> str | None:
        """None once it answers by itself."""
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=compose_limits.HEALTH_CHECK_TIMEOUT_S)
        try:
            connection.request("GET", "/cache-alive")
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return str(error) or type(error).__name__
        finally:
            connection.close()
        return None if status == _OK else f"answers {status}"

    def initialize(self) -> None:
        """Nothing: copies come with requests."""


def varnishd() -> str:
    """The program. Raises StackError where it is not installed."""
    found = shutil.which("varnishd") or shutil.which("varnishd", path="/usr/sbin")
    if found is None:
        raise StackError("no varnishd found: install varnish and varnish-modules, or unset MILLRACE_MEDIA_CACHE")
    return found
