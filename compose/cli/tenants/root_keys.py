"""The root keys of this home, which wrap the keys of all tenants: made, used and removed while everything runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import typer

from compose.cli.options import AsJson
from compose.operator_access import key_changed, operator_connection, shell_user
from compose.settings.settings import load_settings
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

app = typer.Typer()
_PANEL: Final = "Root keys"


@app.command("root-keys", rich_help_panel=_PANEL)
def root_keys(as_json: AsJson = False) -> None:
    """Show the root keys, oldest first, and how many keys of tenants each wraps.

    Example: millrace tenants root-keys
    """
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.tenancy.tenant_stores import keys_by_root_key  # noqa: PLC0415 - imports the driver
    from sinks.tenancy import root_keys as of_file  # noqa: PLC0415

    with (
        operator_connection() as connection,
        audited(connection, shell_user(), "tenancy.root_keys.list", "keys"),
    ):
        states, wraps = of_file.states(_keys()), keys_by_root_key(connection)
    known = states | dict.fromkeys(sorted(wraps.keys() - states.keys()), "not at hand")
    rows = [{"root_key_id": name, "state": state, "wraps": wraps.get(name, 0)} for name, state in known.items()]
    if as_json:
        print(json.dumps({"data": rows}))
        return
    for row in rows:
        print(f"{row['root_key_id']:14}{row['state']:14}{row['wraps']:>8}")


@app.command("root-keys-prepare", rich_help_panel=_PANEL)
def prepare() -> None:
    """Make a root key that wraps nothing yet: copy tenancy.json to machines elsewhere, then rotate.

    Example: millrace tenants root-keys-prepare
    """
    from sinks.tenancy import root_keys as of_file  # noqa: PLC0415

    print(_changed("tenancy.root_keys.prepare", "", of_file.prepare))


@app.command("root-keys-rotate", rich_help_panel=_PANEL)
def rotate() -> None:
    """Wrap by the prepared root key, or by a new one: new keys at once, all others in the background.

    No payload is sealed anew. Back tenancy.json up afterwards. Example: millrace tenants root-keys-rotate
    """
    from sinks.tenancy import root_keys as of_file  # noqa: PLC0415

    print(_changed("tenancy.root_keys.rotate", "", of_file.rotate))


@app.command("root-keys-remove", rich_help_panel=_PANEL)
def remove(root_key_id: str) -> None:
    """Forget a root key that wraps none any more. A backup of the database of before needs the file of before.

    Example: millrace tenants root-keys-remove rk_0001
    """
    from reconciliation.tenancy.tenant_stores import keys_by_root_key, keys_held_still  # noqa: PLC0415
    from sinks.tenancy import root_keys as of_file  # noqa: PLC0415

    def removed(folder: Path) -> str:
        with operator_connection() as connection, keys_held_still(connection):
            if left := keys_by_root_key(connection).get(root_key_id, 0):
                raise StackError(f"{root_key_id} wraps {left} keys of tenants: rotate, and wait until it wraps none")
            of_file.remove(folder, root_key_id)
        return root_key_id

    print(_changed("tenancy.root_keys.remove", root_key_id, removed))


def _changed(action: str, name: str, change: Callable[[Path], str]) -> str:
    return key_changed(action, name or "keys", "root_key_id", lambda: change(_keys()))


def _keys() -> Path:
    return load_settings().the_home().path / "keys"
