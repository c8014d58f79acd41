"""``millrace limiter keys``: what signs policy snapshots, and how that is changed while gateways run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from compose.operator_access import key_changed
from compose.settings.settings import load_settings
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Callable

    from limiter.policy.signing_keys import SigningKeys

app = typer.Typer(no_args_is_help=True, help="The keys that sign policy snapshots.")


@app.command("list")
def list_() -> None:
    """Show the keys that gateways accept, oldest first, and which signs."""
    keys = _keys()
    signer = keys.signer()
    for id_ in keys.verifying_keys():
        print(f"{id_}  {'signs' if id_ == signer else 'verifies'}")


@app.command()
def prepare() -> None:
    """Make a key that verifies and does not sign yet: give policy_keys.json to gateways elsewhere, then rotate."""
    print(_changed("limiter.keys.prepare", "", lambda keys: keys.prepare()))


@app.command()
def rotate() -> None:
    """Sign with another key from now on; what the old ones signed is still accepted."""
    print(_changed("limiter.keys.rotate", "", lambda keys: keys.rotate()))


@app.command()
def remove(key_id: str) -> None:
    """Accept nothing any more that this key has signed."""

    def removed(keys: SigningKeys) -> str:
        keys.remove(key_id)
        return key_id

    print(_changed("limiter.keys.remove", key_id, removed))


def _changed(action: str, name: str, change: Callable[[SigningKeys], str]) -> str:
    keys = _keys()
    return key_changed(action, name or "keys", "key_id", lambda: change(keys))


def _keys() -> SigningKeys:
    from limiter.policy.signing_keys import SigningKeys  # noqa: PLC0415 - imports cryptography

    keys = SigningKeys(load_settings().the_home().path / "keys")
    if not keys.private.exists():
        raise StackError("there are no keys yet: 'millrace up' makes the first")
    return keys
