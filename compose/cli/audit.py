"""``millrace audit``: who did what as an operator, and the proof that nobody changed that record."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from compose.cli.options import AsJson
from compose.cli.printed import json_text
from compose.operator_access import operator_connection, shell_user
from compose.stack.errors import StackError

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    as_json: AsJson = False,
    actor: Annotated[str | None, typer.Option(help="Only what this person did.")] = None,
    about: Annotated[str | None, typer.Option("--object", help="Only what concerns this object.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many rows, of the newest.")] = 100,
) -> None:
    """Show the newest rows, oldest of them first."""
    from reconciliation.audit.log import entries  # noqa: PLC0415 - imports the driver

    with operator_connection() as connection:
        rows = entries(connection, actor=actor, name=about, limit=limit)
    if as_json:
        print(json_text({"data": rows}))
        return
    for row in rows:
        when = f"{row['at']:%Y-%m-%d %H:%M:%S}"
        print(f"{row['seq']:>8}  {when}  {row['actor']}  {row['action']}  {row['object']}  {row['outcome']}")
    if not rows:
        print("nothing is in the audit log")


@app.command()
def verify(
    as_json: AsJson = False,
    noted: Annotated[
        str | None, typer.Option(metavar="SEQ:HASH", help="A head that an earlier run printed and you kept elsewhere.")
    ] = None,
) -> None:
    """Recompute the hash chain; exit status 1 and the first broken row when it is not whole."""
    from reconciliation.audit.verify import verify as verify_chain  # noqa: PLC0415

    with operator_connection() as connection:
        verdict = verify_chain(connection, head_of(noted))
    if as_json:
        whole = verdict.broken_seq is None
        print(json.dumps({"whole": whole, "rows": verdict.rows, "head": f"{verdict.rows}:{verdict.head}",
                          "broken_seq": verdict.broken_seq, "reason": verdict.reason}))  # fmt: skip
    elif verdict.broken_seq is None:
        print(f"{verdict.rows} rows, whole; note this head elsewhere: {verdict.rows}:{verdict.head}")
    else:
        print(f"broken at row {verdict.broken_seq}: {verdict.reason}; {verdict.rows} rows before it are whole")
    raise typer.Exit(0 if verdict.broken_seq is None else 1)


@app.command("signatures")
def signatures_(
    aggregate: Annotated[str, typer.Argument(metavar="ID", help="A payment, account or quota policy.")],
    as_json: AsJson = False,
) -> None:
    """Show who signed the commands on an object and verify it again; --json has all that a third party needs for that.

    Exit status 1 when a signature does not hold.
    """
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.audit.signatures import signatures  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "signature.read", aggregate):
        rows = signatures(connection, aggregate)
    if as_json:
        print(json_text({"data": rows}))
    for row in [] if as_json else rows:
        when, verdict = f"{row['received_at']:%Y-%m-%d %H:%M:%S}", row["reason"] or "verified"
        print(f"{when}  {row['operation']}  {row['status']}  {row['key_id']}  {row['signed_request']}  {verdict}")
    if not rows and not as_json:
        print("none of its commands was signed")
    raise typer.Exit(0 if all(row["verified"] for row in rows) else 1)


def head_of(text: str | None) -> tuple[int, str] | None:
    """A head that was noted: its place and hash. Raises StackError for what is none."""
    if text is None:
        return None
    seq, _, digest = text.partition(":")
    if not seq.isdecimal() or len(digest) != 64:  # noqa: PLR2004 - hex digits of SHA-256
        raise StackError(f"{text!r} is not NUMBER:HASH, as this command prints it")
    return int(seq), digest
