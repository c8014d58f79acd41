"""From the first day of a tenant to the certificate of its deletion."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import typer

from compose.cli.tenants import calls, given, shown
from compose.cli.tenants.calls import AsJson, Key, Reason, Tenant, Token, Yes

app = typer.Typer()
PANEL: Final = "Life"
Tier = Literal["standard", "enterprise"]
Mode = Literal["pooled", "partitioned", "dedicated"]
Quotas = Annotated[
    list[str] | None,
    typer.Option("--quota", metavar="DIMENSION=LIMIT", help="A limit, or 'none'; repeat it for several."),
]
Prices = Annotated[
    list[str] | None,
    typer.Option(
        "--price", metavar="DIMENSION=PRICE", help="Minor units for each unit, or tiers as JSON; repeat it for several."
    ),
]


def _line(tenant: dict[str, Any]) -> str:
    suspended = f" ({tenant['suspension']})" if tenant["suspension"] else ""
    return f"{tenant['tenant_id']} is {tenant['state']}{suspended}"


def _of(token: str, tenant: str) -> dict[str, Any]:
    return calls.read(token, f"tenants/{tenant}")


@app.command(rich_help_panel=PANEL)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What people call it.")],
    token: Token,
    tier: Annotated[Tier, typer.Option(help="An enterprise consents to support access.")] = "standard",
    mode: Annotated[Mode, typer.Option(help="The pool, a schema of its own, or a database of its own.")] = "pooled",
    region: Annotated[str | None, typer.Option(help="Where its placement is.")] = None,
    timezone: Annotated[str, typer.Option(help="The zone of its days and months.")] = "UTC",
    home_currency: Annotated[str, typer.Option(help="The currency of its invoices.")] = "USD",
    quota: Quotas = None,
    price: Prices = None,
    key: Key = "",
    wait: Annotated[bool, typer.Option("--wait", help="Until it is served: its own store has to be made.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a tenant. A call that was cut is sent again with its --idempotency-key: there is one tenant.

    Example: millrace tenants create "Acme" --mode dedicated --timezone Europe/Lisbon --quota resources=1000 --price
    tokens=0.25
    """
    placement = {"mode": mode} | ({"region": region} if region else {})
    payload = {"name": name, "tier": tier, "placement": placement, "timezone": timezone, "home_currency": home_currency}
    payload |= {"quotas": given.quotas(quota or ()), "prices": given.prices(price or ())}
    made = calls.command(token, "tenants", payload, key, makes=True)
    if wait:
        tenant_id = made["tenant_id"]
        made = calls.becomes(lambda: _of(token, tenant_id), lambda found: found["state"] != "provisioning", tenant_id)
    calls.tell(made, _line(made), as_json=as_json)


@app.command(rich_help_panel=PANEL)
def change(
    tenant: Tenant,
    token: Token,
    name: Annotated[str | None, typer.Option(help="What people call it.")] = None,
    tier: Annotated[Tier | None, typer.Option(help="An enterprise consents to support access.")] = None,
    timezone: Annotated[str | None, typer.Option(help="The zone of its days and months.")] = None,
    quota: Quotas = None,
    price: Prices = None,
    version: Annotated[
        int | None, typer.Option("--expected-version", help="Refused if it is at another. Default: as it is now.")
    ] = None,
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Change what is given. All quotas, or all prices, are replaced by those that are given.

    Example: millrace tenants change tn_1 --tier enterprise --quota resources=5000 --quota tokens=none
    """
    said: dict[str, Any] = {"name": name, "tier": tier, "timezone": timezone}
    said |= {"quotas": given.quotas(quota) if quota else None, "prices": given.prices(price) if price else None}
    payload = {field: value for field, value in said.items() if value is not None}
    if not payload:
        raise typer.BadParameter("say what shall change: --name, --tier, --timezone, --quota or --price")
    expected = _of(token, tenant)["version"] if version is None else version
    done = calls.command(token, f"tenants/{tenant}", payload, key, method="PATCH", version=expected)
    calls.tell(done, f"{tenant} is at version {done['version']}", as_json=as_json)


@app.command(rich_help_panel=PANEL)
def suspend(
    tenant: Tenant,
    reason: Reason,
    token: Token,
    mode: Annotated[Literal["read_only", "blocked"], typer.Option(help="Refuse its writes, or all its calls.")],
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Refuse a tenant's writes, or all its calls: in every process a second later.

    Example: millrace tenants suspend tn_1 --mode read_only --reason "unpaid since October"
    """
    done = calls.command(token, f"tenants/{tenant}/suspend", {"mode": mode, "reason": reason}, key)
    calls.tell(done, _line(done), as_json=as_json)


@app.command(rich_help_panel=PANEL)
def resume(tenant: Tenant, token: Token, key: Key = "", as_json: AsJson = False) -> None:
    """Serve a suspended tenant again.

    Example: millrace tenants resume tn_1
    """
    done = calls.command(token, f"tenants/{tenant}/resume", {}, key)
    calls.tell(done, _line(done), as_json=as_json)


@app.command(rich_help_panel=PANEL)
def offboard(tenant: Tenant, reason: Reason, token: Token, key: Key = "", as_json: AsJson = False) -> None:
    """Begin the end of a tenant: it reads and writes no more. Then 'export', then 'delete'.

    Example: millrace tenants offboard tn_1 --reason "contract ended"
    """
    done = calls.command(token, f"tenants/{tenant}/offboard", {"reason": reason}, key)
    calls.tell(done, _line(done), as_json=as_json)


@app.command(rich_help_panel=PANEL)
def delete(
    tenant: Tenant,
    reason: Reason,
    token: Token,
    yes: Yes = False,
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Delete everything of an exported tenant, for ever. Its name has to be typed; ends with the certificate's id.

    Called again while it is being deleted, or afterwards, it waits for the same certificate.

    Example: millrace tenants delete tn_1 --reason "contract ended" --yes
    """
    found = _of(token, tenant)
    if found["state"] not in ("deleting", "deleted"):
        if not yes:
            calls.require_name(tenant, found["name"], "delete it for ever")
        calls.command(token, f"tenants/{tenant}/delete", {"reason": reason}, key)
    gone = calls.becomes(lambda: _of(token, tenant), _is_certified, tenant)
    calls.tell(gone, f"{tenant} is deleted\ncertificate {gone['certificate_id']}", as_json=as_json)


def _is_certified(tenant: dict[str, Any]) -> bool:
    return tenant["state"] == "deleted" and tenant["certificate_id"] is not None


@app.command(rich_help_panel=PANEL)
def certificate(tenant: Tenant, certificate_id: calls.Id, token: Token, as_json: AsJson = False) -> None:
    """Show a certificate of what was destroyed: of each store the proof, and the signature over all of it.

    Example: millrace tenants certificate tn_1 ce_1 --json
    """
    calls.tell_facts(calls.read(token, f"tenants/{tenant}/certificates/{certificate_id}"), as_json=as_json)


@app.command(rich_help_panel=PANEL)
def history(
    tenant: Tenant, token: Token, limit: calls.Limit = 20, cursor: calls.Cursor = "", as_json: AsJson = False
) -> None:
    """Show who changed what of a tenant, newest first: its state, plan, quotas and placement, and what each was before.

    Example: millrace tenants history tn_1
    """
    found = calls.page(token, f"tenants/{tenant}/history", limit, cursor)
    if as_json or not found["data"]:
        calls.tell_page(found, (), as_json=as_json, none="nothing was changed since it is noted")
        return
    lines = [line for row in found["data"] for line in _change(row)]
    print("\n".join(lines))
    if found["has_more"]:
        print(f"there is more: --cursor {found['next_cursor']}")


def _change(row: dict[str, Any]) -> list[str]:
    """A line of who and when, and the fields below it."""
    who = shown.cell(row["by"]) if row["person"] is None else f"{shown.cell(row['person'])} as {shown.cell(row['by'])}"
    by = f"version {row['version']}  {shown.cell(row['at'])}  {who}"
    said = {name: f"{shown.cell(of['from'])} -> {shown.cell(of['to'])}" for name, of in row["changed"].items()}
    operation = f"  {row['operation']}" if row["operation"] else ""
    return [f"{by}{operation}", *(f"  {line}" for line in shown.facts(said, shown.WIDTH - 2))]
