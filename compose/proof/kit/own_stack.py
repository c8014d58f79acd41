"""A stack of one's own for a demo or a benchmark: a temporary home, ports that nobody prefers, and no trace afterwards.

The stack is tied to the calling process: also after ``kill -9`` no process of it stays.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from compose.settings.settings import SERVICES, Settings, load_settings
from compose.settings.unknown_variables import PREFIX
from compose.stack.errors import StackError
from compose.stack.home import write_private
from compose.stack.ports import PortLeases
from compose.supervise import launch
from compose.supervise.state import read_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from compose.supervise.state import StackState

#: settings of a shell that would lead away from the own stack
_LEADS_AWAY: Final = (
    "kafka_bootstrap",
    "postgres_dsn",
    "postgres_passwords",
    "redis_url",
    "redis_passwords",
    "social_homes_url",
    "clickhouse_url",
    "services",
)


class OwnStack:
    """The running stack; ``world`` is what ``millrace up --json`` prints."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.home = settings.the_home().path
        self.keep = False  # set, the stack and its home stay when the block ends

    @property
    def world(self) -> dict[str, Any]:
        """Addresses and processes as they are now."""
        state = read_state(self.settings.the_home())
        if state is None or not state.running():
            raise StackError(f"the stack in {self.home} has ended: see {self.settings.the_home().log('supervisor')}")
        return launch.world(self.settings, state)

    def pids(self, prefix: str) -> dict[str, int]:
        """Name to pid of the processes whose name begins so, as the supervisor last wrote it."""
        return {entry["name"]: entry["pid"] for entry in self.world["services"] if entry["name"].startswith(prefix)}


def forget_other_servers() -> list[str]:
    """Takes settings out of this process's environment that point at other servers; returns their names."""
    names = [f"{PREFIX}{name.upper()}" for name in _LEADS_AWAY]
    return [name for name in names if os.environ.pop(name, None) is not None]


@contextmanager
def own_stack(
    name: str,
    *,
    tied: bool = True,
    owners: int = 2,
    ingresses: int = 2,
    services: tuple[str, ...] = SERVICES,
    changes: Mapping[str, object] | None = None,
    progress: Callable[[StackState], None],
) -> Iterator[OwnStack]:
    """A ready stack for the time of the block. Raises ``StackError`` in one line when it cannot start.

    Without ``tied`` it may outlive this process, for one who sets ``keep``. ``changes`` are further settings.
    """
    try:
        home = Path(tempfile.mkdtemp(prefix=f"millrace-{name}-"))
    except OSError as error:
        raise StackError(
            f"no temporary folder: {error.strerror}; free some disk or set TMPDIR to another one"
        ) from error
    stack: OwnStack | None = None
    with _home_in_environment(home):
        settings = load_settings(home).model_copy(
            update={"owner_processes": owners, "ingress_processes": ingresses, "services": services, **(changes or {})}
        )
        try:
            _choose_ports(settings)
            launch.up(settings, tied=tied, progress=progress)
            stack = OwnStack(settings)
            yield stack
        finally:
            if stack is None or not stack.keep:
                _remove(settings, home)


@contextmanager
def _home_in_environment(home: Path) -> Iterator[None]:
    """Whatever loads its settings in this process meanwhile finds this home."""
    name = f"{PREFIX}HOME"
    before = os.environ.get(name)
    os.environ[name] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _choose_ports(settings: Settings) -> None:
    """Free ports in place of the preferred ones, which belong to a stack that somebody works with."""
    settings.the_home().prepare()
    leases = PortLeases()
    ports = {name: leases.take_any() for name in settings.preferred_ports()}
    write_private(settings.the_home().ports_file, json.dumps(ports))


def _remove(settings: Settings, home: Path) -> None:
    # A second Ctrl-C must not leave half of it behind; every wait inside is bounded.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        launch.down(settings)
        shutil.rmtree(home, ignore_errors=True)
    finally:
        signal.signal(signal.SIGINT, before)
