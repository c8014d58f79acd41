"""An account at Stripe with a book of its own, as a process: every request goes through Stripe's OpenAPI document first."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import httpx

from compose.stripe_simulator.__main__ import KEY_VARIABLE, SECRET_VARIABLE
from tests.eventually import eventually, patient
from tests.worlds.payments import stripe_mock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_START_WITHIN_S: Final = 20


class StripeAccount:
    """The running account; a lever is what happens to it from outside its API."""

    def __init__(self, folder: Path, port: int, *options: str, secret: str = "") -> None:
        self.url = f"http://127.0.0.1:{port}"
        program = [sys.executable, "-m", "compose.stripe_simulator", "--folder", str(folder), "--port", str(port)]
        self._command = [*program, *options]
        self._environment = os.environ | {KEY_VARIABLE: stripe_mock.API_KEY, SECRET_VARIABLE: secret}
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {stripe_mock.API_KEY}"},
            timeout=patient(20),
            trust_env=False,
        )
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(self._command, env=self._environment)
        eventually(lambda: process.poll() is not None or self._is_ready(), _START_WITHIN_S, what="the account answers")
        assert process.poll() is None, "the account ended at its start"
        return process

    def _is_ready(self) -> bool:
        try:
            return self._http.get("/readyz").is_success
        except httpx.TransportError:
            return False

    def restart_when_dead(self) -> None:
        """Waits for the end that was planned for it, and starts it again on its book."""
        assert self.process.wait(patient(60)) == -9
        self.process = self._start()

    def kill_and_restart(self) -> None:
        """SIGKILL, now."""
        self.process.kill()
        self.restart_when_dead()

    def stop(self) -> None:
        """Ends it, however it is."""
        self.process.kill()
        self.process.wait()
        self._http.close()

    def post(self, path: str, key: str | None = None, **form: Any) -> httpx.Response:
        """A call of the API, or of a lever."""
        return self._http.post(path, data=form, headers={"Idempotency-Key": key} if key else {})

    def lever(self, path: str, **form: Any) -> Any:
        """Pulls one that works."""
        answer = self.post(f"/levers/{path}", **form)
        assert answer.is_success, answer.text
        return answer.json()

    def get(self, path: str, **query: Any) -> Any:
        """What the API says."""
        answer = self._http.get(path, params=query)
        assert answer.is_success, answer.text
        return answer.json()

    def booked(self, reference: str) -> dict[str, list[int]]:
        """The effects of one payment of ours: section to amounts, smallest first."""
        book = self.get("/book")
        found = {name: sorted(e["amount"] for e in rows if e["reference"] == reference) for name, rows in book.items()}
        return {name: amounts for name, amounts in found.items() if amounts}

    def report(self) -> bytes:
        """Pays everything out and fetches the itemized report of all payouts, as Stripe's API has it."""
        self.lever("payouts")
        run = self.post("/v1/reporting/report_runs", report_type="payout_reconciliation.itemized.5").json()
        return self._http.get(run["result"]["url"]).content


@contextmanager
def running(folder: Path, port: int, *options: str, secret: str = "") -> Iterator[StripeAccount]:
    """The account while it runs."""
    account = StripeAccount(folder, port, *options, secret=secret)
    try:
        yield account
    finally:
        account.stop()
