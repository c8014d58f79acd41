"""Starts a stack side by side, keeps it running, stops it in order: services drain first, servers follow."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Final

from compose import limits
from compose.settings.secret_files import forget_others, secret_fields
from compose.stack import processes
from compose.stack.errors import AnotherSupervisorError, StackError
from compose.stack.ports import PortLeases
from compose.stack.varnish import NOT_INSTALLED
from compose.supervise import guard
from compose.supervise.child import Child
from compose.supervise.disk_reserve import DiskReserve
from compose.supervise.long_logs import LongLogs
from compose.supervise.plan import assign_ports, embedded_servers, server_spec, service_specs
from compose.supervise.state import Condition, Phase, ProcessState, StackState, read_state

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from compose.settings.settings import Settings
    from compose.stack.home import Home
    from compose.stack.server import EmbeddedServer
    from compose.supervise.counter_stores import StoreTexts
    from compose.supervise.forking import ForkServer

_STARTERS_MAX: Final = 16


class Supervisor:
    """One run of a stack; of its servers only, without a fork server.

    ``run`` is the whole life; the lock in the home makes it the only one.
    """

    def __init__(
        self, settings: Settings, stack_id: str, fork_server: ForkServer | None, *, lifeline: int | None
    ) -> None:
        self._settings = settings
        self._home: Home = settings.the_home()
        self._fork_server = fork_server
        self._servers_only = fork_server is None
        self._lifeline = lifeline
        self._stack_id = stack_id
        self._phase: Phase = "starting"
        self._error = ""
        self._servers: list[Child] = []
        self._services: list[Child] = []
        self._guard: processes.ProcessId | None = None
        self._lifeline_of_guard: guard.Lifeline | None = None
        self._reserve = DiskReserve(self._home)
        self._logs = LongLogs(self._home)
        self._texts: StoreTexts | None = None  # without users of their own, processes load what they call
        self._leases = PortLeases()  # held for the life of this process
        self._writing = Lock()
        self._stop_asked = False

    def run(self) -> int:
        """Serves until a stop is asked or the start fails; the exit status says which."""
        self._home.prepare()
        with self._home.lock_file.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AnotherSupervisorError(self._home.path) from None
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._ask_stop)
            return self._run_locked()

    def _run_locked(self) -> int:
        left = read_state(self._home)
        if left is not None:
            guard.clean_up(left)
        forget_others(self._settings, secret_fields(type(self._settings)))
        guard_handle, self._lifeline_of_guard = guard.start(self._home)
        self._guard = processes.identify(guard_handle.pid)
        self._write()
        try:
            self._start()
            self._phase = "ready"
            self._write()
            _say("ready")
            self._watch()
        except StackError as error:
            self._error = str(error)
            _say(str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing may be left behind
            self._error = f"{type(error).__name__}: {error} (log: {self._home.log('supervisor')})"
            _say(self._error)
        self._stop()
        self._lifeline_of_guard.close()
        guard_handle.wait(limits.SERVICE_STOP_TIMEOUT_S)
        return 1 if self._error else 0

    def _ask_stop(self, *_: object) -> None:
        self._stop_asked = True

    def _stopping(self) -> bool:
        if self._lifeline is not None and select.select([self._lifeline], [], [], 0)[0]:
            self._stop_asked = True  # the program that started us is gone
        return self._stop_asked

    # --- start -------------------------------------------------------------------------------------------

    def _start(self) -> None:
        ports = assign_ports(self._settings, self._leases, servers_only=self._servers_only)
        servers = embedded_servers(self._settings, ports)
        if self._settings.may_have_media_cache() and "media_cache_port" not in ports:
            _say(NOT_INSTALLED)
        self._servers = [Child(server_spec(self._settings, server, self._stack_id)) for server in servers]
        _side_by_side(self._start_server, self._servers, servers)
        if not self._servers_only:
            self._prepare_data()
            self._start_services()
            _side_by_side(self._await, self._services)

    def _start_services(self) -> None:
        specs = service_specs(self._settings, self._leases, self._stack_id, self._fork_server)
        self._services = [Child(spec) for spec in specs]
        for child in self._services:
            child.start()
            self._write()

    def _start_server(self, child: Child, server: EmbeddedServer) -> None:
        server.prepare()
        child.start()
        self._write()
        self._await(child)
        server.initialize()

    def _await(self, child: Child) -> None:
        child.wait_ready(self._stopping)
        self._write()
        _say(f"{child.spec.name} is ready")

    def _prepare_data(self) -> None:
        from compose.supervise.counter_stores import StoreTexts, begin_shards  # noqa: PLC0415 - servers alone need none
        from compose.supervise.tenant_secrets import begin_contexts  # noqa: PLC0415
        from schemas.errors import InvariantViolation, Unavailable  # noqa: PLC0415
        from sinks.kafka.topics import ensure_topics  # noqa: PLC0415
        from sinks.postgres.migrate import NotMigratedError, migrate  # noqa: PLC0415
        from sinks.tenancy import store_files  # noqa: PLC0415

        addresses = self._settings.addresses()
        try:
            migrate(addresses.postgres_superuser_dsn, self._settings.role_passwords())
        except NotMigratedError as error:
            raise StackError(str(error)) from error
        begin_contexts(self._settings)
        for placement_id, why in store_files.ensure_all(
            addresses.postgres_superuser_dsn, addresses.postgres_dsns
        ).items():
            _say(f"the database of placement {placement_id} is not served until 'millrace migrate': {why}")
        try:
            ensure_topics(addresses.kafka, self._settings.kafka_copies())
        except (InvariantViolation, Unavailable) as error:
            raise StackError(str(error)) from error
        self._settings.sender_keys().ensure()  # before an owner asks who may send
        encrypted = self._settings.is_production
        if refused := begin_shards(addresses, encrypted=encrypted):
            _say(refused)
        if self._settings.knows_valkey_users():
            self._texts = StoreTexts(addresses, encrypted=encrypted)
            if missing := self._texts.load():
                _say(missing)

    # --- run ---------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Looks after everything until a stop is asked. A question may wait for its answer: all are asked at once."""
        with ThreadPoolExecutor(_STARTERS_MAX) as pool:
            while not self._stopping():
                if not self._home.lock_file.exists():
                    raise StackError(f"the home {self._home.path} was removed: everything that ran in it is stopped")
                self._look_after_the_rest()
                due = [child for child in (*self._servers, *self._services) if child.is_due()]
                found = zip(due, pool.map(Child.check, due), strict=True)
                changed = [child for child, has_changed in found if has_changed]
                for child in changed:
                    _say(f"{child.spec.name}: {child.condition}{' - ' if child.note else ''}{child.note}")
                if changed:
                    self._phase = "ready" if self._all_ready() else "degraded"
                    self._write()
                elif self._lifeline_of_guard is not None:
                    self._lifeline_of_guard.follow_up()
                time.sleep(limits.SUPERVISOR_TICK_S)

    def _all_ready(self) -> bool:
        return all(child.condition == "ready" for child in (*self._servers, *self._services))

    def _look_after_the_rest(self) -> None:
        texts = None if self._texts is None else self._texts.look()
        for said in (self._reserve.look(), self._logs.look(), texts):
            if said is not None:
                _say(said)

    # --- stop --------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        self._phase = "stopping"
        self._write()
        for children, within_s in (
            (self._services, limits.SERVICE_STOP_TIMEOUT_S),
            (self._servers, limits.SERVER_STOP_TIMEOUT_S),
        ):
            running = [(child.process, child.spec.stop_signal) for child in children if child.process is not None]
            killed = processes.stop(running, within_s)
            for child in children:
                child.reap()
                child.condition = "stopped"
                if child.process is not None and child.process.pid in killed:
                    _say(f"{child.spec.name} did not end within {within_s} s and was killed")
        if self._fork_server is not None:
            self._fork_server.end()
        if self._texts is not None:
            self._texts.close()
        shutil.rmtree(self._home.given_secrets, ignore_errors=True)  # nobody is left to read them
        self._reserve.give_back()
        self._phase = "failed" if self._error else "stopped"
        self._write()
        _say(self._phase)

    def _write(self) -> None:
        with self._writing:
            own = processes.identify(os.getpid())
            states = [_own_state("supervisor", own)]
            if self._guard is not None:
                states.append(_own_state("guard", self._guard))
            if self._fork_server is not None:
                states.append(_own_state("fork_server", self._fork_server.process))
            states += [child.state() for child in (*self._servers, *self._services)]
            state = StackState(
                stack_id=self._stack_id,
                phase=self._phase,
                servers_only=self._servers_only,
                error=self._error,
                processes=states,
            )
            if self._lifeline_of_guard is not None:
                self._lifeline_of_guard.tell(state)
            if self._home.run.is_dir():  # else it was removed, and what runs must still be stopped
                self._store(state)

    def _store(self, state: StackState) -> None:
        """A disk that takes no more is no reason to stop what still runs; the next change is written again."""
        try:
            state.write(self._home)
        except OSError as error:
            _say(f"the state could not be written: {error}")


def _side_by_side(start: Callable[..., None], *arguments: Sequence[object]) -> None:
    """Calls ``start`` with each at once and waits for all; raises the first failure after the others settled."""
    with ThreadPoolExecutor(_STARTERS_MAX) as pool:
        starts = [pool.submit(start, *each) for each in zip(*arguments, strict=True)]
        errors = [done.exception() for done in starts]
    first = next((error for error in errors if error is not None), None)
    if first is not None:
        raise first


def _own_state(name: str, process: processes.ProcessId) -> ProcessState:
    condition: Condition = "ready" if process.alive() else "stopped"
    return ProcessState(name=name, kind="supervisor", pid=process.pid, started=process.started, condition=condition)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # a log on a full disk
        print(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {line}", file=sys.stderr, flush=True)
