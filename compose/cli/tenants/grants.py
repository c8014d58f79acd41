"""Support access to a tenant: asked for by one person, approved by another, ended by either side, reviewed by a third.

The person is the subject of the token. Two persons at one shell show two tokens.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from compose.cli.tenants import calls
from compose.cli.tenants.calls import AsJson, Cursor, Id, Key, Limit, Reason, Tenant, Token
from compose.cli.tenants.shown import cell
from compose.stack.errors import StackError
from schemas.tenancy import limits

app = typer.Typer()
_PANEL: Final = "Support access"
_COLUMNS: Final = ("grant_id", "state", "break_glass", "expires_at", "requester")


def _line(grant: dict[str, Any]) -> str:
    until = f" until {cell(grant['expires_at'])} UTC" if grant["state"] == "active" else ""
    waits = {"requested": "another person approves it", "approved": "the tenant has to consent"}
    if grant["state"] == "requested" and grant["approvers"]:
        waits["requested"] = "one more person approves it"
    if grant["expires_at"]:
        waits["approved"] = f"it begins at {cell(grant['not_before'])} UTC"
    hint = f"; {waits[grant['state']]}" if grant["state"] in waits else ""
    return f"{grant['grant_id']} is {grant['state']}{until}{hint}{_less(grant)}"


def _less(grant: dict[str, Any]) -> str:
    """What a consent left of it, on a line of its own."""
    asked = grant["asked"]
    if asked is None:
        return ""
    more = len(grant["masked_fields"]) - len(asked["masked_fields"])
    return f"\nthe tenant consented to {grant['duration_s']} of {asked['duration_s']} s, with {more} more masks"


def _word(
    verb: str, tenant: str, grant_id: str, token: str, key: str, *, as_json: bool, payload: dict[str, Any] | None = None
) -> None:
    done = calls.command(token, f"tenants/{tenant}/support_grants/{grant_id}/{verb}", payload or {}, key)
    calls.tell(done, _line(done), as_json=as_json)


@app.command(rich_help_panel=_PANEL)
def grants(tenant: Tenant, token: Token, limit: Limit = 20, cursor: Cursor = "", as_json: AsJson = False) -> None:
    """Show a tenant's support grants, newest first. Any of tenants:admin, support and support:approve may.

    Example: millrace tenants grants tn_1
    """
    found = calls.page(token, f"tenants/{tenant}/support_grants", limit, cursor)
    calls.tell_page(found, _COLUMNS, as_json=as_json, none="nobody asked for access to it")


@app.command("grant-show", rich_help_panel=_PANEL)
def show(tenant: Tenant, grant_id: Id, token: Token, as_json: AsJson = False) -> None:
    """Show one grant: who asked why, who approved, from and until when, what is masked, what a review found.

    Example: millrace tenants grant-show tn_1 sg_1
    """
    calls.tell_facts(calls.read(token, f"tenants/{tenant}/support_grants/{grant_id}"), as_json=as_json)


@app.command("grant-ask", rich_help_panel=_PANEL)
def ask(
    tenant: Tenant,
    reason: Reason,
    token: Token,
    ticket: Annotated[str, typer.Option(help="What it is about.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="resources:read (that alone, where nothing is said), resources:write, usage:read; repeat it."
        ),
    ] = None,
    mask: Annotated[
        list[str] | None,
        typer.Option(help="A field that no answer shows, such as email or payload.email; repeat it."),
    ] = None,
    duration_s: Annotated[
        int | None,
        typer.Option(
            min=limits.SUPPORT_GRANT_MIN_S, max=limits.SUPPORT_GRANT_MAX_S, help="For how long, from when it is active."
        ),
    ] = None,
    not_before: Annotated[
        str | None,
        typer.Option(help="It begins then at the earliest (2030-01-01T09:00:00Z), and its time counts from then."),
    ] = None,
    break_glass: Annotated[
        bool, typer.Option("--break-glass", help="An emergency: two others approve, and somebody reviews it.")
    ] = False,
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Ask for access to a tenant, with the scope support. Another person approves; of an enterprise the tenant, too.

    With --break-glass nobody waits for the tenant, which is told at once: for 30 minutes at most.

    Example: millrace tenants grant-ask tn_1 --reason "a report is empty" --ticket T-9 --duration-s 900
    """
    said = {"reason": reason, "ticket": ticket, "scopes": scope, "masked_fields": mask, "duration_s": duration_s}
    said["not_before"] = not_before
    payload = {name: value for name, value in said.items() if value is not None}
    payload |= {"break_glass": True} if break_glass else {}
    made = calls.command(token, f"tenants/{tenant}/support_grants", payload, key, makes=True)
    calls.tell(made, _line(made), as_json=as_json)


@app.command("grant-approve", rich_help_panel=_PANEL)
def approve(tenant: Tenant, grant_id: Id, token: Token, key: Key = "", as_json: AsJson = False) -> None:
    """Approve, with the scope support:approve, what another person asked for.

    Example: millrace tenants grant-approve tn_1 sg_1
    """
    _word("approve", tenant, grant_id, token, key, as_json=as_json)


@app.command("grant-deny", rich_help_panel=_PANEL)
def deny(tenant: Tenant, grant_id: Id, token: Token, key: Key = "", as_json: AsJson = False) -> None:
    """Refuse, with the scope support:approve, what is not active yet.

    Example: millrace tenants grant-deny tn_1 sg_1
    """
    _word("deny", tenant, grant_id, token, key, as_json=as_json)


@app.command("grant-consent", rich_help_panel=_PANEL)
def consent(
    tenant: Tenant,
    grant_id: Id,
    token: Token,
    mask: Annotated[
        list[str] | None,
        typer.Option(help="A field that no answer shows, beside those that are masked already; repeat it."),
    ] = None,
    duration_s: Annotated[
        int | None,
        typer.Option(min=limits.SUPPORT_GRANT_MIN_S, max=limits.SUPPORT_GRANT_MAX_S, help="For less time than asked."),
    ] = None,
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Consent as the tenant, to all of it or to less: with a token of its own that has the scope tenant:admin.

    Example: millrace tenants grant-consent tn_1 sg_1 --duration-s 300 --mask email
    """
    said = {"masked_fields": mask, "duration_s": duration_s}
    payload = {name: value for name, value in said.items() if value}
    _word("consent", tenant, grant_id, token, key, as_json=as_json, payload=payload)


@app.command("grant-revoke", rich_help_panel=_PANEL)
def revoke(tenant: Tenant, grant_id: Id, token: Token, key: Key = "", as_json: AsJson = False) -> None:
    """End a grant: the next call with it is refused, in every process. Anybody of either side may.

    Example: millrace tenants grant-revoke tn_1 sg_1
    """
    _word("revoke", tenant, grant_id, token, key, as_json=as_json)


@app.command("grant-review", rich_help_panel=_PANEL)
def review(
    tenant: Tenant,
    grant_id: Id,
    token: Token,
    findings: Annotated[str, typer.Option(help="What it was used for, for people.")],
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Say, with the scope support:approve, what a grant that is over was used for; of a broken glass somebody has to.

    Example: millrace tenants grant-review tn_1 sg_1 --findings "one resource was read, as the ticket says"
    """
    _word("review", tenant, grant_id, token, key, as_json=as_json, payload={"findings": findings})


@app.command("grant-token", rich_help_panel=_PANEL)
def token_(
    tenant: Tenant,
    grant_id: Id,
    token: Token,
    output: Annotated[Path, typer.Option("--output", "-o", help="Write it there, readable by you alone.")],
    as_json: AsJson = False,
) -> None:
    """Get the token of an active grant that you asked for, good for ten minutes at most. It is not printed.

    Example: millrace tenants grant-token tn_1 sg_1 --output support.token
    """
    from compose.cli import decisions  # noqa: PLC0415 - imports the HTTP client
    from sinks import private_file  # noqa: PLC0415

    made = decisions.decide(token, f"tenants/{tenant}/support_grants/{grant_id}/token", {})
    try:
        private_file.replace(output, made["token"] + "\n")
    except OSError as error:
        raise StackError(f"{output} cannot be written: {error.strerror}") from error
    told = {"output": str(output), "expires_at": made["expires_at"]}
    calls.tell(told, f"a token until {cell(made['expires_at'])} UTC is in {output}", as_json=as_json)
