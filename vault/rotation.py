"""Rotation of the key-encryption key: a new one seals from now on, the old one's cards are re-wrapped, then it goes.

Steps, each durable before the next, so that a killed rotation is simply started again: (1) the new key is in the
file, (2) one transaction makes it the active one and the old one retiring, (3) cards are re-wrapped, some in a
transaction, (4) the old key is retired once no card needs it, (5) it leaves the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vault import limits, sealing
from vault.key_file import VaultKeysUnusable
from vault.keyring import MAC_KEY_ID, require_known
from vault.sealing import CardUnreadable, Place, Sealed
from vault.store import query

if TYPE_CHECKING:
    import psycopg

    from vault.key_file import KeyFile, KeyRing

#: for the connection that ``rotate`` is given
SETTINGS: Final = f"-c statement_timeout={limits.VAULT_ROTATION_TIMEOUT_MS} -c synchronous_commit=on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """What one run did."""

    active: str
    retired: tuple[str, ...]
    rewrapped: int


def rotate(connection: psycopg.Connection, file: KeyFile) -> Rotation:
    """Every card is under the newest key and no older one is kept. Goes on with an unfinished rotation.

    ``connection``: of the role millrace_vault, autocommit. Raises VaultKeysUnusable with what to do.
    """
    ((is_ours,),) = connection.execute(query("rotation_lock")).fetchall()
    if not is_ours:
        raise VaultKeysUnusable("another rotation runs: wait for its end")
    states = _states(connection, file.read())
    for key_id in (k for k, state in states.items() if state == "retired" and file.ours):
        file.forget(key_id)  # step 5 of a run that ended before it
    if "retiring" not in states.values():
        _activate(connection, file, states)
        states = _states(connection, file.read())
    ring = file.read()
    active = next(key_id for key_id, state in states.items() if state == "active")
    retiring = [key_id for key_id, state in states.items() if state == "retiring"]
    rewrapped = sum(_rewrap(connection, key_id, active, ring) for key_id in retiring)
    for key_id in retiring:
        _retire(connection, file, key_id)
    return Rotation(active=active, retired=tuple(retiring), rewrapped=rewrapped)


def _states(connection: psycopg.Connection, ring: KeyRing) -> dict[str, str]:
    """Wrapping keys and their states, oldest first; the ring has all that are needed."""
    rows = [(i, p, s, bytes(c)) for i, p, s, c in connection.execute(query("keys_all")).fetchall()]
    if not rows:
        raise VaultKeysUnusable("the vault never ran here, so there is nothing to rotate: start it first")
    require_known(ring, rows)
    return {key_id: state for key_id, _, state, _ in rows if key_id != MAC_KEY_ID}


def _activate(connection: psycopg.Connection, file: KeyFile, states: dict[str, str]) -> None:
    """Steps 1 and 2. A key that is in the file and unknown to the database is used before another one is made."""
    ring = file.read()
    if ring.newest not in states:
        fresh = ring.newest
    elif file.ours:
        fresh = file.add()
        ring = file.read()
    else:
        raise VaultKeysUnusable(f"{file.path} has no key that is new: add one with the next id, for every vault, first")
    parameters = {
        "key_id": fresh,
        "purpose": "wrap",
        "check_value": sealing.check_value(ring.wrapping_keys[fresh], fresh),
    }
    with connection.transaction():
        connection.execute(query("rotation_retire_active"))
        connection.execute(query("key_register"), parameters)


def _rewrap(connection: psycopg.Connection, old: str, new: str, ring: KeyRing) -> int:
    """Step 3, in bounded transactions. A card that does not open is left as it is; ``_retire`` tells of it."""
    done, after = 0, ""
    while True:
        with connection.transaction():
            parameters = {"key_id": old, "after": after, "limit": limits.VAULT_ROTATION_STEP_CARDS}
            rows = connection.execute(query("rotation_cards"), parameters).fetchall()
            if not rows:
                return done
            moved: dict[str, bytes] = {}
            for token_id, merchant, wrapped, ciphertext in rows:
                sealed = Sealed(key_id=old, wrapped_key=bytes(wrapped), ciphertext=bytes(ciphertext))
                try:
                    moved[token_id] = sealing.rewrapped(sealed, Place(token_id, merchant), new, ring).wrapped_key
                except CardUnreadable:
                    continue
            parameters = {"key_id": new, "ids": list(moved), "wrapped_keys": list(moved.values())}
            connection.execute(query("rotation_rewrap"), parameters)
        done, after = done + len(moved), rows[-1][0]


def _retire(connection: psycopg.Connection, file: KeyFile, key_id: str) -> None:
    """Steps 4 and 5. Raises VaultKeysUnusable while a card needs the key."""
    ((left,),) = connection.execute(query("rotation_left"), {"key_id": key_id}).fetchall()
    if left:
        raise VaultKeysUnusable(
            f"{left} cards do not open with {key_id}, which therefore stays: see millrace_vault_cards_unreadable, "
            "restore or delete them, and rotate again"
        )
    connection.execute(query("rotation_retired"), {"key_id": key_id})
    if file.ours:
        file.forget(key_id)
