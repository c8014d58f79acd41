"""``millrace money``: exchanges, reserves and outcomes of payouts that one person proposed and another decides on."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from compose.cli.options import AsJson, Token

app = typer.Typer(no_args_is_help=True)
ProposalId = Annotated[str, typer.Argument(metavar="PROPOSAL", help="As 'millrace money list' shows it.")]


@app.command("list")
def list_(
    token: Token,
    as_json: AsJson = False,
    every_state: Annotated[bool, typer.Option("--all", help="Decided ones too.")] = False,
) -> None:
    """Show what waits for a second person, newest first."""
    from compose.cli.decisions import read  # noqa: PLC0415 - imports the HTTP client

    found = [one for one in read(token, "money_proposals")["data"] if every_state or one["state"] == "proposed"]
    if as_json:
        print(json.dumps({"data": found}))
        return
    for one in found:
        print(
            f"{one['id']}  {one['state']:9}{one['operation']}  {one['object_id']}  by {one['author']}: {one['payload']}"
        )
    if not found:
        print("nothing waits for a second person")


@app.command()
def approve(proposal_id: ProposalId, token: Token) -> None:
    """Approve as another person than the author, and have it carried out; exit status 1 when its owner refused it."""
    from compose.cli.decisions import decide  # noqa: PLC0415

    found = decide(token, f"money_proposals/{proposal_id}/approve", {})
    print(f"{proposal_id} is {found['state']}" + (f": {found['refusal']}" if found["refusal"] else ""))
    raise typer.Exit(1 if found["state"] == "refused" else 0)


@app.command()
def reject(
    proposal_id: ProposalId,
    token: Token,
    note: Annotated[str | None, typer.Option("--note", help="Why not.")] = None,
) -> None:
    """Reject a proposal, or withdraw your own."""
    from compose.cli.decisions import decide  # noqa: PLC0415

    decide(token, f"money_proposals/{proposal_id}/reject", {"note": note} if note else {})
    print(f"{proposal_id} is rejected")
