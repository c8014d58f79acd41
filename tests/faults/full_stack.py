"""Load on the whole system while something of it is broken on purpose, and the proof that nothing was lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compose.proof.kit.acknowledged import Acknowledgements
from compose.stack.processes import descendants, send
from compose.supervise.state import StackState, read_state
from ingress.client import MillraceClient, MillraceClientError
from ingress.identity.issuer import SCOPES_DEFAULT, KeyFolder, issue_token
from tests import asked
from tests.eventually import becomes, eventually, patient
from tests.freezing import freeze
from tests.gate import PROOF

if TYPE_CHECKING:
    from compose.settings.settings import Settings

MILLRACE = str(Path(sys.executable).with_name("millrace"))
#: of a payer between payments: in the gate, other tests need the cores too
_PAUSE_S = 0.0 if PROOF else 0.05


@dataclass
class System:
    """A whole Millrace with all its processes, and merchants that keep paying."""

    settings: Settings
    world: dict[str, Any]
    folder: Path
    stopping: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)
    confirmed: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    killed: set[int] = field(default_factory=set)

    def run(self, *arguments: str, check: bool = True) -> str:
        """The CLI, as a user would type it."""
        done = subprocess.run(
            [MILLRACE, *arguments],
            env=os.environ | self.settings.environment(),
            capture_output=True,
            text=True,
            timeout=patient(90),
            check=False,
        )
        assert not check or done.returncode == 0, f"{arguments}: {done.stdout[-500:]}{done.stderr[-500:]}"
        return done.stdout

    def client(self, merchant: str) -> MillraceClient:
        """A client of one merchant."""
        return MillraceClient(self.world["base_url"], self.token(merchant))

    def token(self, merchant: str) -> str:
        """A token of the development issuer, as `millrace token` prints it."""
        return issue_token(KeyFolder(self.settings.the_home().path / "keys"), merchant, SCOPES_DEFAULT)

    def state(self) -> StackState:
        """What the supervisor says of every process."""
        state = read_state(self.settings.the_home())
        assert state is not None
        return state

    def pids(self, name: str) -> list[int]:
        """The processes of that name, as they are now."""
        return [p.pid for p in self.state().processes if p.pid and name in {p.name, p.name.rpartition("-")[0]}]

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """A signal to every process of that name."""
        for pid in self.pids(name):
            freeze(pid) if number is signal.SIGSTOP else os.kill(pid, number)
            if number in (signal.SIGKILL, signal.SIGQUIT):
                self.killed.add(pid)

    def crash(self, name: str) -> None:
        """kill -9 of a server with all its children, which would take leave of their clients."""
        (server,) = [p.process for p in self.state().processes if p.name == name]
        assert server is not None
        for process in (server, *descendants(server)):
            send(process, signal.SIGKILL)
        self.killed.add(server.pid)

    def whole_again(self) -> bool:
        """Every process that was killed has a successor, and all processes are ready."""
        return all(p.condition == "ready" and p.pid not in self.killed for p in self.state().processes)

    # --- load ------------------------------------------------------------------------------------------------

    def start_paying(self, payers: int = 3) -> None:
        """Threads that create and confirm payments until told to stop, writing down every committed answer."""
        for n in range(payers):
            merchant = f"m_{uuid.uuid4().hex[:8]}"
            client = self.client(merchant)
            thread = threading.Thread(target=self._pay, args=(merchant, client, self.folder / f"acks-{n}.ndjson"))
            self.threads.append(thread)
            thread.start()
        eventually(lambda: len(self.confirmed) > 5, 30, what="payments flow")

    def _pay(self, merchant: str, client: MillraceClient, file: Path) -> None:
        acknowledgements = Acknowledgements(file)
        try:
            with client:
                while not self.stopping.is_set():
                    key = uuid.uuid4().hex
                    try:
                        made = client.create(
                            amount=1_234, currency="USD", payment_method="tok_sim_approve", idempotency_key=f"{key}c"
                        )
                        acknowledgements.note(merchant, f"{key}c", made)
                        confirmed = client.confirm(made.result["id"], idempotency_key=f"{key}f")
                        acknowledgements.note(merchant, f"{key}f", confirmed)
                    except MillraceClientError as error:
                        if error.__class__.__name__ not in {"Undecided", "ServiceUnavailable"}:
                            self.unexpected.append(repr(error))
                        continue
                    self.confirmed.append(made.result["id"])
                    self.stopping.wait(_PAUSE_S)
        finally:
            acknowledgements.close()

    def more_payments(self, count: int = 20, within_s: float = 45, after: str = "a fault") -> None:
        """All processes are there again and new payments go through: the system serves again."""
        eventually(self.whole_again, within_s, what=f"every process is there after {after}")
        goal = len(self.confirmed) + count
        eventually(lambda: len(self.confirmed) >= goal, within_s, what=f"the system serves again after {after}")

    def stop_paying(self) -> None:
        """Load ends: a call that is under way has all its tries first, and what it hears is noted like the rest."""
        self.stopping.set()
        for thread in self.threads:
            thread.join(patient(90))
        assert not any(thread.is_alive() for thread in self.threads), "somebody still pays"
        self.threads.clear()
        self.stopping.clear()

    # --- proof -----------------------------------------------------------------------------------------------

    def assert_nothing_lost(self, *, may_fail: bool = False) -> None:
        """Every confirmed payment has succeeded, and `millrace check` finds no gap, with every 2xx looked for.

        ``may_fail``: a processor was away, and for longer than an attempt tries where it surely never arrived. The payer
        is told so and can try again; that is final, too.
        """
        self.stop_paying()
        assert self.unexpected == []
        becomes(lambda: self._open_payments(may_fail=may_fail), [], 60, what="every payment final")
        eventually(self.whole_again, 60, what="every process up, as the check reads all of them")
        together = self.folder / "acks.ndjson"
        together.write_text("".join(p.read_text() for p in self.folder.glob("acks-*.ndjson")))
        becomes(self._not_in_clickhouse, 0, 60, what="the sink has taken over from one that was killed")
        recovered = f"recovered-{uuid.uuid4().hex[:8]}"
        self.run("checkpoints", "create", recovered)
        report = json.loads(self.run("check", "--json", "--acknowledged", str(together), check=False))
        assert report["gaps"] == 0, [i for i in report["invariants"] if i["gaps"]]
        assert json.loads(self.run("checkpoints", "show", recovered, "--json"))["reconciliation_status"] == "clean"

    def _not_in_clickhouse(self) -> int:
        """Events; while the lease of a killed sink runs a check says that the sink stands still, which is true."""
        ((waiting,),) = asked.rows(
            self.settings.addresses().postgres_reader_dsn,
            "select count(*) from outbox o join stream_position s using (topic, partition)"
            " where s.follower = 'clickhouse' and o.seq > s.last_seq",
        )
        return int(waiting)

    def _open_payments(self, *, may_fail: bool) -> list[tuple[object, ...]]:
        """How many are in which state, with what their last attempt says."""
        return asked.rows(
            self.settings.addresses().postgres_reader_dsn,
            "select count(*), p.state, a.processor, a.attempt, a.kind, a.status from unnest(%s::text[]) as t (id)"
            " left join payment_intent p using (id)"
            " left join lateral (select * from processor_attempt a where a.intent_id = id order by attempt desc limit 1) a"
            " on true where p.state is distinct from 'succeeded'"
            " and not (%s and p.state = 'requires_payment_method' and a.status = 'failed') group by 2, 3, 4, 5, 6",
            self.confirmed,
            may_fail,
        )
