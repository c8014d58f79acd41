"""A scanner ends a medium for what is wrong with it, and never for what the machine did."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from dataflows.social.config import SocialConfig
from dataflows.social.media import scanner as scanning
from dataflows.social.media.clamd import Clamd
from dataflows.social.media.sandboxes import Killed, Undecided, Unwanted
from dataflows.social.media.scanner import Scanner, Upload
from dataflows.worker.contract import WorkerPlace
from schemas.senders import of_worker
from schemas.social import limits
from schemas.social.media_origin import MediaOrigin
from sinks.objects.media_objects import MediaObjects, media_objects, source_key
from tests.eventually import eventually
from tests.unit.social.hostile_media import png
from tests.worlds.social_media import sha

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from schemas.records import Command
    from tests.servers import World

pytestmark = pytest.mark.servers
SOURCE = png(16, 16)
SEED = f"""
insert into author (user_id) values ('u_scanned') on conflict do nothing;
insert into media (media_id, owner_id, mime, size, sha256, parts, expires_in_s, scan_state, version, created_at, updated_at)
values ('md_scanned', 'u_scanned', 'image/png', {len(SOURCE)}, '{sha(SOURCE)}', 1, 60, 'scanning', 2, 1, 1)
"""

WAITING = """
insert into media (media_id, owner_id, mime, size, sha256, parts, expires_in_s, scan_state, version, created_at, updated_at)
select %(media_id)s, %(owner)s, 'image/png', 1, repeat('a', 64), 1, 60, 'scanning', 2, 1, max(updated_at) + 1 from media
"""


class Scans:
    """One scanner, looked over the shoulder: what it would tell an owner that has decided nothing yet."""

    def __init__(
        self,
        scanner: Scanner,
        scanning: psycopg.Connection[Any],
        connection: psycopg.Connection[Any],
        objects: MediaObjects,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._pool = pool
        self.scanner, self._scanning, self._connection, self._objects = scanner, scanning, connection, objects

    def again(self) -> list[Command]:
        self.forget_lease()
        self.next()
        commands = []
        while self.scanner._scans:
            commands += self.told()
        return commands

    def told(self) -> list[Command]:
        """What was found of what has ended since."""
        return self.scanner.ended(self._scanning)[1]

    def orphan_of(self, over_s: int) -> str:
        """The identity of the command that ends a medium, so long after its time."""
        day_s = limits.MEDIA_ORPHAN_S
        aged = "update media set created_at = (extract(epoch from clock_timestamp()) - %s) * 1000000"
        self._connection.execute(aged, (day_s + over_s,))
        (command,) = self.scanner.orphans(self._scanning)
        assert command.operation == "expire_upload"
        return command.idempotency_key

    def wait(self, owner: str, *media_ids: str) -> None:
        """These are completed one after the other, after all that were before."""
        self._connection.execute("insert into author (user_id) values (%s) on conflict do nothing", (owner,))
        for media_id in media_ids:
            self._connection.execute(WAITING, {"media_id": media_id, "owner": owner})

    def next(self) -> set[str]:
        """What a scanner takes that scans nothing yet."""
        self.scanner._scans.clear()
        return self.begun()

    def begun(self) -> set[str]:
        """What it takes besides."""
        return set(self.scanner.begin(self._scanning, self._pool))

    def retry(self) -> None:
        """As an operator does."""
        word = self._connection.execute("select media_retry('shell:ann', 'md_scanned', 'Once more')").fetchone()
        assert word == ("retried",)

    def forget_lease(self) -> None:
        self._connection.execute("update media_scan set leased_until = clock_timestamp() - interval '1 second'")

    def lease(self) -> None:
        self._connection.execute("update media_scan set leased_until = clock_timestamp() + interval '1 hour'")

    def seen(self) -> str:
        """What operators are told of the last scan."""
        row = self._connection.execute("select coalesce(seen, '') from media_scan").fetchone()
        return str(row[0]) if row else ""

    def is_leased(self) -> bool:
        row = self._connection.execute("select leased_until > clock_timestamp() from media_scan").fetchone()
        return bool(row and row[0])

    def end(self) -> None:
        self._connection.execute("update media set scan_state = 'expired'")

    def is_held_after_a_sweep(self, later_s: int = 0) -> bool:
        """Whether the source is there after a sweep, so long after the last one."""
        self._connection.execute(
            "update media_sweep set ended_at = ended_at - %(s)s * interval '1 s', next_at = next_at - %(s)s * interval '1 s'",
            {"s": later_s},
        )
        self.scanner.sweep(self._scanning)
        return self._objects.holds("md_scanned", sha(SOURCE))

    def left_to_sweep(self) -> int:
        row = self._connection.execute("select count(*) from media_sweep").fetchone()
        return int(row[0]) if row else 0


def keep_source(objects: MediaObjects) -> None:
    with objects.draft(len(SOURCE)) as draft:
        draft.write(SOURCE)
        assert draft.keep(source_key("md_scanned", sha(SOURCE)), sha(SOURCE))


@pytest.fixture
def scans(stack: World, tmp_path: Path) -> Iterator[Scans]:
    origin = MediaOrigin(url="http://media", uploads_url="http://media", key=b"k" * 32, folder=tmp_path)
    keep_source(media_objects(origin))
    place = WorkerPlace(
        name="social_scanner",
        kafka=stack.settings.kafka_as(of_worker("social_scanner")),
        postgres_dsn=stack.addresses.postgres_dsns["millrace_social_scanner"],
        client_id="scanner-test",
        of_services=(SocialConfig(media=origin),),
    )
    superuser, own = stack.addresses.postgres_superuser_dsn, place.postgres_dsn
    with psycopg.connect(own, autocommit=True) as scanning, psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute("delete from media_scan; delete from media_sweep; delete from media")
        connection.execute(SEED.encode())
        scanner = Scanner(place)
        with scanner.sandboxes, ThreadPoolExecutor(limits.MEDIA_SCANS_AT_ONCE) as pool:
            yield Scans(scanner, scanning, connection, media_objects(origin), pool)


def failing_with(error: Exception) -> Any:
    def render(*_: object) -> None:
        raise error

    return render


def outcomes(commands: list[Command]) -> list[object]:
    return [command.payload["outcome"] for command in commands]


def test_a_machine_that_fails_for_long_rejects_no_good_medium(scans: Scans, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody has foreseen ends no scanner either: the next one would meet it, too."""
    often = 2 * limits.MEDIA_CRASHES_MAX
    with monkeypatch.context() as failing:
        for error in (OSError("no room"), Killed("for want of memory"), RuntimeError("unforeseen")):
            failing.setattr(scanning, "render", failing_with(error))
            assert [outcomes(scans.again()) for _ in range(often)] == [[]] * often
            assert scans.seen() == f"{type(error).__name__}: {error}"
        failing.setattr(scanning, "render", failing_with(Undecided("crashed")))
        assert outcomes(scans.again()) == []
    assert outcomes(scans.again()) == ["ready"]


def test_a_clamd_that_is_away_has_media_wait_and_operators_told(scans: Scans, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans.scanner, "_clamd", Clamd("127.0.0.1:1"))
    assert outcomes(scans.again()) == []
    assert "clamd" in str(scans.scanner.why_not_ready())
    assert scans.seen().startswith("clamd: ")
    monkeypatch.setattr(scans.scanner, "_clamd", None)
    assert (outcomes(scans.again()), scans.seen()) == (["ready"], "")


def test_a_medium_that_crashes_its_decoder_again_and_again_is_rejected(
    scans: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sooner than one whose decoder is killed again and again; an operator may have it tried as often once more."""
    for error, most, what in (
        (Undecided("crashed"), limits.MEDIA_CRASHES_MAX, "its decoder crashed"),
        (Killed("for want of memory"), limits.MEDIA_KILLS_MAX, "its decoder was killed"),
    ):
        monkeypatch.setattr(scanning, "render", failing_with(error))
        for _ in range(2):
            told = [outcomes(scans.again()) for _ in range(most)]
            assert told == [[]] * (most - 1) + [["rejected"]]
            assert scans.seen() == f"{what} {most} times"
            scans.retry()


def test_a_scan_of_what_has_ended_holds_up_no_erasure(scans: Scans, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate waits for who may still write; a film may take minutes."""
    monkeypatch.setattr(limits, "MEDIA_WANTED_LOOK_S", 0.05)

    def render(*given: Any) -> None:
        is_wanted = given[-1]
        assert is_wanted()
        scans.end()
        eventually(lambda: not is_wanted(), 60, what="the scanner hears that it has ended")
        raise Unwanted

    monkeypatch.setattr(scanning, "render", render)
    assert outcomes(scans.again()) == []


def test_a_scan_keeps_its_lease_as_long_as_it_lasts_and_no_longer(
    scans: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So one that dies keeps neither its media waiting for minutes, nor the erasure of their owner."""
    monkeypatch.setattr(limits, "MEDIA_WANTED_LOOK_S", 0.05)

    def render(*_: object) -> None:
        scans.forget_lease()
        eventually(scans.is_leased, 60, what="the lease is renewed")
        raise OSError

    with monkeypatch.context() as lasting:
        lasting.setattr(scanning, "render", render)
        assert outcomes(scans.again()) == []
        lasting.setattr(scanning, "render", failing_with(OSError()))
    scans.lease()
    assert scans.next() == set(), "it is this scanner's for a while"
    scans.forget_lease()
    assert scans.next() == {"md_scanned"}


def test_an_orphan_that_an_owner_found_too_young_is_told_of_again(scans: Scans) -> None:
    """Its refusal is stored, and is the answer to the same command for ever."""
    first, again = scans.orphan_of(30), scans.orphan_of(35)
    assert again == first
    assert scans.orphan_of(95) != first


def test_what_a_writer_under_way_leaves_of_a_medium_that_ended_goes_too(
    scans: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed before it could see that nobody wants its bytes any more."""
    assert scans.is_held_after_a_sweep()
    scans.end()
    with monkeypatch.context() as broken:
        broken.setattr(MediaObjects, "forget", failing_with(OSError("a disk that fails")))
        assert scans.is_held_after_a_sweep()
    assert scans.is_held_after_a_sweep(), "others come first"
    assert not scans.is_held_after_a_sweep(limits.MEDIA_SWEEP_AGAIN_S)
    keep_source(scans._objects)
    assert scans.is_held_after_a_sweep(), "not yet"
    assert not scans.is_held_after_a_sweep(limits.MEDIA_DRAFT_S)
    assert scans.left_to_sweep() == 0


def test_what_is_scanned_is_told_while_a_film_goes_on_and_another_one_begins(
    scans: Scans, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans.wait("u_scanned", "md_second", "md_third")
    film_ends = threading.Event()

    def examine(_: Scanner, upload: Upload) -> tuple[str, None]:
        if upload.media_id == "md_scanned":
            assert film_ends.wait(60)
        return "rejected", None

    monkeypatch.setattr(Scanner, "_examine", examine)
    try:
        assert scans.next() == {"md_scanned", "md_second"}
        assert [one.payload["media_id"] for one in eventually(scans.told)] == ["md_second"]
        assert scans.begun() == {"md_third"}
        assert [one.payload["media_id"] for one in eventually(scans.told)] == ["md_third"]
    finally:
        film_ends.set()
    assert [one.payload["media_id"] for one in eventually(scans.told)] == ["md_scanned"]


def test_who_has_many_keeps_nobody_waiting(scans: Scans) -> None:
    scans.wait("u_scanned", "md_second", "md_third", "md_fourth")
    scans.wait("u_patient", "md_own", "md_late")
    scans.wait("u_last", "md_last")
    assert [scans.next() for _ in range(4)] == [
        {"md_scanned", "md_own"},
        {"md_last", "md_second"},
        {"md_late", "md_third"},
        {"md_fourth"},
    ]
