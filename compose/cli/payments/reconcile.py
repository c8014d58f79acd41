"""``millrace reconcile``: settlement reports and bank statements against what we recorded."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from compose.cli.options import AsJson
from compose.cli.table import print_table
from compose.operator_access import ROLE, operator_connection, shell_user
from compose.settings.settings import load_settings
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from reconciliation.payments.settlement.file_result import Discrepancy, FileResult
    from reconciliation.payments.settlement.run import ReconcileReport, ReconcileSettings
    from reconciliation.payments.settlement.sources import GivenFile

FORMATS: Final = ("simulator", "stripe", "adyen", "camt053")
app = typer.Typer()


@app.command()
def reconcile(
    processor: Annotated[
        str | None, typer.Option(help="Only this processor's reports; with --file, whose report the file is.")
    ] = None,
    file: Annotated[
        list[Path] | None, typer.Option(exists=True, dir_okay=False, help="A report or bank statement; repeatable.")
    ] = None,
    file_format: Annotated[str | None, typer.Option("--format", help="Of the files: " + ", ".join(FORMATS))] = None,
    as_json: AsJson = False,
    propose_fees: Annotated[
        bool, typer.Option("--propose-fees", help="Only print contracts that explain the fees of the files.")
    ] = False,
) -> None:
    """Take in what is new, post it through the owners, and show what is not explained; safe to run again.

    Ends with 1 when a given file was not taken in as a whole, a processor was not reached or an owner did not decide.
    """
    from reconciliation.audit.log import announced  # noqa: PLC0415
    from reconciliation.payments.settlement.run import reconcile as run  # noqa: PLC0415 - imports every client
    from schemas.errors import PlatformError  # noqa: PLC0415

    if propose_fees:
        print(json.dumps(_proposed_fees(_files(file or [], file_format, processor)), indent=2))
        return
    settings, files = _settings(processor, is_file_given=bool(file)), _files(file or [], file_format, processor)
    with nullcontext() if as_json else _progress() as status:
        tell = (lambda _: None) if status is None else status.update
        given = [f"{one.format}:{one.path.name}" for one in files]
        try:
            with (
                operator_connection() as connection,
                announced(connection, shell_user(), "settlement.reconcile", processor or "all", files=given) as became,
            ):
                report = run(settings, files, on_step=tell, on_lines=lambda n: tell(f"{n:,} lines read"))
                became |= {"new_lines": report.new_lines, "posted": report.posted.decided}
        except (PlatformError, OSError) as error:
            raise StackError(str(error)) from error
    if as_json:
        print(json.dumps(_as_object(report)))
    else:
        _print(report)
    is_whole = all(file.is_whole for file in report.files)
    raise typer.Exit(1 if report.unavailable or report.posted.undecided or not is_whole else 0)


def _settings(processor: str | None, *, is_file_given: bool) -> ReconcileSettings:
    from reconciliation.payments.settlement.run import ReconcileSettings  # noqa: PLC0415
    from schemas.senders import RECONCILE  # noqa: PLC0415

    settings = load_settings()
    addresses, kafka = settings.addresses(), settings.kafka_as(RECONCILE)
    processors = addresses.simulator_urls
    if processor is not None and not is_file_given:
        if processor not in processors:
            raise StackError(f"no processor {processor!r} gives reports here; there are {', '.join(processors)}")
        processors = {processor: processors[processor]}
    return ReconcileSettings(postgres_dsn=addresses.postgres_dsns[ROLE], kafka=kafka, processors=processors)


def _files(paths: list[Path], file_format: str | None, processor: str | None) -> list[GivenFile]:
    from reconciliation.payments.settlement.sources import GivenFile  # noqa: PLC0415

    if paths and file_format not in FORMATS:
        raise StackError(f"give --format with --file: {', '.join(FORMATS)}")
    if file_format is not None and not paths:
        raise StackError("--format says how a file is written: give --file")
    return [GivenFile(path=path, format=file_format, processor=processor) for path in paths]  # type: ignore[arg-type]  # one of FORMATS


def _proposed_fees(files: list[GivenFile]) -> list[dict[str, Any]]:
    from itertools import chain  # noqa: PLC0415

    from reconciliation.payments.settlement.contracts import proposed  # noqa: PLC0415
    from reconciliation.payments.settlement.line import UnreadableReport  # noqa: PLC0415
    from reconciliation.payments.settlement.sources import lines_of_file  # noqa: PLC0415

    if not files or any(file.format == "camt053" for file in files):
        raise StackError("give --propose-fees the settlement reports of one processor: --file F --format stripe|adyen")
    try:
        return proposed(files[0].processor or files[0].format, chain.from_iterable(map(lines_of_file, files)))
    except (UnreadableReport, OSError) as error:
        raise StackError(str(error)) from error


def _as_object(report: ReconcileReport) -> dict[str, Any]:
    return {
        "files": [
            {
                "name": file.name,
                "format": file.format,
                "state": file.state,
                "new_lines": file.new_lines,
                "matched": file.matched,
                "reasons": file.reasons,
                "discrepancies": [_discrepancy(d) for d in file.discrepancies],
            }
            for file in report.files
        ],
        "matched": report.matched,
        "discrepancies": [_discrepancy(d) for d in report.discrepancies],
        "unmatched_older_than_horizon": report.unmatched_older_than_horizon,
        "new_lines": report.new_lines,
        "posted": {
            "decided": report.posted.decided,
            "refused": report.posted.refused,
            "undecided": report.posted.undecided,
        },
        "unavailable": report.unavailable,
    }


def _discrepancy(d: Discrepancy) -> dict[str, Any]:
    return {
        "class": d.found_class,
        "reference": d.reference,
        "amount": d.amount,
        "currency": d.currency,
        "processor": d.processor,
        "subject": d.subject,
        "case": d.case_id,
        "detail": d.detail,
        "first_seen": d.first_seen,
    }


def _progress() -> Status:
    from rich.console import Console  # noqa: PLC0415

    return Console(stderr=True).status("looking for reports")


def _print(report: ReconcileReport) -> None:
    from rich.console import Console  # noqa: PLC0415

    from schemas.payments import limits  # noqa: PLC0415

    console = Console()
    for file in report.files:
        _print_file(file, console)
    told = {(d.processor, d.subject, d.found_class) for file in report.files for d in file.discrepancies}
    others = [d for d in report.discrepancies if (d.processor, d.subject, d.found_class) not in told]
    shown = others[: limits.SETTLEMENT_SHOWN_MAX]
    if shown and report.files:
        print("What else is not explained:")
    if shown:
        _print_discrepancies(shown)
    if len(shown) < len(others):
        print(f"... and {len(others) - len(shown)} more: --json shows all")
    print(
        f"{report.matched} lines matched, {report.new_lines} new; {report.posted.decided} posted now;"
        f" {len(report.discrepancies)} discrepancies; {report.unmatched_older_than_horizon} movements without a line"
        f" for more than {limits.SETTLEMENT_HORIZON_DAYS} days"
    )
    for reason in report.unavailable:
        print(f"not reached: {reason}; run it again when it is back")
    if report.posted.undecided:
        print(f"{report.posted.undecided} lines wait for their owner: see 'millrace status', then run it again")
    if report.discrepancies:
        print(
            "each has a case with its evidence for a person to resolve; a later report may still explain a missing line"
        )


#: what is said of a file, by its state
_STATES: Final = {
    "taken_in": "taken in",
    "known": "was taken in before",
    "partly": "taken in in part",
    "truncated": "is cut off: taken in up to there",
    "rejected": "NOT taken in",
}


def _print_file(file: FileResult, console: Console) -> None:
    from rich.markup import escape  # noqa: PLC0415

    from schemas.payments import limits  # noqa: PLC0415

    reasons = f" ({'; '.join(file.reasons)})" if file.reasons else ""
    matched = f"{file.new_lines} new lines, {file.matched} of them matched, {len(file.discrepancies)} discrepancies"
    console.print(
        f"{escape(file.name)}: {_STATES[file.state]}{escape(reasons)}; {matched}",
        highlight=False,
        soft_wrap=True,
    )
    if shown := file.discrepancies[: limits.SETTLEMENT_SHOWN_MAX]:
        _print_discrepancies(shown)
    if len(shown) < len(file.discrepancies):
        print(f"... and {len(file.discrepancies) - len(shown)} more of this file: --json shows all")


def _print_discrepancies(discrepancies: list[Discrepancy]) -> None:
    from schemas.fields.currency import format_minor  # noqa: PLC0415

    rows = [
        {
            "class": d.found_class,
            "reference": d.reference,
            "amount": f"{format_minor(d.amount, d.currency)} {d.currency}" if d.currency else "",
            "processor": d.processor,
            "since": d.first_seen[:16],
            "detail": d.detail or "",
        }
        for d in discrepancies
    ]
    print_table(rows, tuple(rows[0]))
