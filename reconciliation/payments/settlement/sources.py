"""Where reports come from: a processor's own list of them, and files that somebody gives.

A report is downloaded to a file before it is read, so that neither its size nor a slow line holds a transaction open.
"""

from __future__ import annotations

import hashlib
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, TypeVar

import httpx
import msgspec

from reconciliation.payments.settlement.ingest import ReportFile
from reconciliation.payments.settlement.reports import adyen, simulator, stripe
from schemas.errors import Unavailable
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from reconciliation.payments.settlement.line import Defect, Line, PlainRow

_T = TypeVar("_T")
FileFormat = Literal["simulator", "stripe", "adyen", "camt053"]
READERS: Final[dict[str, Callable[[BinaryIO], Iterator[Line | PlainRow | Defect]]]] = {
    "simulator": simulator.read_rows,
    "stripe": stripe.read_lines,
    "adyen": adyen.read_lines,
}


class Listed(msgspec.Struct, frozen=True):
    """One report of a processor's list."""

    report_id: str
    created: Any = None  # a time in text; not every processor says it

    @property
    def created_at(self) -> datetime | None:
        """When it was made; None when the processor does not say so in a way that can be read."""
        try:
            at = datetime.fromisoformat(self.created)
        except (TypeError, ValueError):
            return None
        return at if at.tzinfo else None


class GivenFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file to be taken in; ``processor`` is by its format unless it is named."""

    path: Path
    format: FileFormat
    processor: str | None = None


def listed_reports(url: str, on_wait: Callable[[str], None] = lambda _: None) -> list[Listed]:
    """A processor's reports, oldest first; one that starts again is waited for, within a bound. Raises Unavailable.

    ``on_wait`` is told why, before each pause.
    """
    try:
        answer = _tried(lambda: _list(url), on_wait)
        reports = msgspec.json.decode(answer.content, type=list[Listed])
    except httpx.HTTPError as error:
        raise Unavailable(f"the processor's reports cannot be listed: {type(error).__name__}") from error
    except msgspec.ValidationError as error:
        raise Unavailable(f"the processor's list of reports cannot be read: {error}") from error
    if not all(_is_plain(report.report_id) for report in reports):
        raise Unavailable("the processor's list of reports holds an id that is none")
    return reports


def download(url: str, report_id: str, path: Path, on_wait: Callable[[str], None] = lambda _: None) -> None:
    """The report as a file; a connection that broke off leaves nothing to be read. As ``listed_reports`` else."""
    try:
        _tried(lambda: _download(url, report_id, path), on_wait)
    except httpx.HTTPError as error:
        raise Unavailable(f"the report {report_id} cannot be fetched: {type(error).__name__}") from error


def _list(url: str) -> httpx.Response:
    answer = httpx.get(f"{url}/settlements", timeout=limits.SETTLEMENT_FETCH_TIMEOUT_S, trust_env=False)
    return answer.raise_for_status()


def _download(url: str, report_id: str, path: Path) -> None:
    address, timeout_s = f"{url}/settlements/{report_id}", limits.SETTLEMENT_FETCH_TIMEOUT_S
    with httpx.stream("GET", address, timeout=timeout_s, trust_env=False) as answer, path.open("wb") as file:
        answer.raise_for_status()
        size = 0
        for block in answer.iter_bytes():
            size += len(block)
            if size > limits.SETTLEMENT_REPORT_BYTES_MAX:
                raise Unavailable(f"the report {report_id} is too large")
            file.write(block)


def _tried(ask: Callable[[], _T], on_wait: Callable[[str], None]) -> _T:
    """What is asked, which changes nothing. Who refuses a connection or breaks it off may be starting again."""
    for pause_s in limits.SETTLEMENT_FETCH_PAUSES_S:
        try:
            return ask()
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            on_wait(type(error).__name__)
            time.sleep(pause_s)
    return ask()


def fetched_file(processor: str, report_id: str, path: Path) -> ReportFile:
    """What a downloaded report is."""
    return ReportFile(
        processor=processor, report_id=report_id, sha256=digest(path), format="simulator", is_complete_history=True
    )


def given_file(given: GivenFile) -> ReportFile:
    """What a given file is: its bytes are its identity, whatever it is called."""
    sha256 = digest(given.path)
    return ReportFile(
        processor=given.processor or given.format,
        report_id=f"file_{sha256.hex()[:24]}",
        sha256=sha256,
        format=given.format,
        is_complete_history=False,
    )


def lines_of_file(given: GivenFile) -> Iterator[Line | PlainRow | Defect]:
    """What a given report says, line by line and none of them plain. Raises line.UnreadableReport."""
    read = simulator.read_lines if given.format == "simulator" else READERS[given.format]
    with given.path.open("rb") as stream:
        yield from read(stream)


def digest(path: Path) -> bytes:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _is_plain(text: str) -> bool:
    return 0 < len(text) <= limits.SETTLEMENT_NAME_LENGTH_MAX and text.replace("_", "").replace("-", "").isalnum()
