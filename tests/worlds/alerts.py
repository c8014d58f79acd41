"""The rules for Prometheus as tests read them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

RULES: Final = Path(__file__).parents[2] / "compose" / "alerts.yml"
_PARTS: Final = re.compile("_(bucket|sum|count)$")


def rules() -> list[dict[str, Any]]:
    """Every rule."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def metrics_named() -> set[str]:
    """The metrics of ours that rules speak of, as ``# TYPE`` lines name them."""
    return {_PARTS.sub("", name) for rule in rules() for name in re.findall(r"millrace_\w+", rule["expr"])}
