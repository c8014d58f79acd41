"""Options that mean the same at many benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Home = Annotated[Path | None, typer.Option(help="Use the servers that run in this home, and leave them.")]
