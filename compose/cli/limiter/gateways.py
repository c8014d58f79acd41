"""``millrace limiter gateways``: the gateway processes of this machine, and what each tells on its ops page."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from compose import limits
from compose.cli.options import AsJson
from compose.cli.table import print_table
from compose.settings.limiter_gateways import running_gateways
from compose.settings.settings import load_settings
from compose.supervise.state import read_state

if TYPE_CHECKING:
    from compose.settings.settings import Settings
    from compose.supervise.state import ProcessState

#: what is shown of a gateway: the name of its metric, without what all of them begin with
_FIGURES: Final = {
    "leases": "leases",
    "revision": "revision",
    "degraded": "degraded_total",
    "gap": "gap_total",
    "from_leases": "lease_decisions_total",
    "store_calls": "store_calls_total",
}
_OUTCOMES: Final = ("allowed", "denied", "repeated")
COLUMNS: Final = ("name", "state", "pid", "restarts", *_OUTCOMES, *_FIGURES, "note")


def gateways(
    as_json: AsJson = False,
) -> None:
    """Show every gateway process of this machine: where its frames are, and what it has decided since it started."""
    found = look(load_settings())
    if as_json:
        print(json.dumps({"data": found}))
        return
    print_table([{name: shown(row[name]) for name in COLUMNS} for row in found], COLUMNS, none="no gateway runs here")
    for row in found:
        print(f"{row['name']}: {row['socket']}{'' if row['address'] is None else ' and ' + row['address']}")


def look(settings: Settings) -> list[dict[str, Any]]:
    """One row a gateway; figures are None where it does not say."""
    state = read_state(settings.the_home())
    if state is None or not state.running():
        return []
    entries = {entry.name: entry for entry in state.processes}
    rows = [found.as_object() | _row(entries[found.name]) for found in running_gateways(settings, entries)]
    newest = max((row["revision"] for row in rows if row["revision"] is not None), default=0)
    for row in rows:
        if not row["note"] and row["revision"] is not None and row["revision"] < newest:
            row["note"] = f"decides by older policies than others ({newest}): if it stays so, see 'millrace logs'"
    return rows


def _row(entry: ProcessState) -> dict[str, Any]:
    figures = _figures(entry.ops_url)
    named = {name: figures.get(f"millrace_limiter_{metric}") for name, metric in _FIGURES.items()}
    decided = {name: figures.get(f"millrace_limiter_decisions_total {name}") for name in _OUTCOMES}
    told = entry.note or ("" if figures else "its ops page does not answer")
    return {
        "state": entry.condition,
        "pid": entry.pid,
        "restarts": entry.restarts,
        **decided,
        **named,
        "note": told,
        "ops": entry.ops_url and f"{entry.ops_url}/metrics",
    }


def _figures(ops_url: str | None) -> dict[str, int]:
    """By name and outcome; empty when the page does not answer."""
    import httpx  # noqa: PLC0415 - the help needs none of it
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    try:
        page = httpx.get(f"{ops_url}/metrics", timeout=limits.HEALTH_CHECK_TIMEOUT_S, trust_env=False)
        page.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL):
        return {}
    return {
        f"{sample.name} {sample.labels.get('outcome', '')}".strip(): int(sample.value)
        for family in text_string_to_metric_families(page.text)
        if family.name.startswith("millrace_limiter_")
        for sample in family.samples
    }


def shown(value: object) -> str:
    """For people."""
    return "" if value is None else str(value)
