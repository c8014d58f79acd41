"""The rules for Prometheus: each leads to a document that is there, and Prometheus itself can read them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.servers import servers_missing
from tests.worlds.alerts import RULES, rules

ROOT = Path(__file__).parents[2]


def anchors(document: Path) -> set[str]:
    """Where links may lead in a document, as those who show it name its headings."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_each_alert_says_what_it_is_how_bad_and_what_to_do() -> None:
    found = rules()
    assert len({rule["alert"] for rule in found}) == len(found) > 10
    for rule in found:
        document, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert anchor in anchors(ROOT / document), rule["alert"]
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in {"page", "ticket"}


@pytest.mark.proof
def test_prometheus_can_read_them() -> None:
    if (promtool := shutil.which("promtool")) is None:
        servers_missing("no promtool: Debian's package prometheus has it")
    done = subprocess.run([promtool, "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_is_one_group_in_plain_yaml() -> None:
    assert [group["name"] for group in yaml.safe_load(RULES.read_text())["groups"]] == ["millrace"]
