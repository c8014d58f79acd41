"""``millrace migrate``: the Postgres schema is the one that this version needs."""

from __future__ import annotations

import typer

from compose.settings.settings import load_settings

app = typer.Typer()


@app.command()
def migrate() -> None:
    """Run the migrations that are missing; ``up`` does it too."""
    from sinks.postgres import migrate as migrations  # noqa: PLC0415 - imports the driver
    from sinks.tenancy import contexts  # noqa: PLC0415

    settings = load_settings()
    migrations.migrate(settings.addresses().postgres_superuser_dsn, settings.role_passwords())
    contexts.believe(settings.addresses().postgres_superuser_dsn, settings.the_home().path / "keys")
    print("the schema is up to date")
