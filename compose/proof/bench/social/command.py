"""``millrace bench social``: fan-out into homes, reads of them, uploads and renditions, on a stack of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from compose.proof import limits as proof_limits
from compose.proof.bench.options import AsJson
from ingress import limits as ingress_limits
from schemas.social import limits as social_limits


def social(
    as_json: AsJson = False,
    followers: Annotated[
        int, typer.Option(min=1, max=social_limits.PUSH_FOLLOWERS_MAX, help="Followers of each author who posts.")
    ] = proof_limits.BENCH_FOLLOWERS_DEFAULT,
    posts: Annotated[
        int, typer.Option(min=10, max=ingress_limits.COMMANDS_LINES_MAX, help="Posts that are fanned out.")
    ] = 500,
    stored: Annotated[
        int,
        typer.Option(min=1, max=proof_limits.BENCH_POSTS_STORED_MAX, help="Posts that are there when homes are read."),
    ] = proof_limits.BENCH_POSTS_STORED_DEFAULT,
    graph: Annotated[
        Path | None,
        typer.Option(exists=True, help="Who follows whom: musae_git_edges.csv.gz of SNAP; else one is made."),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1, max=proof_limits.BENCH_SECONDS_MAX, help="How long homes are read.")
    ] = proof_limits.BENCH_SECONDS_DEFAULT,
) -> None:
    """Measure fan-out, reads of homes in a large network, the rule of who sees a post, uploads and renditions."""
    from compose.proof.bench.social.run import measure  # noqa: PLC0415 - the help needs none of it
    from compose.proof.kit.narrator import Narrator  # noqa: PLC0415
    from compose.proof.kit.own_stack import own_stack  # noqa: PLC0415

    narrator = Narrator(on_stderr=True)
    with (
        narrator.busy("starting a stack"),
        own_stack(
            "bench", owners=1, ingresses=2, services=("ingress", "social_media"), progress=narrator.stack
        ) as stack,
    ):
        result = measure(
            stack,
            graph=graph,
            stored=stored,
            followers=followers,
            posts=posts,
            seconds=seconds,
            told=lambda text: typer.echo(text, err=True),
        )
    if as_json:
        print(json.dumps(result, indent=1))
    else:
        for part, figures in result.items():
            print(part, "" if isinstance(figures, dict) else figures)
            for name, found in figures.items() if isinstance(figures, dict) else ():
                print(f"  {name:28} {found}")
