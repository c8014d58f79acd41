"""``millrace replay``: rebuild a projection beside the live one, compare them, and exchange them when asked to."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from compose.cli.options import AsJson, service_of
from compose.cli.printed import json_text
from compose.operator_access import ROLE, operator_connection, shell_user
from compose.settings.settings import load_settings
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.status import Status

    from reconciliation.contract.checked_service import CheckedService
    from reconciliation.replay.run import ReplayReport, ReplaySettings
    from reconciliation.replay.source import Start

app = typer.Typer()


class SourceName(StrEnum):
    """Where a replay reads."""

    kafka = "kafka"
    outbox = "outbox"


@app.command()
def replay(
    target: Annotated[
        str,
        typer.Argument(
            help="account_balance, payment_intent, merchant_account, payout, payout_destination, clickhouse, or a "
            "table: clickhouse.events."
        ),
    ],
    service: Annotated[
        str | None, typer.Option(help="Whose projection; without it, of the first service that has this one.")
    ] = None,
    from_time: Annotated[datetime | None, typer.Option(help="Begin with what was published then (UTC).")] = None,
    from_offset: Annotated[
        list[str] | None, typer.Option(metavar="PARTITION:OFFSET", help="Replay this partition from here; repeatable.")
    ] = None,
    checkpoint: Annotated[str | None, typer.Option(help="Begin at this recovery checkpoint.")] = None,
    source: Annotated[SourceName, typer.Option(help="The events topic, or the outbox in Postgres.")] = SourceName.kafka,
    swap: Annotated[bool, typer.Option("--swap", help="Exchange the shadow and the live one afterwards.")] = False,
    keep_shadow: Annotated[bool, typer.Option("--keep-shadow", help="Leave the shadow for a closer look.")] = False,
    as_json: AsJson = False,
) -> None:
    """Rebuild a projection, from zero unless told; exit status 1 when it differs and is not swapped."""
    from reconciliation.replay.run import run_replay  # noqa: PLC0415 - imports every client
    from schemas.errors import PlatformError  # noqa: PLC0415
    from sinks.clickhouse.decoding import collect_garbage_rarely  # noqa: PLC0415

    collect_garbage_rarely()
    if sum(given is not None for given in (from_time, from_offset, checkpoint)) > 1:
        raise StackError("give one of --from-time, --from-offset and --checkpoint")
    settings = _settings(source, _service_of(target, service))
    with ExitStack() as stack:
        told = stack.enter_context(_announced_swap(target)) if swap else {}
        status = None if as_json else stack.enter_context(_progress())
        try:
            report = run_replay(
                settings,
                target,
                _start(settings, from_time, from_offset, checkpoint),
                swap=swap,
                keep_shadow=keep_shadow,
                on_events=(lambda _: None) if status is None else (lambda n: status.update(f"{n} events replayed")),
            )
        except (PlatformError, ValueError) as error:
            raise StackError(str(error)) from error
        told |= {"swapped": report.swapped, "differences": report.differences, "events": report.events}
    if as_json:
        print(json_text(report.as_object()))
    else:
        _print(report)
    raise typer.Exit(1 if report.differences and not report.swapped else 0)


@contextmanager
def _announced_swap(target: str) -> Iterator[dict[str, object]]:
    """Around it: the exchange is the other store's transaction."""
    from reconciliation.audit.log import announced  # noqa: PLC0415

    with operator_connection() as connection, announced(connection, shell_user(), "replay.swap", target) as told:
        yield told


def _service_of(target: str, named: str | None) -> CheckedService:
    from reconciliation.contract.checked_service import checked  # noqa: PLC0415
    from reconciliation.replay.run import targets  # noqa: PLC0415
    from schemas.services import SERVICES  # noqa: PLC0415

    of = [checked(service) for service in ([service_of(named)] if named is not None else SERVICES)]
    return next((one for one in of if target in targets(one)), of[0])


def _settings(source: SourceName, of: CheckedService) -> ReplaySettings:
    from reconciliation.replay.run import ReplaySettings  # noqa: PLC0415
    from sinks.clickhouse.connection import ClickHouseConnection  # noqa: PLC0415

    addresses = load_settings().addresses()
    return ReplaySettings(
        postgres_dsn=addresses.postgres_dsns[ROLE],
        kafka=addresses.kafka,
        clickhouse=ClickHouseConnection(url=addresses.clickhouse_url),
        of=of,
        source="kafka" if source is SourceName.kafka else "outbox",
    )


def _start(
    settings: ReplaySettings, from_time: datetime | None, from_offset: list[str] | None, checkpoint: str | None
) -> Start:
    from reconciliation.checkpoints import checkpoint_positions, checkpoint_read  # noqa: PLC0415
    from reconciliation.replay.run import partition_offsets  # noqa: PLC0415
    from reconciliation.replay.source import Start  # noqa: PLC0415

    if from_time is not None:
        return Start(time=from_time.replace(tzinfo=from_time.tzinfo or UTC))
    if from_offset is not None:
        return Start(offsets=partition_offsets(from_offset, settings.of.partitions))
    if checkpoint is None:
        return Start()
    with operator_connection() as connection:
        return Start(checkpoint=checkpoint_positions(checkpoint_read(connection, checkpoint), settings.of.events_topic))


def _progress() -> Status:
    from rich.console import Console  # noqa: PLC0415

    return Console(stderr=True).status("reading")


def _print(report: ReplayReport) -> None:
    for found in report.projections:
        verdict = "equal" if not found.differences else f"{found.differences} differences"
        print(f"{found.projection}: {found.rows_live} rows live, {found.rows_shadow} replayed: {verdict}")
        for difference in found.sample:
            print(f"  {json_text(difference)}")
    print(
        f"{report.events} events from {report.source}" + ("; the replayed ones are live now" if report.swapped else "")
    )
