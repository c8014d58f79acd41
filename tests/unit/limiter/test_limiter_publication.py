"""What a policy must be to be published, and what a snapshot must be to be used."""

from __future__ import annotations

import asyncio
import errno
import threading
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from dataflows.limiter.domain.limit_policy import OwnedPolicy, decide_publish, decide_withdraw
from ingress.limiter.quota_policies import QuotaPolicies
from limiter.policy.follower import SnapshotFollower
from limiter.policy.policies import PolicySet
from limiter.policy.snapshot import Snapshot, SnapshotRefused, sign
from schemas.limiter import limits
from schemas.limiter.limit_terms import SAFE_INTEGER
from schemas.limiter.operations import OPERATIONS
from schemas.records import Rejection
from sinks import private_file
from tests.unit.limiter.test_limiter_policies import KEY, KEYS, policy
from tests.worlds.payments import payment_cases as cases

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "broken",
    [
        {"window_ms": None},
        {"algorithm": "sliding_window", "slots": 7},
        {"algorithm": "sliding_window", "slots": 0},
        {"capacity": SAFE_INTEGER},
    ],
)
def test_a_policy_that_nobody_can_count_by_is_an_error_wherever_it_comes(broken: dict[str, Any]) -> None:
    """Left out of a snapshot it would limit nobody; a command that came past our API may hold it."""
    bad = msgspec.structs.replace(policy("pl_bad"), **broken)
    with pytest.raises(SnapshotRefused, match="pl_bad"):
        PolicySet([policy("pl_good"), bad], 1)
    payload = msgspec.to_builtins(bad) | {"policy_id": None}
    command = cases.command("publish_policy", payload, key="k", aggregate_key="pl_a", expected_version=None)
    refused = decide_publish(None, command, 1)
    assert isinstance(refused, Rejection)
    assert refused.code == "invalid_command"


@pytest.mark.parametrize(
    ("publisher", "tenant", "code"),
    [
        ("m_ops", "t2", ""),
        ("m_ops", "*", ""),
        ("tenant:t1", "t1", ""),
        ("tenant:t1", "t2", "forbidden"),
        ("tenant:t1", "*", "forbidden"),
        ("user:t1", "t1", "forbidden"),
    ],
)
def test_a_tenants_token_rules_over_that_tenant_alone(publisher: str, tenant: str, code: str) -> None:
    payload = {"scope": {"tenant": tenant, "user": "*", "route": "*"}, "algorithm": "fixed_window", "capacity": 10}
    found, _ = OPERATIONS["publish_policy"].normalize(payload | {"window_ms": 60_000})
    command = cases.command("publish_policy", found, key="k", aggregate_key="pl_a", expected_version=None)
    decided = decide_publish(None, msgspec.structs.replace(command, scope=publisher), 1)
    assert (decided.code if isinstance(decided, Rejection) else "") == code


class Known:
    """A place where one document is published, or none."""

    def __init__(self, document: bytes | None = None) -> None:
        self._document = document

    async def newer(self, known: str, _wait_s: int) -> tuple[str, bytes] | None:
        return None if self._document is None or known else ("1", self._document)


def test_a_revision_is_on_the_disk_before_anybody_decides_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of power between the two would let an older snapshot in; a disk that takes nothing changes nothing."""
    remembered, seen = tmp_path / "of" / "r", list[str]()
    follower = SnapshotFollower(Known(), lambda: KEYS, lambda _found: seen.append(remembered.read_text()), remembered)
    for revision in (1, 2):
        follower.take(_signed(revision))
    assert seen == ["1", "2"]
    assert follower.snapshot is not None

    def full(_path: Path, _text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(private_file, "replace", full)
    with pytest.raises(OSError, match="No space"):
        follower.take(_signed(3))
    assert (follower.snapshot.revision, seen) == (2, ["1", "2"])


def test_the_loop_that_decides_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    real = private_file.replace

    def replace(path: Path, text: str) -> None:
        threads.append(threading.get_ident())
        real(path, text)

    monkeypatch.setattr(private_file, "replace", replace)

    async def fetched() -> int:
        follower = SnapshotFollower(Known(_signed(7)), lambda: KEYS, lambda _: None, tmp_path / "r")
        await follower._round()
        assert follower.snapshot is not None
        return threading.get_ident()

    of_the_loop = asyncio.run(fetched())
    assert len(threads) == 1
    assert threads != [of_the_loop]
    assert (tmp_path / "r").read_text() == "7"


def test_the_loop_that_decides_computes_no_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those that it chooses of a snapshot, nor those of a view; of two at once the later one stays."""
    threads: list[int] = []
    real = PolicySet.__init__

    def computed(made: PolicySet, policies: Any, revision: int, *others: Any, **named: Any) -> None:
        threads.append(threading.get_ident())
        real(made, policies, revision, *others, **named)

    class Published:
        """The ingress' own database, which has a newer one for whoever asks a second time."""

        revision = 7

        async def rows(self, _query: str, parameters: dict[str, Any]) -> list[tuple[str, bytes | None]]:
            digest, document = str(self.revision), _signed(self.revision)
            return [(digest, None if parameters["known"] == digest else document)]

    async def test() -> int:
        store: Any = Published()
        shown = QuotaPolicies(store, None, None)  # type: ignore[arg-type]
        monkeypatch.setattr(PolicySet, "__init__", computed)
        of_api = SnapshotFollower(
            Known(_signed(7)), lambda: KEYS, lambda _: None, tmp_path / "r", chosen=lambda found: found.only(bool)
        )
        await of_api._round()
        assert of_api.snapshot is not None
        assert len(threads) == 2
        for store.revision in (8, 9):
            at_once = await asyncio.gather(shown._in_force(), shown._in_force())
            assert {found.revision for found in at_once} == {store.revision}
        assert len(threads) == 4
        await shown._take("6", _signed(6))
        assert shown._set.revision == 9
        return threading.get_ident()

    assert asyncio.run(test()) not in threads


async def _turns_of_the_loop() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Patient:
    """A place where nothing new is published, and a look that may wait does so until it is given up."""

    def __init__(self) -> None:
        self.waits: list[int] = []
        self.asked = asyncio.Event()

    async def newer(self, _known: str, wait_s: int) -> None:
        self.waits.append(wait_s)
        self.asked.set()
        if wait_s:
            await asyncio.Event().wait()


def test_a_look_waits_for_what_is_published_and_no_more_when_a_store_says_that_the_map_is_old(tmp_path: Path) -> None:
    async def test() -> None:
        place = Patient()
        follower = SnapshotFollower(place, lambda: KEYS, lambda _: None, tmp_path / "r")
        waiting = asyncio.create_task(follower._round())
        await place.asked.wait()
        follower.hurry()
        follower.hurry()  # by another shard
        await waiting
        assert place.waits == [limits.LIMIT_SNAPSHOT_WAIT_S, 0]
        follower.hurry()  # between two looks, or while one that does not wait is answered
        await follower._round()
        assert place.waits == [limits.LIMIT_SNAPSHOT_WAIT_S, 0, 0]
        ended = asyncio.create_task(follower._round())
        await _turns_of_the_loop()
        ended.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ended
        assert place.waits[3:] == [limits.LIMIT_SNAPSHOT_WAIT_S]

    asyncio.run(test())


def test_who_waits_for_a_snapshot_hears_of_it_from_whoever_looks_first_and_of_none_at_the_end() -> None:
    class Published:
        """The database of an ingress."""

        digest, looks = "7", 0

        async def rows(self, _query: str, parameters: dict[str, Any]) -> list[tuple[str, bytes | None]]:
            self.looks += 1
            return [(self.digest, None if parameters["known"] == self.digest else b"the document")]

    async def test() -> None:
        store: Any = Published()
        shown = QuotaPolicies(store, None, None)  # type: ignore[arg-type]
        assert await shown.newer_within("6", 60) == ("7", b"the document")
        assert await shown.newer_within("7", 0) is None
        waiting = [asyncio.create_task(shown.newer_within("7", 60)) for _ in range(2)]
        await _turns_of_the_loop()
        store.digest = "8"
        assert await shown.newer("7") == ("8", b"the document")  # the limiter in front of this process
        assert await asyncio.gather(*waiting) == [("8", b"the document")] * 2
        waiting = [asyncio.create_task(shown.newer_within("8", 60)) for _ in range(2)]
        await _turns_of_the_loop()
        shown.drain()
        assert await asyncio.gather(*waiting, shown.newer_within("8", 60)) == [None] * 3

    asyncio.run(test())


def _signed(revision: int) -> bytes:
    return sign(Snapshot(revision=revision, issued_at=0, not_after=2**40, policies=[policy()]), KEY)


def test_a_snapshot_that_cannot_be_counted_by_changes_nothing(tmp_path: Path) -> None:
    used: list[int] = []
    follower = SnapshotFollower(Known(), lambda: KEYS, lambda found: used.append(found.revision), tmp_path / "r")
    bad = msgspec.structs.replace(policy("pl_bad"), window_ms=None)
    made = [
        sign(Snapshot(revision=n, issued_at=0, not_after=2**40, policies=found), KEY)
        for n, found in enumerate(([policy()], [policy(), bad]))
    ]
    follower.take(made[0])
    with pytest.raises(SnapshotRefused, match="pl_bad"):
        follower.take(made[1])
    assert used == [0]
    assert follower.snapshot is not None
    assert follower.snapshot.revision == 0


def test_a_policy_is_withdrawn_once_by_its_publisher_and_for_good() -> None:
    """The last version says what the one before said; nothing follows it, and a stranger hears of no policy."""
    owned = OwnedPolicy(publisher="m_ops", policy=policy("pl_a"), created_at=1, updated_at=1)

    def command(name: str, payload: dict[str, Any], expected: int | None = None, scope: str = "m_ops") -> Any:
        made = cases.command(name, payload, key="k", aggregate_key="pl_a", expected_version=expected)
        return msgspec.structs.replace(made, scope=scope)

    for wrong, code in (
        (command("withdraw_policy", {}, scope="m_other"), "not_found"),
        (command("withdraw_policy", {}, expected=owned.policy.version + 1), "version_conflict"),
    ):
        refused = decide_withdraw(owned, wrong, 2)
        assert isinstance(refused, Rejection)
        assert refused.code == code
    assert isinstance(decide_withdraw(None, command("withdraw_policy", {}), 2), Rejection)
    last = decide_withdraw(owned, command("withdraw_policy", {}), 2)
    assert isinstance(last, OwnedPolicy)
    assert last.policy == msgspec.structs.replace(owned.policy, version=owned.policy.version + 1, withdrawn=True)
    next_one = msgspec.to_builtins(owned.policy) | {"policy_id": "pl_a"}
    for again in (
        decide_withdraw(last, command("withdraw_policy", {}), 3),
        decide_publish(last, command("publish_policy", next_one, last.policy.version), 3),
    ):
        assert isinstance(again, Rejection)
        assert (again.code, again.extra["current_state"]) == ("state_conflict", "withdrawn")
