"""What a forked process has of its own, what nobody inherits, and what happens when the fork server does not fork."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from compose.stack.processes import marked
from compose.supervise.fork_server import Order
from compose.supervise.forking import ForkRefusedError, ForkServer
from tests.eventually import becomes, eventually, patient
from tests.starts import begin_server

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="executed elsewhere")

TELLS = """
import json, os, random, signal, sys, threading, uuid
print(json.dumps({
    "pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0), "folder": os.getcwd(), "argv": sys.argv[1:],
    "environment": dict(os.environ), "drawn": random.random(), "threads": threading.active_count(),
    "open": sorted(int(n) for n in os.listdir("/proc/self/fd"))[:-1], "blocked": list(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "modules": "compose.services.owner" in sys.modules,
    "compiled": "schemas.avro.codec" in sys.modules and all(
        "decoder" in vars(schema) for schema in sys.modules["schemas.avro.codec"].schemas_by_id().values()),
    "command": open("/proc/self/cmdline").read(), "proc_environment": open("/proc/self/environ").read(),
}), flush=True)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    made = begin_server()
    yield made
    made.end()


class Shell:
    """Runs programs from a folder through one server."""

    def __init__(self, server: ForkServer, folder: Path) -> None:
        self.server, self.folder, self.log = server, folder, folder / "log"

    def run(self, program: str, *words: str, **environment: str) -> int:
        script = self.folder / "program.py"
        script.write_text(program)
        command = [sys.executable, str(script), *words]
        child = self.server.spawn(command, environment=environment, log=self.log, folder=self.folder)
        self.pid = child.pid
        return child.wait(patient(20))

    def told(self) -> dict[str, Any]:
        return dict(json.loads(self.log.read_text().splitlines()[-1]))


@pytest.fixture
def shell(server: ForkServer, tmp_path: Path) -> Shell:
    return Shell(server, tmp_path)


def serving(folder: Path, modules: list[str]) -> list[str]:
    """The command of a server of other modules than ours."""
    script = folder / "serves.py"
    script.write_text(
        "import socket, sys; sys.path[:0] = [sys.argv[1], '.']; from compose.supervise.fork_server import serve\n"
        f"serve(socket.socket(fileno=int(sys.argv[2])), {modules!r})"
    )
    return [str(script), str(folder)]


def test_it_is_a_process_as_any_other(shell: Shell) -> None:
    assert shell.run(TELLS, "--port", "1", SHARED="a") == 0
    first = shell.told()
    assert shell.run(TELLS, MARK="m") == 0
    second = shell.told()
    assert first["pid"] != second["pid"]
    for told in (first, second):
        assert (told["parent"], told["session"], told["folder"]) == (os.getpid(), told["pid"], str(shell.folder))
        assert (told["threads"], told["open"], told["blocked"]) == (1, [0, 1, 2], [])
        assert (told["modules"], told["compiled"]) == (True, True), "each child would do it again"
    assert first["argv"] == ["--port", "1"]
    assert first["command"].split("\0")[:-1] == [sys.executable, str(shell.folder / "program.py"), "--port", "1"]
    assert second["environment"] == {**os.environ, "MARK": "m"}
    assert dict(entry.split("=", 1) for entry in second["proc_environment"].split("\0")[:-1]) == second["environment"]
    assert first["drawn"] != second["drawn"], "both draw from one state"


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("raise SystemExit(7)", 7),
        ("raise SystemExit(259)", 3),
        ("raise SystemExit", 0),
        ("raise SystemExit('words')", 1),
        ("raise KeyError", 1),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
    ],
)
def test_who_started_it_takes_its_exit_status(shell: Shell, program: str, status: int) -> None:
    assert shell.run(program) == status


ENDS = """
import atexit, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
def late(word):
    time.sleep(0.1)  # the program is over by then, and waits; nothing here tells when
    sys.stdout.write(word + " ")
atexit.register(sys.stdout.write, "exit ")
threading.Thread(target=late, args=("thread",)).start()
ThreadPoolExecutor().submit(late, "pool")
sys.stdout.write("main ")
raise SystemExit("words")
"""


def test_nothing_that_an_interpreter_does_at_its_end_is_left_out(shell: Shell) -> None:
    """Its threads and pools are waited for, its exit functions called, and all that was written is there."""
    assert shell.run(ENDS) == 1
    *before, last = shell.log.read_text().split()
    assert (sorted(before), last) == (["main", "pool", "thread", "words"], "exit")
    assert (shell.run(ENDS.replace('"words"', "")), shell.log.read_text().count("exit")) == (0, 2)


def test_the_server_never_holds_what_a_child_was_given(shell: Shell) -> None:
    """Nor does a later child, whose memory is the server's."""
    secret = f"only-{os.urandom(8).hex()}"
    assert shell.run("import os; assert os.environ['SECRET']", SECRET=secret) == 0
    assert held(shell.server.process.pid, secret) == 0
    assert held(os.getpid(), secret) > 0, "it would be found"


def held(pid: int, text: str) -> int:
    """How often the text stands in the writable memory of a process."""
    found = 0
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            where, rights, *_ = line.split()
            begin, end = (int(part, 16) for part in where.split("-"))
            if rights.startswith("rw"):
                memory.seek(begin)
                found += (memory.read(end - begin) or b"").count(text.encode())
    return found


def test_a_mark_in_its_environment_finds_it(shell: Shell) -> None:
    mark = os.urandom(16).hex()
    script = shell.folder / "sleeps.py"
    script.write_text("import time; time.sleep(60)")
    command = [sys.executable, str(script)]
    child = shell.server.spawn(command, environment={"MARK": mark}, log=shell.log, folder=shell.folder)
    becomes(lambda: [process.pid for process in marked(mark)], [child.pid], what="it is found")
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait(patient(20)) == -signal.SIGKILL


def test_a_long_order_is_executed(shell: Shell) -> None:
    long = {f"LONG{n}": "x" * 100_000 for n in range(2)}
    assert shell.run(TELLS, **long) == 0
    assert shell.told()["modules"] is False
    assert shell.run(TELLS) == 0
    assert shell.told()["modules"] is True


def test_a_killed_server_is_no_loss(tmp_path: Path) -> None:
    """What it forked goes on, and is its starter's to wait for; what comes is executed."""
    server = begin_server(*serving(tmp_path, []))
    shell = Shell(server, tmp_path)
    script = tmp_path / "waits.py"
    script.write_text("import sys; sys.exit(len(sys.stdin.read()))")
    read_end, write_end = os.pipe()
    order = Order([sys.executable, str(script)], dict(os.environ), str(tmp_path), [0, 1, 2], leads_session=True)
    child = server.fork(order, [read_end, 1, 2])
    os.close(read_end)
    # killed before it lets the child go on, it takes the child along
    eventually(lambda: script.name in Path(f"/proc/{child}/cmdline").read_text(), what="the child runs")
    os.kill(server.process.pid, signal.SIGKILL)
    with pytest.raises(ForkRefusedError):
        server.fork(order, [0, 1, 2])
    assert shell.run(TELLS) == 0
    assert shell.told()["modules"] is False
    os.write(write_end, b"four")
    os.close(write_end)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    server.end()


def test_a_server_with_a_second_thread_forks_nothing(tmp_path: Path) -> None:
    """A lock that the other thread held would stay locked for ever in the child."""
    (tmp_path / "threaded.py").write_text(
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"
    )
    server = begin_server(*serving(tmp_path, ["threaded"]))
    order = Order([sys.executable, "-m", "json"], dict(os.environ), str(tmp_path), [0, 1, 2], leads_session=True)
    with pytest.raises(ForkRefusedError):
        server.fork(order, [0, 1, 2])
    server.end()
