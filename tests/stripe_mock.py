"""Stripe's own mock of its API, from its Go module: installed once into a cache folder, skipped with a reason otherwise.

It checks every request against Stripe's OpenAPI document and answers with fixtures; it keeps nothing.
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
import pytest

from tests.attempts_world import free_port
from tests.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION: Final = "v0.203.0"
_MODULE: Final = f"github.com/stripe/stripe-mock@{VERSION}"
_INSTALL_WITHIN_S: Final = 240
API_KEY: Final = "sk_test_123"


def executable() -> Path:
    """The program, installed when it is not there yet. Skips where that cannot be done, fails where it must be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millrace" / f"stripe-mock-{VERSION}"
    program = cache / "stripe-mock"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        pytest.skip("stripe-mock is a Go program, and there is no Go here")
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
            pytest.skip("stripe-mock could not be installed in time")
        if done.returncode != 0:
            pytest.skip(f"stripe-mock could not be installed: {done.stderr.strip().splitlines()[-1:]}")
        (Path(folder) / program.name).replace(program)
    return program


@contextmanager
def running() -> Iterator[str]:
    """Its address while it runs."""
    port = free_port()
    process = subprocess.Popen(
        [str(executable()), "-http-addr", f"127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
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
