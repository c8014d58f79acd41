"""``millrace restore``: a backup becomes the home."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from compose.stack.home import Home

app = typer.Typer()


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="What 'millrace backup' made.")],
) -> None:
    """Make MILLRACE_HOME, which must be absent or empty, of a backup; 'millrace up' then goes on with it."""
    from compose.backup.restore import restore as of_backup  # noqa: PLC0415

    home = Home(Path(os.environ.get("MILLRACE_HOME") or ".millrace").expanduser().absolute())
    told = of_backup(home, source.expanduser().absolute(), on_step=lambda step: print(f"{step} ..."))
    print(f"{home.path} is as it was at {told['made_at']}: run 'millrace up', then 'millrace check'")
