"""Every block of shell in the documents for users does what the words beside it say, one after the other as a reader does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.eventually import becomes, patient
from tests.worlds.public_system import Merchant, public

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # a fixture of this module
pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]
MONEY = ("README.md", "docs/payments.md")
TENANTS = "docs/tenants.md"
_BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: what a line says that it answers with
_SAID = re.compile(r"# (\"[^#:]*\":[^#]*?)(?:: |$)", re.MULTILINE)
#: of the whole system, which runs already and belongs to other tests, too
_OF_THE_SYSTEM = re.compile(r"^\.venv/bin/millrace (up|check|down)\b", re.MULTILINE)


def script_of(*names: str) -> str:
    """All blocks of shell, in the order of the documents; the first line that fails ends it."""
    blocks = [block for name in names for block in _BLOCK.findall((ROOT / name).read_text())]
    return "set -euo pipefail\n" + "\n".join(blocks)


def test_a_reader_takes_money(public: PublicSystem) -> None:
    script = script_of(*MONEY)
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


@pytest.mark.proof
@pytest.mark.timeout(240)  # two dozen commands of the shell
def test_a_reader_runs_tenants(public: PublicSystem, tmp_path: Path) -> None:
    """From the first token to the certificate of a deletion; and what was metered is told within seconds."""
    # a document names days; what may be asked and billed of them ends with time
    before, this, after = (_months_from_now(n) for n in (-1, 0, 1))
    meant = {"2026-10-01": before, "2026-11-01": this, "2026-12-01": after}
    script = re.sub(r"2026-\d\d-\d\d(?=T00:00:00Z)", lambda day: meant[day[0]], script_of(TENANTS))
    shell = f'millrace() {{ "{sys.executable}" -m tests.worlds.command_line "$@"; }}\nBASE={public.base_url}\n'
    environment = {**os.environ, **public.settings.environment(), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-c", f"{shell}{script}\necho $TENANT_TOKEN"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
        timeout=patient(200),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for said in (
        "is soaking",
        "is rolled_back",
        "is suspended (read_only)",
        "is active until",
        "is deleted",
        "certificate ",
        '"accepted":1',
    ):
        assert said in done.stdout, said
    assert json.loads((tmp_path / "october.json").read_bytes())["from"].startswith(before)
    assert (tmp_path / "acme.ndjson").read_bytes() == b""  # it had no resources
    assert (tmp_path / "support.token").stat().st_mode & 0o777 == 0o600
    member = Merchant("", public.base_url, done.stdout.split()[-1])
    asked = {"dimension": "tokens", "from": f"{this}T00:00:00Z", "to": f"{after}T00:00:00Z"}
    becomes(lambda: [row["quantity"] for row in member.http.get("/v1/usage", params=asked).json()["data"]], [1_200])
    member.http.close()


def _months_from_now(count: int) -> str:
    """The first day of that month."""
    now = datetime.now(UTC)
    year, month = divmod(now.year * 12 + now.month - 1 + count, 12)
    return f"{year}-{month + 1:02}-01"
