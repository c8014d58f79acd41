"""``millrace backup``: a copy of everything that this home holds, made while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compose.settings.settings import load_settings

app = typer.Typer()


@app.command()
def backup(target: Annotated[Path, typer.Argument(help="A folder that is not there yet, or empty.")]) -> None:
    """Copy keys, secrets and the data of every embedded server, all of one moment; the stack stands still for it."""
    from compose.backup.take import back_up  # noqa: PLC0415

    told = back_up(load_settings(), target.expanduser().absolute(), on_step=lambda step: print(f"{step} ..."))
    print(f"{target} is a backup as of {told['made_at']}; the stack stood still for {told['stood_still_s']} s")
    print("it holds all keys and secrets: keep it on an encrypted volume")
