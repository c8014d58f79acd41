"""Stripe's own mock of its API, from its Go module: built once into the user's cache folder.

It checks every request against Stripe's OpenAPI document and answers with fixtures; it keeps nothing. Its first build
takes a minute or two: ``python -m tests.worlds.payments.stripe_mock`` does it ahead, and ``make test`` before its first test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx

from tests.eventually import eventually
from tests.servers import servers_missing
from tests.worlds.payments.attempts_world import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION: Final = "v0.203.0"
_MODULE: Final = f"github.com/stripe/stripe-mock@{VERSION}"
_INSTALL_WITHIN_S: Final = 240
API_KEY: Final = "sk_test_123"


def executable() -> Path:
    """The program, built when it is not there yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millrace" / f"stripe-mock-{VERSION}"
    program = cache / "stripe-mock"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        servers_missing("stripe-mock is a Go program, and there is no Go here")
    assert go is not None
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:  # of this worker's own: others may install it just now
        environment = os.environ | {"GOBIN": folder, "GOFLAGS": "-buildvcs=false"}
        try:
            done = subprocess.run(
                [go, "install", _MODULE],
                env=environment,
                capture_output=True,
                text=True,
                timeout=_INSTALL_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            servers_missing("stripe-mock could not be built in time")
        if done.returncode != 0:
            servers_missing(f"stripe-mock could not be built: {done.stderr.strip().splitlines()[-1:]}")
        (Path(folder) / program.name).replace(program)
    return program


@contextmanager
def running() -> Iterator[str]:
    """Its address while it runs."""
    port = free_port()
    # without an address of its own for HTTPS, which nobody asks for, it takes port 12112: of two at once one would end
    command = [str(executable()), "-http-addr", f"127.0.0.1:{port}", "-https-addr", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: _answers(url), within_s=20, what="stripe-mock answers")
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/v1/balance", headers={"Authorization": f"Bearer {API_KEY}"}, timeout=5).is_success
    except httpx.TransportError:
        return False


if __name__ == "__main__":
    if shutil.which("go"):
        executable()
