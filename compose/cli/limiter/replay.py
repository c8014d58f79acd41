"""``millrace limiter replay``: past requests decided again under other policies, before these are published."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from compose.operator_access import operator_connection, shell_user
from compose.settings.settings import load_settings
from compose.stack.errors import StackError
from schemas.limiter import limits

if TYPE_CHECKING:
    from compose.cli.dry_run.history import History
    from limiter.policy.policies import PolicySet
    from schemas.limiter.limit_policy import LimitPolicy

_US: Final = 1_000_000
_MINUTE_S: Final = 60


def replay(
    policies: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON: policies as POST /v1/policies takes them, or as 'millrace limiter policies --json' has them. "
            "One with the policy_id of a policy in force stands in its place, the others stand beside.",
        ),
    ] = None,
    without: Annotated[list[str] | None, typer.Option(metavar="POLICY_ID", help="As if it were not in force.")] = None,
    minutes: Annotated[
        int, typer.Option(min=1, max=limits.LIMIT_DRY_RUN_MINUTES_MAX, help="The last so many minutes.")
    ] = 60,
    from_time: Annotated[datetime | None, typer.Option("--from", help="Begin then (UTC); with --to.")] = None,
    to_time: Annotated[datetime | None, typer.Option("--to", help="End then (UTC); now if not given.")] = None,
    keys: Annotated[int, typer.Option(min=0, max=limits.LIMIT_TOP_ROWS_MAX, help="So many of the keys hit most.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Decide past requests again under other policies, and say what would have been decided otherwise.

    Nothing is charged or changed. Without --policies and --without it is decided by the policies in force: what comes
    out otherwise then is what leases refused early, what was decided without the store, and what other versions said.
    Callers are taken to ask what they asked. Requests that the audit setting of their policy kept no row of cannot be
    decided again; how many these are is told.

    Examples: millrace limiter policies --json > policies.json   (edit a capacity)
              millrace limiter replay --policies policies.json --minutes 30
    """
    from rich.console import Console  # noqa: PLC0415 - the help needs none of it

    to_s = _seconds(to_time) if to_time else time.time()
    from_s = _seconds(from_time) if from_time else to_s - minutes * _MINUTE_S
    if from_s >= to_s:
        raise StackError("--from must be before --to")
    chosen = _policies(policies, without or [])
    console = Console(stderr=True)
    with console.status("reading decisions") as status:
        found = _decided_again(chosen, int(from_s * _US), int(to_s * _US), keys, status.update)
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        _show(found)


def _seconds(given: datetime) -> float:
    return given.replace(tzinfo=given.tzinfo or UTC).timestamp()


def _policies(file: Path | None, without: list[str]) -> PolicySet:
    from compose.cli.dry_run.policies import other_policies  # noqa: PLC0415
    from limiter.store.inspection import policies as in_force  # noqa: PLC0415
    from reconciliation.audit.log import audited  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "limiter.replay", "policies"):
        found: list[LimitPolicy] = in_force(connection)
    return other_policies(found, file, without)


def _decided_again(chosen: PolicySet, from_us: int, to_us: int, keys: int, tell: Any) -> dict[str, Any]:
    from compose.cli.dry_run.history import History  # noqa: PLC0415
    from compose.cli.dry_run.rerun import Rerun  # noqa: PLC0415
    from schemas.errors import PlatformError  # noqa: PLC0415

    rerun, began = Rerun(chosen), time.monotonic()
    try:
        history = History(load_settings().addresses().kafka, from_us - _warm_up_us(chosen), to_us)
        try:
            for batch in history.batches():
                rerun.take(batch, from_us)
                tell(f"{sum(rerun.decisions.values()):,} decided again, up to {_text(history.at_us)}")
        finally:
            history.close()
    except PlatformError as error:
        raise StackError(error.line) from error
    return _result(rerun.result(keys), history, chosen) | {
        "from": _text(from_us),
        "to": _text(to_us),
        "counters": rerun.counters,
        "seconds": round(time.monotonic() - began, 1),
    }


def _result(found: dict[str, Any], history: History, chosen: PolicySet) -> dict[str, Any]:
    not_imitated = [
        level.id_
        for level in chosen.all_levels()
        if level.policy.algorithm == "concurrency" and not level.policy.shadow
    ]
    return {**found, "retries": history.repeated, "not_in_rows": history.summed, "not_imitated": sorted(not_imitated)}


def _warm_up_us(chosen: PolicySet) -> int:
    """Counters fill before what is counted begins: for the longest window, within reason."""
    longest = max((level.terms.period * level.terms.tick_us for level in chosen.all_levels()), default=0)
    return min(longest, limits.LIMIT_DRY_RUN_WARM_UP_MAX_US)


def _text(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / _US, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _show(found: dict[str, Any]) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    console = Console()
    console.print(f"{found['from']} to {found['to']} UTC, {found['seconds']} s")
    table = Table(box=None, pad_edge=False)
    for name, justify in (("", "left"), ("decisions", "right"), ("cost", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type] # literals above
    for outcome, cost in found["cost"].items():
        table.add_row(outcome.replace("_", " "), f"{found[outcome]:,}", f"{cost:,}")
    console.print(table)
    for row in found["policies"]:
        console.print(
            f"{row['policy_id']}: {row['newly_denied']:,} newly denied, {row['newly_allowed']:,} newly allowed"
        )
    for outcome, rows in found["keys"].items():
        for row in rows:
            console.print(f"{outcome.replace('_', ' ')} {row['decisions']:>8,}  {row['key']}", markup=False)
    if found["not_in_rows"]:
        console.print(
            f"not decided again: {found['not_in_rows']:,}, of which their policies' audit setting keeps no row"
        )
    for policy in found["not_imitated"]:
        console.print(f"{policy} limits concurrency: it refuses nothing here")
