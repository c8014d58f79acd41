"""Batch sizes and commit times out of the owners' own metrics: what happened between two looks."""

from __future__ import annotations

import http.client
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from compose import limits

if TYPE_CHECKING:
    from collections.abc import Mapping

_HISTOGRAMS: Final = {
    "owner_batch_commands": "millrace_owner_batch_commands",
    "owner_commit_ms": "millrace_owner_commit_seconds",
}
_MS_PER_S: Final = 1_000
_OK: Final = 200

Totals = dict[str, float]


def totals(ops: Mapping[str, str]) -> Totals:
    """Every sample of every process, summed over the processes. A process without an answer adds nothing."""
    found: Totals = defaultdict(float)
    for url in ops.values():
        for family in text_string_to_metric_families(_read(url)):
            for sample in family.samples:
                found[sample.name] += sample.value
    return found


def batches(before: Totals, after: Totals) -> dict[str, Any]:
    """Means over the batches between two looks."""
    found: dict[str, Any] = {}
    for name, metric in _HISTOGRAMS.items():
        count = after.get(f"{metric}_count", 0.0) - before.get(f"{metric}_count", 0.0)
        total = after.get(f"{metric}_sum", 0.0) - before.get(f"{metric}_sum", 0.0)
        if count > 0:
            scale = _MS_PER_S if name.endswith("_ms") else 1
            found[f"{name}_mean"] = round(total / count * scale, 3)
            found["owner_batches"] = int(count)
    return found


def _read(url: str) -> str:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=limits.HEALTH_CHECK_TIMEOUT_S)
    try:
        connection.request("GET", parts.path)
        answer = connection.getresponse()
        return answer.read().decode() if answer.status == _OK else ""
    except OSError:
        return ""
    finally:
        connection.close()
