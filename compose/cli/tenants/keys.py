"""The keys that the payloads of a tenant are sealed with."""

from __future__ import annotations

from typing import Any, Final

import typer

from compose.cli.tenants import calls
from compose.cli.tenants.calls import AsJson, Key, Reason, Tenant, Token, Yes

app = typer.Typer()
_PANEL: Final = "Keys"


@app.command(rich_help_panel=_PANEL)
def keys(tenant: Tenant, token: Token, as_json: AsJson = False) -> None:
    """Show the versions of a tenant's key, what is left under older ones, and the certificate of their destruction.

    Behind a rotation all rows are sealed anew in the background; an older key is retired when nothing lies under it.

    Example: millrace tenants keys tn_1
    """
    found = calls.read(token, f"tenants/{tenant}/keys")
    calls.tell_page(found, ("key_version", "state", "retired_at"), as_json=as_json, none="no key is left")
    if found["resealing"] and not as_json:
        print(_resealing(found["resealing"]))
    if found["certificate_id"] and not as_json:
        print(f"certificate {found['certificate_id']}")


def _resealing(told: dict[str, Any]) -> str:
    rows = f"{told['looked_at']:,} rows looked at, {told['resealed']:,} sealed anew under version {told['key_version']}"
    return f"{rows}; nothing is left" if told["state"] == "done" else f"{rows}; {told['resources']:,} resources live"


@app.command("keys-rotate", rich_help_panel=_PANEL)
def rotate(tenant: Tenant, token: Token, key: Key = "", as_json: AsJson = False) -> None:
    """Seal new payloads with a new key; old ones stay readable, and are sealed anew in the background.

    Example: millrace tenants keys-rotate tn_1
    """
    done = calls.command(token, f"tenants/{tenant}/keys/rotate", {}, key, makes=True)
    calls.tell(done, f"{tenant} seals with key version {done['key_version']}", as_json=as_json)


@app.command("keys-shred", rich_help_panel=_PANEL)
def shred(
    tenant: Tenant,
    reason: Reason,
    token: Token,
    yes: Yes = False,
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Destroy all keys of a tenant: nobody reads its resources any more, in any copy. Ends with the certificate's id.

    Example: millrace tenants keys-shred tn_1 --reason "asked for in T-9" --yes
    """
    if not yes:
        calls.require_name(tenant, calls.read(token, f"tenants/{tenant}")["name"], "destroy its keys for ever")
    calls.command(token, f"tenants/{tenant}/keys/shred", {"reason": reason}, key)
    gone = calls.becomes(
        lambda: calls.read(token, f"tenants/{tenant}/keys"), lambda found: bool(found["certificate_id"]), tenant
    )
    said = f"the keys of {tenant} are destroyed\ncertificate {gone['certificate_id']}"
    calls.tell(gone, said, as_json=as_json)
