"""Keys change while snapshots are followed: nothing that was signed in between is refused, and what was removed is."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from limiter.policy.follower import SnapshotFollower
from limiter.policy.published import PublishedOverHttp
from limiter.policy.signing_keys import SigningKeys
from limiter.policy.snapshot import Snapshot, SnapshotRefused, key_id, sign, verified
from schemas.errors import NotFound, StateConflict
from schemas.limiter import limits

if TYPE_CHECKING:
    from pathlib import Path

    from limiter.policy.policies import PolicySet

NOW = 4_000_000_000  # the follower asks the real clock whether a snapshot has expired
LIFE_S = 60


@pytest.fixture
def keys(tmp_path: Path) -> SigningKeys:
    found = SigningKeys(tmp_path / "keys")
    found.ensure()
    return found


def signed(keys: SigningKeys, revision: int = 1) -> bytes:
    snapshot = Snapshot(revision=revision, issued_at=NOW, not_after=NOW + LIFE_S, policies=[])
    return sign(snapshot, keys.signing_key())


def test_rotation_overlaps_and_a_removed_key_is_refused(keys: SigningKeys) -> None:
    first, old = keys.signer(), signed(keys)
    second = keys.rotate()
    assert second == keys.signer() != first
    for document in (old, signed(keys)):
        assert verified(document, keys.verifying_keys(), 1, NOW).revision == 1
    keys.remove(first)
    assert list(keys.verifying_keys()) == [second]
    with pytest.raises(SnapshotRefused, match="not known"):
        verified(old, keys.verifying_keys(), 1, NOW)
    assert verified(signed(keys), keys.verifying_keys(), 1, NOW).revision == 1


def test_a_publisher_makes_its_key_once_and_sees_a_rotation_at_once(keys: SigningKeys) -> None:
    first = keys.signing_key()
    assert keys.signing_key() is first
    keys.rotate()
    assert keys.signing_key() is not first
    second, text = keys.signer(), keys.private.read_text()
    keys.private.write_text("[]")  # damaged, in place
    with pytest.raises(IndexError):
        keys.signing_key()
    keys.private.write_text(text)
    assert keys.signer() == second
    assert key_id(keys.signing_key().public_key()) == keys.signer()


def test_a_prepared_key_verifies_before_it_signs(keys: SigningKeys) -> None:
    first = keys.signer()
    prepared = keys.prepare()
    assert (keys.signer(), list(keys.verifying_keys())) == (first, [first, prepared])
    with pytest.raises(StateConflict):
        keys.prepare()
    assert keys.rotate() == prepared == keys.signer()
    assert list(keys.verifying_keys()) == [first, prepared]


def test_a_prepared_key_may_be_given_up(keys: SigningKeys) -> None:
    prepared = keys.prepare()
    keys.remove(prepared)
    assert keys.rotate() != prepared
    assert prepared not in keys.verifying_keys()


def test_no_change_leaves_nothing_that_signs(keys: SigningKeys) -> None:
    with pytest.raises(StateConflict, match="rotate first"):
        keys.remove(keys.signer())
    with pytest.raises(NotFound):
        keys.remove("0" * 16)
    while len(keys.verifying_keys()) < limits.LIMIT_SIGNING_KEYS_MAX:
        keys.rotate()
    with pytest.raises(StateConflict, match="too many"):
        keys.rotate()
    assert keys.signer() in keys.verifying_keys()


def test_who_rotate_at_once_lose_no_key(keys: SigningKeys) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: keys.rotate(), range(8)))
    assert set(made) < set(keys.verifying_keys())
    assert keys.signer() in made


def test_files_are_private_after_a_change(keys: SigningKeys) -> None:
    keys.rotate()
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys.folder.iterdir()} == {0o600}


class Followed:
    """A follower without an address, and what it tells its limiter."""

    def __init__(self, keys: SigningKeys, folder: Path, max_stale_s: int) -> None:
        self.used: list[int] = []
        self.lapses = 0
        self.follower = SnapshotFollower(
            PublishedOverHttp("http://127.0.0.1:1", str),
            keys.verifying_keys,
            self._use,
            folder / "revision",
            lapse=self._lapse,
            max_stale_s=max_stale_s,
        )

    def _use(self, policies: PolicySet) -> None:
        self.used.append(policies.revision)

    def _lapse(self) -> None:
        self.lapses += 1


def test_a_snapshot_lapses_once_and_only_after_its_grace(keys: SigningKeys, tmp_path: Path) -> None:
    """Expired is an alarm; too old is the end, until a newer one comes."""
    found = Followed(keys, tmp_path, max_stale_s=100)
    found.follower.judge_age(NOW + 10**9)  # without a snapshot there is nothing that could be too old
    found.follower.take(signed(keys))
    end = NOW + LIFE_S
    assert found.follower.expires_in_s(end + 1) == -1
    for now_s in (NOW, end, end + 99):
        found.follower.judge_age(now_s)
    assert (found.lapses, found.follower.is_lapsed) == (0, False)
    found.follower.judge_age(end + 100)
    found.follower.judge_age(end + 101)
    assert (found.lapses, found.follower.is_lapsed) == (1, True)
    found.follower.take(signed(keys, revision=2))
    assert (found.used, found.follower.is_lapsed) == ([1, 2], False)
    found.follower.judge_age(end + 100)
    assert found.lapses == 2


@pytest.mark.parametrize("left", [b"", b"seven", b"\xff\xfe", None])
def test_nothing_is_used_while_the_last_revision_cannot_be_read(keys: SigningKeys, tmp_path: Path, left: Any) -> None:
    """A snapshot that is signed, and may be an old one that came back. Who runs already knows its own."""
    running = Followed(keys, tmp_path, max_stale_s=0)
    running.follower.take(signed(keys, revision=7))
    file = tmp_path / "revision"
    assert file.read_text() == "7"
    file.unlink()
    if left is None:
        file.mkdir()
    else:
        file.write_bytes(left)
    restarted = Followed(keys, tmp_path, max_stale_s=0)
    with pytest.raises(SnapshotRefused, match="revision"):
        restarted.follower.take(signed(keys, revision=8))
    assert (restarted.used, restarted.follower.is_ready) == ([], False)
    with pytest.raises(SnapshotRefused):
        running.follower.take(signed(keys, revision=6))
    if left is not None:
        running.follower.take(signed(keys, revision=9))
        assert file.read_text() == "9"
        with pytest.raises(SnapshotRefused):
            restarted.follower.take(signed(keys, revision=8))


def test_keys_are_read_again_for_every_snapshot(keys: SigningKeys, tmp_path: Path) -> None:
    found = Followed(keys, tmp_path, max_stale_s=0)
    for revision in range(1, 6):
        found.follower.take(signed(keys, revision))
        old = keys.signer()
        keys.rotate()
        found.follower.take(signed(keys, revision))
        keys.remove(old)
    assert found.used == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
