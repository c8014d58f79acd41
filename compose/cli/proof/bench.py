"""``millrace bench``: programs that measure and print JSON. A slow machine gives slow numbers, never a failure."""

from __future__ import annotations

import typer

from compose.proof.bench.http.command import http
from compose.proof.bench.limiter.command import limiter
from compose.proof.bench.limiter.outage_command import limiter_outage
from compose.proof.bench.owner.command import owner
from compose.proof.bench.settlement_command import settlement
from compose.proof.bench.social.command import social
from compose.proof.bench.tenancy.command import tenancy

app = typer.Typer(no_args_is_help=True)
app.command()(http)
app.command()(limiter)
app.command()(limiter_outage)
app.command()(owner)
app.command()(settlement)
app.command()(tenancy)
app.command()(social)


@app.callback()
def bench() -> None:
    """Measure the system and print JSON."""
