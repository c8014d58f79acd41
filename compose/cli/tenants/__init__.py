"""``millrace tenants``: one module for each thing that is done to tenants; their commands stand side by side here."""

from __future__ import annotations

import typer

from compose.cli.tenants import directory

app = typer.Typer(no_args_is_help=True)
app.add_typer(directory.app)
