"""Scans uploads and makes what is served of them; ends what no post took, and takes bytes away that have ended.

It leases a medium, works, and sends what it found as a command under an identity of that upload: a scanner that dies is
replaced when its lease is over, and whichever answer comes first is the only one. Only bytes that were scanned are
rendered: the source has its name for ever and never changes.
"""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import psycopg
import structlog
from msgspec import Struct

from dataflows.social.config import SocialConfig
from dataflows.social.media.clamd import Clamd
from dataflows.social.media.malware import is_malware
from dataflows.social.media.rendering import render
from dataflows.social.media.sandboxes import Killed, Sandboxes, Undecided
from dataflows.worker.commands import CommandSender, command_about
from dataflows.worker.contract import WorkerPlace
from schemas.records import Command
from schemas.social import limits
from schemas.social.media_operations import SCANNER
from sinks.objects.media_objects import media_objects
from sinks.postgres import database_clock
from sinks.postgres.lasting_session import LastingSession
from sinks.postgres.sql_files import queries

SQL: Final = queries("dataflows.social.media", "scanner.sql")
_S_US: Final = 1_000_000
_MINUTE_US: Final = 60 * _S_US
_log = structlog.get_logger(__name__)


class Upload(Struct):
    """What a scanner knows of a medium."""

    media_id: str
    owner_id: str
    mime: str
    size: int
    sha256: str
    version: int
    is_blocked: bool
    crashes: int  # of its decoder before this scan
    kills: int  # of its decoder before this scan, by somebody else
    is_crashed: bool = False  # by this scan
    is_killed: bool = False
    seen: str = ""  # what its scan does or has met, as operators are told

    @property
    def why_hopeless(self) -> str | None:
        """Why it is the medium all the same: the machine would hardly fail at one so often."""
        for count, most, what in (
            (self.crashes + self.is_crashed, limits.MEDIA_CRASHES_MAX, "its decoder crashed"),
            (self.kills + self.is_killed, limits.MEDIA_KILLS_MAX, "its decoder was killed"),
        ):
            if count >= most:
                return f"{what} {count} times"
        return None


class _Scan(NamedTuple):
    upload: Upload
    found: Future[Command | None]


class Scanner:
    """One process of it; several share the work by leases."""

    def __init__(self, place: WorkerPlace) -> None:
        self._config = place.of_service(SocialConfig)
        self._objects = media_objects(self._config.media)
        self._clamd = Clamd(self._config.clamd) if self._config.clamd else None
        self._sender = CommandSender(place)
        self.sandboxes = Sandboxes()
        self._session = LastingSession("scanner", place.postgres_dsn)
        self._scans: dict[str, _Scan] = {}  # under way, by their medium
        self._unwanted: set[str] = set()  # of those, what has ended meanwhile
        self._looked = self._swept = 0.0

    def run(self) -> None:
        """Scans until ``stop``; a database that is away is waited for."""
        with self.sandboxes, ThreadPoolExecutor(limits.MEDIA_SCANS_AT_ONCE) as pool:
            self._session.run(lambda connection: self._follow(connection, pool))

    def stop(self) -> None:
        """Ends ``run`` after the media under way."""
        self._session.stop()

    def why_not_ready(self) -> str | None:
        """None while it scans."""
        return (self._clamd.why_silent if self._clamd else None) or self._session.why_away

    def _follow(self, connection: psycopg.Connection[Any], pool: ThreadPoolExecutor) -> None:
        idle_s = limits.MEDIA_SCAN_POLL_S
        while self._scans or not self._session.is_stopped:
            if not self._session.is_stopped:
                self.begin(connection, pool)
            ended, commands = self.ended(connection)
            if time.monotonic() - self._swept > limits.MEDIA_SWEEP_S:
                commands += self.orphans(connection)
                self.sweep(connection)
                self._objects.forget_left_drafts()
                self._swept = time.monotonic()
            if reason := self._sender.why_not_sent(commands):
                _log.warning("scans_not_told", reason=reason)  # their leases end, and they are done again
            elif ended:
                looked_at = {"media_ids": ended, "most_s": limits.MEDIA_SCAN_AGAIN_MAX_S}
                connection.execute(SQL["scans_looked"], looked_at)
            idle_s = limits.MEDIA_SCAN_POLL_S if ended or self._scans else min(2 * idle_s, limits.MEDIA_SCAN_IDLE_S)
            if not self._scans:
                self._session.pause(idle_s)

    def begin(self, connection: psycopg.Connection[Any], pool: ThreadPoolExecutor) -> list[str]:
        """Takes media that nobody scans while their lease lasts, as many as there is room for beside the others."""
        room = limits.MEDIA_SCANS_AT_ONCE - len(self._scans)
        given = {"lease_s": limits.MEDIA_SCAN_LEASE_S, "limit": room}
        claimed = [row[0] for row in connection.execute(SQL["scans_claim"], given).fetchall()] if room else []
        if not claimed:
            return []
        rows = connection.execute(SQL["scans_read"], {"media_ids": claimed}).fetchall()
        uploads = [one for row in rows if (one := Upload(*row)).media_id not in self._scans]
        for one in uploads:
            self._scans[one.media_id] = _Scan(one, pool.submit(self._scanned, one))
        return [one.media_id for one in uploads]

    def ended(self, connection: psycopg.Connection[Any]) -> tuple[list[str], list[Command]]:
        """Whose scans have ended, and what was found, as commands.

        None of what the machine failed at: another try will know. Waits a little for the first one, and keeps the
        leases of the others.
        """
        wait([scan.found for scan in self._scans.values()], limits.MEDIA_SCAN_POLL_S, FIRST_COMPLETED)
        ended = {media_id: scan for media_id, scan in self._scans.items() if scan.found.done()}
        for media_id in ended:
            del self._scans[media_id]
            self._unwanted.discard(media_id)
        if self._scans and time.monotonic() - self._looked > limits.MEDIA_WANTED_LOOK_S:
            given = {"media_ids": list(self._scans), "lease_s": limits.MEDIA_SCAN_LEASE_S}
            rows = connection.execute(SQL["scans_wanted"], given).fetchall()
            self._unwanted.update(self._scans.keys() - {row[0] for row in rows})
            self._note(connection, [scan.upload for scan in self._scans.values()])
            self._looked = time.monotonic()
        uploads = [scan.upload for scan in ended.values()]
        self._note(connection, uploads)
        self._count(connection, uploads)
        return list(ended), [command for scan in ended.values() if (command := scan.found.result()) is not None]

    @staticmethod
    def _note(connection: psycopg.Connection[Any], uploads: list[Upload]) -> None:
        if uploads:
            told = {"media_ids": [one.media_id for one in uploads], "seen": [one.seen for one in uploads]}
            connection.execute(SQL["scans_seen"], told)

    @staticmethod
    def _count(connection: psycopg.Connection[Any], uploads: list[Upload]) -> None:
        crashed = [one.media_id for one in uploads if one.is_crashed]
        killed = [one.media_id for one in uploads if one.is_killed]
        if crashed or killed:
            connection.execute(SQL["scans_failed"], {"crashed": crashed, "killed": killed})

    def _scanned(self, upload: Upload) -> Command | None:
        try:
            outcome, manifest = self._examine(upload)
        except Exception as error:  # noqa: BLE001 - what nobody has foreseen ends no scanner: it would end the next one, too
            self._note_failure(upload, error)
            if (hopeless := upload.why_hopeless) is None:
                return None
            upload.seen, outcome, manifest = hopeless, "rejected", None
        payload = {"media_id": upload.media_id, "outcome": outcome, "manifest": manifest}
        about = f"{upload.media_id}:{upload.version}"
        return command_about(SCANNER, "record_scan", about, f"user:{upload.owner_id}", payload)

    def _note_failure(self, upload: Upload, error: Exception) -> None:
        """Counted is only what a medium may be the reason of."""
        _log.warning("scan_failed", media_id=upload.media_id, kind=type(error).__name__, reason=str(error))
        upload.is_killed = isinstance(error, Killed)
        upload.is_crashed = isinstance(error, Undecided)
        silent = self._clamd.why_silent if self._clamd else None
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        upload.seen = silent or f"{type(error).__name__}: {reason}"[: limits.MEDIA_SEEN_LENGTH_MAX]

    def _examine(self, upload: Upload) -> tuple[str, str | None]:
        self._objects.forget_parts(upload.media_id)  # they are put together, or there would be no scan
        with tempfile.TemporaryDirectory(prefix="millrace-scan-") as place:
            source = self._objects.source_file(upload.media_id, upload.sha256, Path(place))
            if upload.is_blocked:
                upload.seen = "its content is blocked"
                return "infected", None
            if is_malware(source, self._clamd):
                upload.seen = "malware was found"
                return "infected", None
            upload.seen = "processing"
            folder = Path(place) / "rendering"
            folder.mkdir()
            is_wanted = partial(self._is_wanted, upload.media_id)
            made = render(self.sandboxes, self._objects, upload.media_id, source, upload.mime, folder, is_wanted)
        upload.seen = "" if made else f"not decodable as {upload.mime}, or beyond a bound"
        if made is None:
            return "rejected", None
        return "ready", msgspec.json.encode({"version": 1, "renditions": made}).decode()

    def _is_wanted(self, media_id: str) -> bool:
        return media_id not in self._unwanted

    def orphans(self, connection: psycopg.Connection[Any]) -> list[Command]:
        """What no post took in time, each by a command of one identity a minute: an owner's clock may be behind."""
        before = database_clock.now_us(connection) - limits.MEDIA_ORPHAN_S * _S_US
        rows = connection.execute(SQL["orphans_read"], {"before": before, "limit": limits.MEDIA_SWEEP_MAX}).fetchall()
        return [_end_of(one[0], one[1], one[2], (before - one[3]) // _MINUTE_US) for one in rows]

    def sweep(self, connection: psycopg.Connection[Any]) -> None:
        """Takes away the bytes of what has ended; once more when nobody can write any that was under way then."""
        given: dict[str, Any] = {"limit": limits.MEDIA_SWEEP_MAX, "late_s": limits.MEDIA_DRAFT_S}
        swept: list[str] = []
        last: list[str] = []
        left: list[str] = []
        for media_id, sha256, is_last in connection.execute(SQL["ended_read"], given).fetchall():
            try:
                self._objects.forget(media_id, sha256)
            except OSError as error:
                _log.warning("media_not_swept", media_id=media_id, kind=type(error).__name__)
                left.append(media_id)
            else:
                (last if is_last else swept).append(media_id)
        if swept or last:
            connection.execute(SQL["ended_swept"], given | {"media_ids": swept, "last_ids": last})
        if left:
            connection.execute(SQL["ended_left"], {"media_ids": left, "wait_s": limits.MEDIA_SWEEP_AGAIN_S})


def _end_of(media_id: str, owner_id: str, version: int, minutes: int) -> Command:
    about = f"{media_id}:{version}:{minutes}"
    return command_about(SCANNER, "expire_upload", about, f"user:{owner_id}", {"media_id": media_id})


def build(place: WorkerPlace) -> Scanner:
    """One process of it."""
    return Scanner(place)
