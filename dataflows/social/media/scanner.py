"""Scans uploads and makes what is served of them; ends what no post took, and takes bytes away that have ended.

It leases a medium, works, and sends what it found as a command under an identity of that upload: a scanner that dies is
replaced when its lease is over, and whichever answer comes first is the only one. Only bytes that were scanned are
rendered: the source has its name for ever and never changes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import psycopg
import structlog
from msgspec import Struct

from dataflows.social.config import SocialConfig
from dataflows.social.media.malware import is_malware
from dataflows.social.media.rendering import Undecided, render
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
    crashes: int  # of its decoder so far


class Scanner:
    """One process of it; several share the work by leases."""

    def __init__(self, place: WorkerPlace) -> None:
        self._config = place.of_service(SocialConfig)
        self._objects = media_objects(self._config.media)
        self._sender = CommandSender(place)
        self._session = LastingSession("scanner", place.postgres_dsn)
        self._swept = 0.0

    def run(self) -> None:
        """Scans until ``stop``; a database that is away is waited for."""
        with ThreadPoolExecutor(limits.MEDIA_SCANS_AT_ONCE) as pool:
            self._session.run(lambda connection: self._follow(connection, pool))

    def stop(self) -> None:
        """Ends ``run`` after the media under way."""
        self._session.stop()

    def why_not_ready(self) -> str | None:
        """None while it scans."""
        return self._session.why_away

    def _follow(self, connection: psycopg.Connection[Any], pool: ThreadPoolExecutor) -> None:
        while not self._session.is_stopped:
            found = self.claimed(connection)
            commands = self.scanned(connection, found, pool)
            if time.monotonic() - self._swept > limits.MEDIA_SWEEP_S:
                commands += self.orphans(connection)
                self.sweep(connection)
                self._objects.forget_old_drafts()
                self._swept = time.monotonic()
            if reason := self._sender.why_not_sent(commands):
                _log.warning("scans_not_told", reason=reason)  # their leases end, and they are done again
            elif found:
                looked_at = {"media_ids": [one.media_id for one in found], "most_s": limits.MEDIA_SCAN_AGAIN_MAX_S}
                connection.execute(SQL["scans_looked"], looked_at)
            if not found:
                self._session.pause(limits.MEDIA_SCAN_POLL_S)

    def claimed(self, connection: psycopg.Connection[Any]) -> list[Upload]:
        """Media that nobody else scans while their lease lasts."""
        given = {"lease_s": limits.MEDIA_SCAN_LEASE_S, "limit": limits.MEDIA_SCANS_AT_ONCE}
        claimed = [row[0] for row in connection.execute(SQL["scans_claim"], given).fetchall()]
        if not claimed:
            return []
        return [Upload(*row) for row in connection.execute(SQL["scans_read"], {"media_ids": claimed}).fetchall()]

    def scanned(
        self, connection: psycopg.Connection[Any], uploads: list[Upload], pool: ThreadPoolExecutor
    ) -> list[Command]:
        """What was found of them, as commands; none of what the machine failed at: another try will know."""
        crashes = {one.media_id: one.crashes for one in uploads}
        wanted, given = set(crashes), {"media_ids": list(crashes), "lease_s": limits.MEDIA_SCAN_LEASE_S}
        scans = [pool.submit(self._scanned, one, partial(wanted.__contains__, one.media_id)) for one in uploads]
        while wait(scans, limits.MEDIA_WANTED_LOOK_S).not_done:
            with suppress(psycopg.Error):  # then nobody knows, and it goes on
                rows = connection.execute(SQL["scans_wanted"], given).fetchall()
                wanted.intersection_update(row[0] for row in rows)
        commands = [command for scan in scans if (command := scan.result()) is not None]
        if crashed := [one.media_id for one in uploads if one.crashes > crashes[one.media_id]]:
            connection.execute(SQL["scans_crashed"], {"media_ids": crashed})
        return commands

    def _scanned(self, upload: Upload, is_wanted: Callable[[], bool]) -> Command | None:
        try:
            outcome, manifest = self._examine(upload, is_wanted)
        except OSError as error:
            _log.warning("scan_failed", media_id=upload.media_id, kind=type(error).__name__, reason=str(error))
            upload.crashes += isinstance(error, Undecided)
            if not isinstance(error, Undecided) or upload.crashes < limits.MEDIA_CRASHES_MAX:
                return None
            outcome, manifest = "rejected", None  # the machine would hardly fail at one medium so often
        payload = {"media_id": upload.media_id, "outcome": outcome, "manifest": manifest}
        about = f"{upload.media_id}:{upload.version}"
        return command_about(SCANNER, "record_scan", about, f"user:{upload.owner_id}", payload)

    def _examine(self, upload: Upload, is_wanted: Callable[[], bool]) -> tuple[str, str | None]:
        self._objects.forget_parts(upload.media_id)  # they are put together, or there would be no scan
        with tempfile.TemporaryDirectory(prefix="millrace-scan-") as place:
            source = self._objects.source_file(upload.media_id, upload.sha256, Path(place))
            if upload.is_blocked or is_malware(source, self._config.clamd):
                return "infected", None
            folder = Path(place) / "rendering"
            folder.mkdir()
            made = render(self._objects, upload.media_id, source, upload.mime, folder, is_wanted)
        if made is None:
            return "rejected", None
        return "ready", msgspec.json.encode({"version": 1, "renditions": made}).decode()

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
