"""``millrace down``: nothing of this home runs afterwards."""

from __future__ import annotations

import typer

from compose.settings.settings import load_settings
from compose.supervise import launch

app = typer.Typer()


@app.command()
def down() -> None:
    """Stop services, then servers; succeeds also when nothing runs."""
    settings = load_settings()
    ran = launch.down(settings)
    print("stopped" if ran else f"nothing runs in {settings.the_home().path}")
