"""Every block of shell in the documents for users does what the words beside it say, one after the other as a reader does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.eventually import patient
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # a fixture of this module
pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "docs/payments.md")
_BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: what a line says that it answers with
_SAID = re.compile(r"# (\"[^#:]*\":[^#]*?)(?:: |$)", re.MULTILINE)
#: of the whole system, which runs already and belongs to other tests, too
_OF_THE_SYSTEM = re.compile(r"^\.venv/bin/millrace (up|check|down)\b", re.MULTILINE)


def test_a_reader_takes_money(public: PublicSystem) -> None:
    blocks = [block for name in DOCUMENTS for block in _BLOCK.findall((ROOT / name).read_text())]
    script = "set -euo pipefail\n" + "\n".join(blocks)
    assert len(_OF_THE_SYSTEM.findall(script)) == 3
    script = _OF_THE_SYSTEM.sub(": \\1", script).replace(".venv/bin/", f"{Path(sys.executable).parent}/")
    script = script.replace("--merchant m_1", f"--merchant m_{uuid.uuid4().hex[:12]}")
    environment = {**os.environ, **public.settings.environment()}
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environment, check=False, timeout=patient(100)
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = [part for found in _SAID.findall(script) for part in found.split(", ")]
    assert said == [
        '"state":"succeeded"',
        '"state":"requires_capture"',
        '"state":"succeeded"',
        '"amount_received":1000',
    ]
    rest = done.stdout
    for part in said:  # in this order
        assert part in rest, (part, done.stdout)
        rest = rest[rest.index(part) + len(part) :]
    (balance,) = [line for line in done.stdout.splitlines() if line.startswith('{"') and '"id":"pi_' not in line]
    assert json.loads(balance)["data"][0]["pending"] == 1_083  # of 10.99, the platform's 1.5 % taken off
