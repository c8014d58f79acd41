"""Starts and stops a stack from another program: the CLI, the demo and the tests use nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compose import limits as compose_limits
from compose.settings.limiter_gateways import gateway_address, running_gateways
from compose.settings.secret_files import handed_over, secret_fields
from compose.settings.unknown_variables import PREFIX
from compose.stack import processes
from compose.stack.errors import AnotherSupervisorError, StackError
from compose.supervise import guard
from compose.supervise.state import ANOTHER_RUNS, STACK_ID_VARIABLE, StackState, read_state
from schemas.payments.processors import adapter_of
from schemas.social import limits as social_limits
from sinks import limits as sinks_limits
from sinks.kafka.user import OPERATOR, READER

if TYPE_CHECKING:
    from collections.abc import Callable

    from compose.settings.settings import Settings
    from compose.stack.home import Home

#: supervisors that this process started, kept until they ended so that their exit status is taken
_started: list[processes.ChildProcess] = []


def up(
    settings: Settings,
    *,
    servers_only: bool = False,
    tied: bool | Path = False,
    progress: Callable[[StackState], None] | None = None,
) -> StackState:
    """The stack of this home runs and is ready; starts it unless it does already. Raises ``StackError``.

    ``tied``: the stack ends with the calling process, however that ends; with a FIFO's path, when the last of the
    processes ended that hold it open for writing.
    """
    home = settings.the_home()
    deadline = time.monotonic() + compose_limits.STACK_START_TIMEOUT_S
    while True:
        expected = _running(home, servers_only=servers_only)
        if expected is None:
            expected = _launch(settings, home, servers_only=servers_only, tied=tied)
        try:
            return _wait_ready(home, expected, deadline, progress)
        except AnotherSupervisorError:  # somebody else started it in the same moment
            if time.monotonic() > deadline:
                raise


def _running(home: Home, *, servers_only: bool) -> processes.ProcessId | None:
    """The supervisor of the stack that runs here and is not about to stop."""
    state = read_state(home)
    if state is not None and state.running() and state.phase == "stopping":
        _wait_stopped(state, compose_limits.STACK_STOP_TIMEOUT_S)
        state = read_state(home)
    if state is None or not state.running():
        return None
    if state.servers_only and not servers_only:
        raise StackError(f"the stack in {home.path} runs its servers only: run 'millrace down' first")
    return state.supervisor


def _launch(settings: Settings, home: Home, *, servers_only: bool, tied: bool | Path) -> processes.ProcessId:
    home.prepare()
    command = [sys.executable, "-m", "compose.supervise"]
    if servers_only:
        command.append("--servers-only")
    keep: tuple[int, ...] = ()
    if tied:
        read_end = _lifeline(tied)
        keep = (read_end,)
        command += ["--lifeline", str(read_end)]
    # Where this runs inside a service of another stack, its mark must not be inherited.
    secret = secret_fields(type(settings))
    environment = handed_over(settings, secret) | {STACK_ID_VARIABLE: ""}
    secrets = {f"{PREFIX}{name.upper()}" for name in secret}
    handle = processes.spawn(
        command, environment=environment, without=secrets, log=home.log("supervisor"), folder=Path.cwd(), keep=keep
    )
    for descriptor in keep:
        os.close(descriptor)
    _started.append(handle)
    return processes.identify(handle.pid)


def _lifeline(tied: Path | bool) -> int:
    """What the supervisor reads the end of when those that it is tied to have ended."""
    if isinstance(tied, Path):
        return os.open(tied, os.O_RDONLY | os.O_NONBLOCK)
    read_end, _write_end = os.pipe()  # the write end stays open, in this process alone, until it ends
    return read_end


def _reap() -> None:
    _started[:] = [handle for handle in _started if handle.poll() is None]


def _wait_ready(
    home: Home,
    supervisor: processes.ProcessId | None,
    deadline: float,
    progress: Callable[[StackState], None] | None,
) -> StackState:
    while time.monotonic() < deadline:
        alive = supervisor is not None and supervisor.alive()
        state = read_state(home)
        if state is not None and state.supervisor == supervisor:
            if progress is not None:
                progress(state)
            if state.phase in {"ready", "degraded"}:
                return state
            if state.error and not alive:
                _reap()
                raise StackError(state.error)
        if not alive:
            if supervisor is not None and _found_another(supervisor):
                raise AnotherSupervisorError(home.path)
            _reap()
            log = home.log("supervisor")
            raise StackError(f"the supervisor ended: {processes.last_line(log)} (log: {log})")
        time.sleep(sinks_limits.HEALTH_POLL_INTERVAL_S)
    raise StackError(
        f"not ready within {compose_limits.STACK_START_TIMEOUT_S} s: see 'millrace status' and {home.logs}"
    )


def _found_another(supervisor: processes.ProcessId) -> bool:
    """Whether this one, which we started, ended because another keeps the home."""
    return any(handle.poll() == ANOTHER_RUNS for handle in _started if handle.pid == supervisor.pid)


def is_started_here(state: StackState) -> bool:
    """Whether this very process started that stack: nobody else may end it without being told to."""
    return any(state.supervisor == processes.identify(handle.pid) for handle in _started)


def down(settings: Settings) -> bool:
    """Nothing of this home's stack runs afterwards; False when nothing ran before either."""
    state = read_state(settings.the_home())
    if state is None:
        return False
    if state.running():
        supervisor = state.supervisor
        if supervisor is not None:
            processes.send(supervisor, signal.SIGTERM)
        if not _wait_stopped(state, compose_limits.STACK_STOP_TIMEOUT_S) and supervisor is not None:
            processes.send(supervisor, signal.SIGKILL)
            processes.wait_gone([supervisor], compose_limits.HEALTH_CHECK_TIMEOUT_S)
            guard.clean_up(read_state(settings.the_home()) or state)
            _forget_given(settings.the_home())
        _reap()
        return True
    left = guard.clean_up(state)
    _forget_given(settings.the_home())
    return bool(left)


def _forget_given(home: Home) -> None:
    """A supervisor that was killed has left what it was given; nobody is left to read it."""
    shutil.rmtree(home.given_secrets, ignore_errors=True)


def _wait_stopped(state: StackState, within_s: float) -> bool:
    ours = [entry.process for entry in state.processes if entry.kind == "supervisor" and entry.process is not None]
    return not processes.wait_gone(ours, within_s)


def world(settings: Settings, state: StackState) -> dict[str, Any]:
    """What ``millrace up --json`` prints: addresses with the credentials of the development stack, and processes."""
    addresses = settings.addresses()
    found: dict[str, Any] = {
        "home": str(settings.the_home().path),
        "kafka_bootstrap": addresses.kafka_bootstrap,
        "redis_url": addresses.redis_url,
        "social_homes_url": addresses.social_homes_url,
        "kafka_security": {}
        if settings.kafka_bootstrap  # whom its operator knows
        else settings.kafka_security(OPERATOR if state.servers_only else READER),
        "clickhouse_url": addresses.clickhouse_url if state.servers_only else addresses.clickhouse_reader_url,
        "services": [_service(entry) for entry in state.processes if entry.pid is not None],
        "ops": {entry.name: f"{entry.ops_url}/metrics" for entry in state.processes if entry.ops_url},
    }
    if state.servers_only:
        return found | {"postgres_dsn": addresses.postgres_superuser_dsn}
    return found | {
        "postgres_dsn": addresses.postgres_reader_dsn,
        "base_url": addresses.base_url,
        "processor_url": addresses.processor_url,
        "processor_urls": addresses.processor_urls,
        "vault_url": addresses.vault_url,
        "media_url": addresses.media_url,
        "rls_address": addresses.rls_address,
        "push_followers_max": social_limits.PUSH_FOLLOWERS_MAX,
        "limiter_frames": gateway_address(settings, 0).as_object(),
        "limiter_gateways": [
            gateway.as_object() for gateway in running_gateways(settings, [entry.name for entry in state.processes])
        ],
        "webhook_secrets": {n: s for n, s in settings.webhook_secrets().items() if adapter_of(n) != "simulator"},
    }


def _service(entry: Any) -> dict[str, Any]:
    found = {"name": entry.name, "pid": entry.pid, "kind": entry.kind}
    return found | ({"url": entry.address} if entry.address else {})
