"""Access logs as traffic: Apache's and nginx's combined format, and a seeded generator of the same lines.

Servers write a line when a request ends, so a log goes back in time again and again: requests are sorted by their
time, and those of one second keep the order of the log.
"""

from __future__ import annotations

import gzip
import random
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from compose.proof import limits
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_LINE: Final = re.compile(
    r'(?P<client>\S+) \S+ .*?\[(?P<time>[^\]]+)\] "(?P<request>(?:[^"\\]|\\.)*)" \d{3} (?P<size>\d+|-)'
)
_TIME: Final = "%d/%b/%Y:%H:%M:%S %z"
_SEED: Final = 20_260_107
_BEGIN: Final = datetime(2026, 1, 7, 9, tzinfo=UTC)
_PATHS: Final = {  # as often as in logs of small public sites: the assets of a page come with it
    "/style/site.css": 18,
    "/scripts/site.js": 12,
    "/images/logo.png": 16,
    "/images/map.jpg": 10,
    "/articles/rate-limits": 14,
    "/articles/ledgers": 9,
    "/projects/millrace": 8,
    "/feed?format=rss": 9,
    "/robots.txt": 4,
}


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of a log."""

    at_s: int
    client: str
    path: str  # without its query
    size_bytes: int


@dataclass(frozen=True, slots=True)
class AccessLog:
    """Requests ordered by time; ``skipped`` lines were none."""

    visits: tuple[Visit, ...]
    skipped: int
    out_of_order: int  # neighbours in the file of which the second is the earlier one

    @property
    def span_s(self) -> int:
        """From the first request to the last."""
        return self.visits[-1].at_s - self.visits[0].at_s


def read_access_log(path: Path) -> AccessLog:
    """A file, also gzipped. Raises StackError for one that cannot be read or holds no request."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", errors="replace") as lines:
            found = parsed(lines)
    except (OSError, EOFError) as error:
        raise StackError(f"{path} cannot be read: {error}") from error
    if not found.visits:
        raise StackError(f"{path} holds no line of Apache's combined format")
    return found


def parsed(lines: Iterable[str]) -> AccessLog:
    """The requests of lines, at most as many as a demo replays. Raises StackError for more."""
    visits: list[Visit] = []
    skipped = out_of_order = 0
    for line in lines:
        visit = visit_of(line)
        if visit is None:
            skipped += 1
            continue
        out_of_order += bool(visits) and visit.at_s < visits[-1].at_s
        visits.append(visit)
        if len(visits) > limits.DEMO_LOG_LINES_MAX:
            raise StackError(f"the log has more than {limits.DEMO_LOG_LINES_MAX:,} requests: replay a part of it")
    return AccessLog(tuple(sorted(visits, key=lambda visit: visit.at_s)), skipped, out_of_order)


def visit_of(line: str) -> Visit | None:
    """The request of one line; None when it is no line of the format."""
    match = _LINE.match(line)
    if match is None:
        return None
    try:
        at_s = int(datetime.strptime(match["time"], _TIME).astimezone(UTC).timestamp())
        target = match["request"].split(" ")[1]
        path = urlsplit(target).path
    except (ValueError, IndexError):
        return None
    size = match["size"]
    return Visit(at_s, match["client"], path or "/", 0 if size == "-" else int(size))


def generated_lines(count: int) -> Iterator[str]:
    """Lines that are the same every time: few clients ask often, in bursts, and some lines come late."""
    source = random.Random(_SEED)
    clients = [f"198.51.{source.randrange(256)}.{n % 250 + 1}" for n in range(max(count // 20, 8))]
    weights = [1 / (rank + 1) for rank in range(len(clients))]
    at, written = _BEGIN, 0
    while written < count:
        at += timedelta(seconds=source.expovariate(1 / 30))
        client = source.choices(clients, weights)[0]
        for path in source.choices(list(_PATHS), list(_PATHS.values()), k=min(source.randint(1, 9), count - written)):
            late = at + timedelta(seconds=source.randint(-3, 3))
            size = source.choice((304, 2_011, 9_875, 81_530, 203_023))
            yield f'{client} - - [{late.strftime(_TIME)}] "GET {path} HTTP/1.1" 200 {size} "-" "generated"'
            written += 1
