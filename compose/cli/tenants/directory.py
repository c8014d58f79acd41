"""Who there is, where their rows are, and whether tenants are apart: read as an operator of this machine."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from compose.cli.audit import head_of
from compose.cli.options import AsJson, Token
from compose.cli.printed import json_text
from compose.cli.tenants import shown
from compose.cli.tenants.calls import Tenant
from compose.operator_access import operator_connection, shell_user
from compose.settings.settings import load_settings
from compose.stack.errors import StackError
from schemas.errors import NotFound
from schemas.tenancy import limits

app = typer.Typer()

Note = Annotated[str, typer.Option("--note", help="Why; it stands in the audit log, under your name.")]


@app.command()
def where(tenant: Tenant, as_json: AsJson = False) -> None:
    """Name the stores that hold rows of a tenant, with how an analyst reads them."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.tenancy.tenant_stores import stores_of  # noqa: PLC0415 - imports the driver

    dsn = load_settings().addresses().postgres_dsns["millrace_reader"]
    with operator_connection() as connection, audited(connection, shell_user(), "tenant.where", tenant):
        found = stores_of(connection, tenant, dsn)
    if found is None:
        raise StackError(f"there is no tenant {tenant}")
    if as_json:
        print(json.dumps(found))
        return
    print(f"{tenant} is at generation {found['generation']}")
    for store in found["stores"]:
        print(f"{store['role']:10}{store['placement_id']}  {store['table']}")


@app.command("list")
def list_(
    as_json: AsJson = False,
    after: Annotated[str, typer.Option(help="Go on behind this tenant, the last one of the page before.")] = "",
) -> None:
    """Show tenants, the newest first, a page of them."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.tenancy.tenant_stores import newest, tenant_of  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "tenant.list", "tenants"):
        if after and tenant_of(connection, after) is None:
            raise NotFound(f"there is no tenant {after}")
        rows = newest(connection, after)
    if as_json:
        print(json.dumps({"data": rows, "has_more": len(rows) == limits.TENANTS_LISTED_MAX}))
        return
    if rows:
        print("\n".join(shown.table(rows, ("tenant_id", "state", "mode", "resources", "name"))))
    if len(rows) == limits.TENANTS_LISTED_MAX:
        print(f"there may be more: millrace tenants list --after {rows[-1]['tenant_id']}")
    if not rows:
        print("there is no further tenant" if after else "there is no tenant")


@app.command("audit")
def audit_(
    tenant: Tenant,
    as_json: AsJson = False,
    noted: Annotated[
        str | None, typer.Option(metavar="LINK:HASH", help="A head that an earlier run printed and you kept elsewhere.")
    ] = None,
) -> None:
    """Recompute the chain of a tenant's audit log; exit status 1 and the first broken row when it is not whole."""
    from reconciliation.audit.log import announced  # noqa: PLC0415
    from reconciliation.tenancy.audit_chain import verify  # noqa: PLC0415
    from reconciliation.tenancy.tenant_stores import tenant_of  # noqa: PLC0415

    # announced: the chain is read in one transaction of its own
    with operator_connection() as connection, announced(connection, shell_user(), "tenant.verify_audit", tenant):
        if tenant_of(connection, tenant) is None:
            raise NotFound(f"there is no tenant {tenant}")
        found = verify(connection, tenant, head_of(noted))
    whole, head = found.broken_seq is None, f"{found.links}:{found.head}"
    if as_json:
        print(json.dumps({"tenant_id": tenant, "whole": whole, "rows": found.rows, "head": head,
                          "broken_seq": found.broken_seq, "reason": found.reason}))  # fmt: skip
    elif whole:
        print(f"{found.rows} rows, whole; note this head elsewhere: {head}")
    else:
        print(f"broken at row {found.broken_seq}: {found.reason}")
    raise typer.Exit(0 if whole else 1)


@app.command("noisy")
def noisy_(as_json: AsJson = False) -> None:
    """Show callers that had others of their partition wait, or most of the database's time, and what is proposed."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.tenancy.tenant_stores import noisy  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "tenant.noisy", "tenants"):
        rows = noisy(connection)
    if as_json:
        print(json_text({"data": rows}))
        return
    for row in rows:
        of_database = row["topic"] == "database"
        where = f"the database in ingress {row['partition']}" if of_database else f"partition {row['partition']}"
        what = f"{row['units_left']:,} ms" if of_database else f"{row['units_left']:,} units waited"
        said = f"{row['share_percent']} % of {where}, {what}"
        print(f"{shown.cell(row['caller'])}  {row['seen_at']:%F %T}\n  {said}")
        print(f"  {row['proposal'] or 'nothing is proposed'}")
    if not rows:
        print("nobody was noisy")


@app.command("isolation")
def isolation_(as_json: AsJson = False) -> None:
    """Tell what the isolation monitor found, and whether safe mode is on."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.tenancy.tenant_stores import isolation  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "isolation.read", "isolation"):
        found = isolation(connection)
    if as_json:
        print(json_text(found))
        return
    print(f"{found['violations']} violations and {found['gaps']} gaps are open; last whole round {found['as_of']}")
    print(f"safe mode is on since {found['since']}: {found['evidence']}" if found["is_on"] else "safe mode is off")
    if found["proposed_by"]:
        print(f"{found['proposed_by']} would lift it: another person lifts it")


@app.command("lift")
def lift_(token: Token, note: Note) -> None:
    """Lift safe mode: the first person proposes, another one lifts it, once a whole round has found nothing."""
    from compose.cli.decisions import decide  # noqa: PLC0415

    print(f"safe mode: {decide(token, 'isolation/lift', {'note': note})['result']['state']}")


@app.command()
def show(tenant: Tenant, as_json: AsJson = False) -> None:
    """Show one tenant."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.tenancy.tenant_stores import tenant_of  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "tenant.read", tenant):
        row: dict[str, Any] | None = tenant_of(connection, tenant)
    if row is None:
        raise StackError(f"there is no tenant {tenant}")
    if as_json:
        print(json.dumps(row))
        return
    print("\n".join(shown.facts(row)))
