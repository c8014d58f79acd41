"""Rotation of the key-encryption key: nothing is lost when it is killed, when cards come meanwhile, or by wrong keys."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.eventually import becomes, eventually, patient
from tests.servers import clean_environment
from tests.worlds.payments.vault_world import vault_on
from vault import limits, sealing
from vault.card import Card
from vault.store import query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.payments.vault_world import Holder, VaultWorld

pytestmark = [pytest.mark.servers, pytest.mark.faults]
MILLRACE = str(Path(sys.executable).with_name("millrace"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[VaultWorld]:
    """A world whose keys a test may spoil: one for each test."""
    with vault_on(tmp_path / "home") as made:
        yield made


def command(world: VaultWorld, *words: str) -> subprocess.Popen[str]:
    environment = clean_environment() | world.settings.environment()
    return subprocess.Popen(
        [MILLRACE, "vault", *words, "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(world: VaultWorld, *words: str) -> tuple[int, str, str]:
    process = command(world, *words)
    out, err = process.communicate(timeout=patient(60))
    return process.returncode, out, err


def rotate(world: VaultWorld) -> dict[str, Any]:
    status, out, err = run(world, "rotate")
    assert status == 0, err
    return dict(json.loads(out))


def cards_of(world: VaultWorld) -> dict[str, int]:
    return dict(world.rows("select key_id, count(*) from vault.card group by 1"))


def key_ids(world: VaultWorld) -> list[str]:
    return sorted(world.settings.vault_keys().read().wrapping_keys)


def all_open(holder: Holder, tokens: list[str]) -> bool:
    return all(holder.http.get(f"/v1/tokens/{t}").json()["last4"] == "4242" for t in tokens)


def many_cards(world: VaultWorld, holder: Holder, count: int) -> list[str]:
    """So many cards of one merchant, sealed as the vault does it."""
    ring = world.settings.vault_keys().read()
    card = Card(number="4242424242424242", network="visa", exp_month=12, exp_year=2035)
    tokens = [f"tok_{n:024d}".translate(str.maketrans("0189", "abcd")) for n in range(count)]
    columns = "id, merchant_id, network, last4, fingerprint, key_id, wrapped_key, ciphertext"
    with (
        psycopg.connect(world.settings.addresses().postgres_superuser_dsn) as connection,
        connection.cursor().copy(f"copy vault.card ({columns}) from stdin") as copy,
    ):
        for token in tokens:
            sealed = sealing.seal(card, sealing.Place(token, holder.name), ring.newest, ring)
            copy.write_row(
                (token, holder.name, "visa", "4242", "f", sealed.key_id, sealed.wrapped_key, sealed.ciphertext)
            )
    return tokens


def test_every_card_moves_and_the_old_key_goes(world: VaultWorld) -> None:
    """Under a running vault: what was there opens, what comes is under the new key, the old key is nowhere."""
    world.start()
    holder = world.holder()
    tokens = many_cards(world, holder, 2 * limits.VAULT_ROTATION_STEP_CARDS + 7)
    old = world.settings.vault_keys().read().wrapping_keys["kek_0001"]
    done = rotate(world)
    assert done == {"active": "kek_0002", "retired": ["kek_0001"], "rewrapped": len(tokens)}
    assert cards_of(world) == {"kek_0002": len(tokens)}
    assert key_ids(world) == ["kek_0002"]
    assert old not in world.settings.vault_keys().read().wrapping_keys.values()
    assert all_open(holder, tokens[::97])
    later = holder.token()
    assert cards_of(world) == {"kek_0002": len(tokens) + 1}
    assert rotate(world)["rewrapped"] == len(tokens) + 1
    assert all_open(holder, [later, tokens[-1]])
    _, out, _ = run(world, "status")
    states = {row["key_id"]: (row["state"], row["cards"]) for row in json.loads(out)["data"]}
    assert states == {"kek_0001": ("retired", 0), "kek_0002": ("retired", 0), "kek_0003": ("active", len(tokens) + 1)}


def test_a_killed_rotation_goes_on(world: VaultWorld) -> None:
    """kill -9 in the middle of its steps: both keys are needed and there; started again it ends with the same new key."""
    world.start()
    holder = world.holder()
    tokens = many_cards(world, holder, 3 * limits.VAULT_ROTATION_STEP_CARDS)
    blocked = sorted(tokens)[limits.VAULT_ROTATION_STEP_CARDS + 5]
    with psycopg.connect(world.settings.addresses().postgres_superuser_dsn) as locked:
        locked.execute("select 1 from vault.card where id = %s for update", [blocked])
        process = command(world, "rotate")
        moved = limits.VAULT_ROTATION_STEP_CARDS
        becomes(lambda: cards_of(world).get("kek_0002"), moved, 30, what="the first step is done, the second waits")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=patient(20))
    assert cards_of(world) == {"kek_0001": len(tokens) - moved, "kek_0002": moved}
    assert key_ids(world) == ["kek_0001", "kek_0002"]
    assert all_open(holder, [tokens[0], tokens[-1], blocked, holder.token()])
    eventually(
        lambda: not world.rows("select 1 from pg_locks where locktype = 'advisory' and objid = x'7661756c'::int")
    )
    assert rotate(world) == {"active": "kek_0002", "retired": ["kek_0001"], "rewrapped": len(tokens) - moved}
    assert key_ids(world) == ["kek_0002"]
    assert all_open(holder, [tokens[0], tokens[-1], blocked])


@pytest.mark.parametrize("step", ["key in the file only", "retired in the database only"])
def test_a_rotation_killed_between_file_and_database_goes_on(world: VaultWorld, step: str) -> None:
    """The two gaps between the stores: a key that only the file has is used, one that is retired leaves the file."""
    world.start()
    holder = world.holder()
    token = holder.token()
    file = world.settings.vault_keys()
    if step == "key in the file only":
        file.add()
        assert rotate(world)["active"] == "kek_0002"
    else:
        spare = file.path.read_text()
        rotate(world)
        both = json.loads(file.path.read_text())
        both["wrapping_keys"] |= json.loads(spare)["wrapping_keys"]
        file.path.write_text(json.dumps(both))
        assert rotate(world)["active"] == "kek_0003"
    assert "kek_0001" not in key_ids(world)
    assert all_open(holder, [token])


def test_cards_that_come_during_a_rotation_are_under_the_new_key(world: VaultWorld) -> None:
    """Two vaults seal without a pause while keys change three times: every card opens, none is left behind."""
    world.start()
    world.start()
    holder = world.holder()
    made: list[str] = []
    enough = threading.Event()

    def seal_on() -> None:
        while not enough.is_set():
            made.append(holder.token())

    threads = [threading.Thread(target=seal_on) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in (2, 3, 4):
            before = len(made)
            assert rotate(world)["active"] == f"kek_{number:04d}"
            eventually(lambda before=before: len(made) > before + 20, 20)
    finally:
        enough.set()
        for thread in threads:
            thread.join(patient(20))
    assert cards_of(world) == {"kek_0004": len(made)}
    assert key_ids(world) == ["kek_0004"]
    assert all_open(holder, made)


def test_a_rotation_waits_for_a_card_that_is_being_stored(world: VaultWorld) -> None:
    """A card under the old key that is not committed yet: the key is not retired over its head."""
    world.start()
    holder = world.holder()
    (token,) = many_cards(world, holder, 1)
    ring = world.settings.vault_keys().read()
    late = token.translate(str.maketrans("a", "z"))
    card = Card(number="4242424242424242", network="visa", exp_month=12, exp_year=2035)
    sealed = sealing.seal(card, sealing.Place(late, holder.name), "kek_0001", ring)
    parameters = {
        "id": late, "merchant": holder.name, "key_digest": b"k", "request_digest": b"r", "network": "visa", "last4": "4242",
        "fingerprint": "f", "key_id": "kek_0001", "wrapped_key": sealed.wrapped_key, "ciphertext": sealed.ciphertext,
        "actor": holder.name, "details": "{}",
    }  # fmt: skip
    waiting = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'retiring|audit_append'"
    with psycopg.connect(world.settings.addresses().postgres_dsns["millrace_vault"]) as storing:
        assert storing.execute(query("card_insert"), parameters).fetchall() == [(1, 1)]
        process = command(world, "rotate")
        eventually(lambda: world.rows(waiting) or process.poll() is not None, 30, what="the rotation waits, or is over")
        assert process.poll() is None
    out, err = process.communicate(timeout=patient(30))
    assert json.loads(out)["rewrapped"] == 2, err
    assert cards_of(world) == {"kek_0002": 2}
    assert all_open(holder, [token, late])


def test_two_rotations_at_once_are_one(world: VaultWorld) -> None:
    world.start()
    holder = world.holder()
    token = holder.token()
    with psycopg.connect(world.settings.addresses().postgres_superuser_dsn) as locked:
        locked.execute("select 1 from vault.card where id = %s for update", [token])
        first = command(world, "rotate")
        eventually(lambda: world.rows("select 1 from vault.key where state = 'retiring'"), 30)
        status, _, err = run(world, "rotate")
        assert (status, err.strip()) == (1, "millrace: another rotation runs: wait for its end")
    out, _ = first.communicate(timeout=patient(30))
    assert json.loads(out)["rewrapped"] == 1


def test_another_key_of_the_same_id_is_refused(world: VaultWorld) -> None:
    """A vault with a wrong or lost key file says so and touches nothing; with the right one everything is as before."""
    first = world.start()
    holder = world.holder()
    token = holder.token()
    file = world.settings.vault_keys()
    first.terminate()
    first.wait(patient(20))
    right = file.path.with_name("right.json")
    shutil.move(file.path, right)
    log = world.settings.the_home().log("vault-wrong")
    wrong = world.start(log=log)  # it makes a file of its own, as on a machine whose home was lost
    assert wrong.wait(patient(20)) != 0
    assert (
        "in the key file is not the key of that id that cards were sealed with: restore the right one"
        in log.read_text()
    )
    assert len(log.read_text().splitlines()) == 1
    status, _, err = run(world, "rotate")
    assert status == 1
    assert "restore the right one" in err
    shutil.move(right, file.path)
    world.start()
    assert all_open(holder, [token])


def test_keys_that_vanish_close_the_vault(world: VaultWorld) -> None:
    """A key file that lacks a key cards need, under a running vault: 503 for all, nothing sealed, until it is back."""
    world.start()
    holder = world.holder()
    token = holder.token()
    file = world.settings.vault_keys()
    right = file.path.read_text()
    lacking = json.loads(right)
    lacking["wrapping_keys"]["kek_0002"] = lacking["wrapping_keys"].pop("kek_0001")
    file.path.write_text(json.dumps(lacking))
    becomes(lambda: holder.http.get("/readyz").status_code, 503, 20)
    refused = holder.tokenize()
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
    assert "kek" not in refused.text
    assert world.rows("select count(*) from vault.card") == [(1,)]
    file.path.write_text(right)
    becomes(lambda: holder.http.get("/readyz").status_code, 200, 20)
    assert all_open(holder, [token])


def test_a_card_that_does_not_open_keeps_its_key(world: VaultWorld) -> None:
    """One spoilt row stops no other card; the old key stays until the row is restored or deleted."""
    world.start()
    holder = world.holder()
    good, bad = holder.token(), holder.token()
    world.rows("update vault.card set wrapped_key = wrapped_key || 'x' where id = %s", bad)
    status, _, err = run(world, "rotate")
    assert status == 1
    assert "1 cards do not open with kek_0001, which therefore stays" in err
    assert key_ids(world) == ["kek_0001", "kek_0002"]
    assert all_open(holder, [good])
    assert holder.http.delete(f"/v1/tokens/{bad}").status_code == 200
    assert rotate(world)["retired"] == ["kek_0001"]


def test_keys_that_others_bring_are_only_read(world: VaultWorld, tmp_path: Path) -> None:
    """With a file of a key management system: rotation uses the key that it adds, and never writes the file."""
    brought = tmp_path / "brought.json"
    made = type(world.settings.vault_keys())(brought, ours=True)
    made.ensure()
    world.settings = world.settings.model_copy(update={"vault_keys_file": brought})
    world.start()
    holder = world.holder()
    token = holder.token()
    status, _, err = run(world, "rotate")
    assert status == 1
    assert "has no key that is new" in err
    made.add()
    content = brought.read_text()
    assert rotate(world)["retired"] == ["kek_0001"]
    assert brought.read_text() == content
    assert all_open(holder, [token])
    assert not (world.settings.the_home().path / "keys" / "vault.json").exists()
