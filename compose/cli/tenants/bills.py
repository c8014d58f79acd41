"""What a tenant is billed: periods, invoices and their bytes, corrections and credit, and the usage behind them."""

from __future__ import annotations

import sys
import time
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from compose import limits as compose_limits
from compose.cli.tenants import calls, given, shown
from compose.cli.tenants.calls import AsJson, Cursor, Id, Key, Limit, Reason, Tenant, Token
from compose.stack.errors import StackError
from schemas.tenancy import limits

app = typer.Typer()
_PANEL: Final = "Bills"
_RUNS: Final = ("billing_run_id", "state", "from", "to")
_LINES: Final = ("kind", "from", "quantity", "unit_price", "amount", "dimension")
_ENTRIES: Final = ("entry_id", "kind", "quantity", "amount", "dimension", "reason")
_WHO: Final = ("created_at", "by", "person")
From = Annotated[str, typer.Option("--from", callback=given.instant, help="Where it begins: 2026-11-01T00:00:00Z.")]
Who = Annotated[bool, typer.Option("--who", help="When each was said, in whose name (by), and by which person.")]
To = Annotated[str, typer.Option("--to", callback=given.instant, help="Where it ends: that instant is not in it.")]


def _line(run: dict[str, Any]) -> str:
    invoice = f"\ninvoice {run['invoice_id']}" if run["invoice_id"] else ", until its grace is over"
    return f"{run['billing_run_id']} is {run['state']}{invoice}"


@app.command(rich_help_panel=_PANEL)
def bill(
    tenant: Tenant,
    token: Token,
    from_: From,
    to: To,
    grace_s: Annotated[
        int | None,
        typer.Option(
            min=0, max=limits.BILLING_GRACE_MAX_S, help="How long late usage is waited for. Default: an hour."
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Until its invoice stands; after the grace.")] = False,
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Bill a period of a tenant, once, at the prices of this moment. Its invoice is made when the grace is over.

    Example: millrace tenants bill tn_1 --from 2026-10-01T00:00:00Z --to 2026-11-01T00:00:00Z --grace-s 0 --wait
    """
    payload = {"from": from_, "to": to} | ({} if grace_s is None else {"grace_s": grace_s})
    made = calls.command(token, f"tenants/{tenant}/billing_runs", payload, key, makes=True)
    if wait:
        path = f"tenants/{tenant}/billing_runs/{made['billing_run_id']}"
        run_id = made["billing_run_id"]
        made = calls.becomes(
            lambda: calls.read(token, path), lambda run: run["invoice_id"] is not None, run_id, grace_s=made["grace_s"]
        )
    calls.tell(made, _line(made), as_json=as_json)


@app.command(rich_help_panel=_PANEL)
def bills(
    tenant: Tenant, token: Token, limit: Limit = 20, cursor: Cursor = "", who: Who = False, as_json: AsJson = False
) -> None:
    """Show the billed periods of a tenant, newest first. --json has the invoice of each.

    Example: millrace tenants bills tn_1
    """
    found = calls.page(token, f"tenants/{tenant}/billing_runs", limit, cursor)
    columns = (_RUNS[0], *_WHO) if who else _RUNS
    calls.tell_page(found, columns, as_json=as_json, none="no period of it is billed")


@app.command(rich_help_panel=_PANEL)
def invoice(
    invoice_id: Id,
    token: Token,
    document: Annotated[
        bool, typer.Option("--document", help="Its bytes and nothing else: for ever the same.")
    ] = False,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="With --document: made again from events and prices, not as stored.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="With --document: write them there, not to stdout.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show an invoice, its lines and whether it is paid; or give its bytes.

    Example: millrace tenants invoice in_1 --document --output october.json
    """
    if not document and (recompute or output is not None):
        raise typer.BadParameter("--recompute and --output go with --document")
    if document:
        _give(token, invoice_id, output, recompute=recompute)
        return
    found = calls.read(token, f"invoices/{invoice_id}")
    payment = calls.read(token, f"invoices/{invoice_id}/payment")
    if as_json:
        calls.tell(found | {"payment": payment}, "", as_json=True)
        return
    print("\n".join(shown.facts({name: value for name, value in found.items() if name != "lines"})))
    print(f"payment {payment['state']}\n")
    print("\n".join(shown.table(found["lines"], _LINES)) if found["lines"] else "it has no lines")


def _give(token: str, invoice_id: str, output: Path | None, *, recompute: bool) -> None:
    from compose.cli import decisions  # noqa: PLC0415 - imports the HTTP client

    query = {"recompute": "true"} if recompute else None
    path, until = f"invoices/{invoice_id}/document", time.monotonic() + compose_limits.TENANT_WAIT_S
    while (answer := decisions.call("GET", token, path, query=query)).status_code == HTTPStatus.ACCEPTED:
        if time.monotonic() > until:
            raise StackError(f"{invoice_id} is still being made again; that goes on by itself: ask again later")
        time.sleep(limits.INVOICE_AGAIN_ASK_S)
    content = answer.content
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        output.write_bytes(content)
    except OSError as error:
        raise StackError(f"{output} cannot be written: {error.strerror}") from error


@app.command("invoice-void", rich_help_panel=_PANEL)
def void(invoice_id: Id, token: Token, key: Key = "", as_json: AsJson = False) -> None:
    """Let nobody pay an invoice any more. Its usage is not billed again; what is paid is refunded instead.

    Example: millrace tenants invoice-void in_1
    """
    done = calls.command(token, f"invoices/{invoice_id}/void", {}, key)
    calls.tell(done, f"{invoice_id} is void", as_json=as_json)


@app.command(rich_help_panel=_PANEL)
def adjust(
    tenant: Tenant,
    token: Token,
    reason: Reason,
    dimension: Annotated[str, typer.Option(help="Of what was metered.")],
    quantity: Annotated[int, typer.Option(help="How much more than was metered; less than nothing for less.")],
    at: Annotated[str, typer.Option(callback=given.instant, help="When it was used: that names the period.")],
    unit_price: Annotated[
        str | None,
        typer.Option(
            help="Default: at which its period was billed, or today's where it is not billed yet. Has to be said where"
            " there was none then, or tiers."
        ),
    ] = None,
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Correct what was metered, by a line of the tenant's next invoice.

    What is corrected in a billed period costs what it did then, whatever the price is today.

    Example: millrace tenants adjust tn_1 --dimension tokens --quantity=-300 --at 2026-10-05T12:00:00Z --reason "metered
    twice"
    """
    payload: dict[str, Any] = {"dimension": dimension, "quantity": quantity, "at": at, "reason": reason}
    payload |= {} if unit_price is None else {"unit_price": unit_price}
    done = calls.command(token, f"tenants/{tenant}/usage_adjustments", payload, key, makes=True)
    calls.tell(done, f"{done['entry_id']}: {corrected(done)} on the next invoice", as_json=as_json)


def corrected(entry: dict[str, Any]) -> str:
    """What a correction says and costs. A stored answer of an earlier release does not say the amount."""
    costs = f" at {entry['unit_price']}: {entry['amount']:+,}" if "amount" in entry else f" at {entry['unit_price']}"
    return f"{entry['quantity']:+,} {entry['dimension']}{costs}"


@app.command(rich_help_panel=_PANEL)
def credit(
    tenant: Tenant,
    token: Token,
    reason: Reason,
    amount: Annotated[int, typer.Option(min=1, help="Minor units of the tenant's currency.")],
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Give a tenant credit, which its next invoices take off.

    Example: millrace tenants credit tn_1 --amount 1500 --reason "the outage of 2 November"
    """
    payload = {"amount": amount, "reason": reason}
    done = calls.command(token, f"tenants/{tenant}/credits", payload, key, makes=True)
    calls.tell(done, f"{done['entry_id']}: {amount:,} off the next invoices", as_json=as_json)


@app.command(rich_help_panel=_PANEL)
def entries(
    tenant: Tenant, token: Token, limit: Limit = 20, cursor: Cursor = "", who: Who = False, as_json: AsJson = False
) -> None:
    """Show the corrections and the credit of a tenant, newest first.

    Example: millrace tenants entries tn_1
    """
    found = calls.page(token, f"tenants/{tenant}/billing_entries", limit, cursor)
    columns = (_ENTRIES[0], *_WHO) if who else _ENTRIES
    calls.tell_page(found, columns, as_json=as_json, none="nothing was corrected or credited")
