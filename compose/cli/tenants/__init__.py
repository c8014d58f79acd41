"""``millrace tenants``: one module for each thing that is done to tenants; their commands stand side by side here.

What is done as an operator of this machine is in ``directory``, ``stores``, ``refused`` and ``root_keys``. Everything
else goes through the API, with a token.
"""

from __future__ import annotations

import typer

from compose.cli.tenants import (
    bills,
    directory,
    exports,
    grants,
    keys,
    life,
    moves,
    placements,
    refused,
    root_keys,
    stores,
    usage,
)

app = typer.Typer(no_args_is_help=True)
for part in (directory, stores, placements, life, exports, keys, root_keys, moves, grants, bills, usage, refused):
    app.add_typer(part.app)
