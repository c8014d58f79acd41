"""``millrace bench``: programs that measure and print JSON. A slow machine gives slow numbers, never a failure."""

from __future__ import annotations

import typer

from compose.proof.bench.http_command import http
from compose.proof.bench.limiter_command import limiter
from compose.proof.bench.limiter_outage_command import limiter_outage
from compose.proof.bench.owner_command import owner
from compose.proof.bench.settlement_command import settlement
from compose.proof.bench.social_command import social

app = typer.Typer(no_args_is_help=True)
app.command()(http)
app.command()(limiter)
app.command()(limiter_outage)
app.command()(owner)
app.command()(settlement)
app.command()(social)


@app.callback()
def bench() -> None:
    """Measure the system and print JSON."""
