"""An outside issuer that people sign in at: node-oidc-provider, certified, installed once into the user's cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx

from tests.eventually import eventually, patient
from tests.servers import servers_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION: Final = "9.13.3"
CLIENT: Final = "millrace"
SECRET: Final = "a secret: of/tests+"  # with what has to be written otherwise in a header
_INSTALL_WITHIN_S: Final = 180
_SCRIPT: Final = Path(__file__).with_suffix(".mjs")


def folder() -> Path:
    """Where the package is, installed when it is not there yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "millrace"
    place = cache / f"oidc-provider-{VERSION}"
    if place.exists():
        return place
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        servers_missing("the issuer of this test is a package of npm, and there is no Node.js here")
    cache.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=cache))  # of this worker's own: others may install it just now
    command = [str(npm), "install", "--silent", "--no-audit", "--no-fund", f"oidc-provider@{VERSION}"]
    try:
        done = subprocess.run(
            command, cwd=draft, capture_output=True, text=True, timeout=_INSTALL_WITHIN_S, check=False
        )
        if done.returncode != 0:
            servers_missing(f"oidc-provider could not be installed: {done.stderr.strip().splitlines()[-1:]}")
        draft.rename(place)
    except subprocess.TimeoutExpired:
        servers_missing("oidc-provider could not be installed in time")
    except OSError:  # somebody else was first
        assert place.exists()
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return place


@contextmanager
def running(port: int, *redirect_uris: str) -> Iterator[str]:
    """Its address while it runs; whoever signs in as ``name:SCOPE`` has that scope in the claim ``roles``."""
    command = ["node", "--input-type=module", "-", str(port), CLIENT, SECRET, *redirect_uris]
    with _SCRIPT.open() as script:
        process = subprocess.Popen(
            command, cwd=folder(), stdin=script, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    url = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: _answers(url), within_s=20, what="the issuer answers")
        yield url
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/jwks", trust_env=False, timeout=patient(20)).is_success
    except httpx.TransportError:
        return False
