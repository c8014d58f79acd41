"""``millrace forecast``: what a policy that nobody published yet would have made of the last days. Changes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from compose import limits as compose_limits
from compose.cli.options import AsJson
from compose.operator_access import ROLE, operator_connection, shell_user
from compose.settings.settings import load_settings
from compose.stack.errors import StackError
from schemas import limits

if TYPE_CHECKING:
    from reconciliation.payments.forecast.history import Decided
    from reconciliation.payments.forecast.judging import Forecast

_DAY_MS: Final = 86_400_000
app = typer.Typer(no_args_is_help=True)

Document = Annotated[Path, typer.Argument(metavar="FILE", dir_okay=False, help="The policy as JSON, as published.")]
Days = Annotated[
    float,
    typer.Option(min=0, max=compose_limits.FORECAST_DAYS_MAX, help="How far back; Kafka keeps commands for a week."),
]
Records = Annotated[int, typer.Option(min=1, max=compose_limits.FORECAST_RECORDS_MAX, help="Commands read at most.")]


@app.command()
def risk(
    file: Document,
    days: Days = compose_limits.FORECAST_DAYS_DEFAULT,
    records: Records = compose_limits.FORECAST_RECORDS_MAX,
    as_json: AsJson = False,
) -> None:
    """Which confirms these risk rules would have blocked, sent to review or let through otherwise."""
    from dataflows.payments.domain.policies import risk as rules  # noqa: PLC0415 - the help needs none of it
    from reconciliation.payments.forecast.judging import CONFIRM, judge_risk  # noqa: PLC0415

    policy = rules.read_policy(0, _canonical("risk", file))
    _run("risk", lambda decided, found: judge_risk(policy, decided, found), {CONFIRM}, days, records, as_json)


@app.command()
def routing(
    file: Document,
    days: Days = compose_limits.FORECAST_DAYS_DEFAULT,
    records: Records = compose_limits.FORECAST_RECORDS_MAX,
    as_json: AsJson = False,
) -> None:
    """Which charges these routing rules would have sent to another processor, were all of them well."""
    from dataflows.payments.domain import routing as rules  # noqa: PLC0415
    from reconciliation.payments.forecast.judging import CONFIRM, judge_routing  # noqa: PLC0415

    policy = rules.read_policy(0, _canonical("routing", file))
    names = load_settings().processors
    _run(
        "routing",
        lambda decided, found: judge_routing(policy, names, names[0], decided, found),
        {CONFIRM},
        days,
        records,
        as_json,
    )


@app.command()
def freeze(
    merchant: Annotated[str, typer.Argument(help="Whose account.")],
    days: Days = compose_limits.FORECAST_DAYS_DEFAULT,
    records: Records = compose_limits.FORECAST_RECORDS_MAX,
    as_json: AsJson = False,
) -> None:
    """What a merchant began that a frozen one would have been refused."""
    from dataflows.payments.domain.commands import BEGINS_SOMETHING  # noqa: PLC0415
    from reconciliation.payments.forecast.judging import judge_freeze  # noqa: PLC0415

    operations = {*BEGINS_SOMETHING, "create_payout"}
    _run("freeze", lambda decided, found: judge_freeze(merchant, decided, found), operations, days, records, as_json)


def _run(
    kind: str,
    judge: Callable[[list[Decided], Forecast], None],
    operations: set[str],
    days: float,
    records_max: int,
    as_json: bool,
) -> None:
    import psycopg  # noqa: PLC0415

    from reconciliation.audit.log import announced  # noqa: PLC0415
    from reconciliation.payments.forecast.history import History  # noqa: PLC0415
    from reconciliation.payments.forecast.judging import Forecast  # noqa: PLC0415

    addresses = load_settings().addresses()
    since_ms = int(time.time() * 1_000) - int(days * _DAY_MS)
    forecast = Forecast()
    with (
        operator_connection() as connection,
        announced(connection, shell_user(), f"policy.forecast_{kind}", kind),
        psycopg.connect(
            addresses.postgres_dsns[ROLE], autocommit=True, options="-c default_transaction_read_only=on"
        ) as reading,
    ):
        history = History(addresses.kafka, reading, frozenset(operations))
        for decided in history.read(since_ms, records_max):
            judge(decided, forecast)
    found = {
        "kind": kind,
        "since_ms": since_ms,
        "records": history.records,
        "is_partial": history.is_partial,
        "judged": forecast.judged,
        "as_before": forecast.as_before,
        "unknown": forecast.unknown,
        "changes": [{name: getattr(change, name) for name in change.__struct_fields__} for change in forecast.changes],
    }
    if as_json:
        print(json.dumps(found))
    else:
        _tell(found)


def _tell(found: dict[str, Any]) -> None:
    print(f"{found['judged']} commands judged of {found['records']} read, {found['as_before']} would be as they were")
    for change in found["changes"]:
        amounts = ", ".join(f"{amount} {currency}" for currency, amount in sorted(change["amounts"].items()))
        rules = ", ".join(f"{rule} {count}" for rule, count in sorted(change["rules"].items()))
        print(f"{change['was']} -> {change['would_be']}: {change['count']} ({amounts} in minor units; {rules})")
        print(f"  such as {', '.join(change['payments'])}")
    if found["unknown"]:
        print(f"of {found['unknown']} something is not known that a rule asks for: nobody had recorded it")
    if found["is_partial"]:
        print("not everything was read: give more --records or fewer --days")


def _canonical(kind: str, file: Path) -> str:
    """The document as it would be stored; what is wrong with it is one line."""
    from schemas.errors import InvalidCommand  # noqa: PLC0415
    from schemas.payments.policies import kinds  # noqa: PLC0415

    try:
        if file.stat().st_size > limits.BODY_BYTES_MAX:
            raise StackError(f"{file} is larger than any policy")
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StackError(f"{file} is no JSON document: {error}") from error
    if not isinstance(document, dict):
        raise StackError(f"{file} is no JSON object")
    document.pop("expected_version", None)
    try:
        return kinds.canonical(kind, document, load_settings().processors)
    except InvalidCommand as error:
        told = "; ".join(f"{one['field']} {one['reason']}" for one in error.errors)
        raise StackError(f"{file} could not be published: {told}") from error
