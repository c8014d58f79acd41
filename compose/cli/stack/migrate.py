"""``millrace migrate``: the Postgres schema is the one that this version needs."""

from __future__ import annotations

import typer

from compose.settings.settings import load_settings
from compose.stack.errors import StackError

app = typer.Typer()


@app.command()
def migrate() -> None:
    """Run the migrations that are missing; ``up`` does it too."""
    import psycopg  # noqa: PLC0415

    from compose.supervise.tenant_secrets import begin_contexts  # noqa: PLC0415 - imports the driver, as those below
    from sinks.postgres import migrate as migrations  # noqa: PLC0415
    from sinks.tenancy import store_files  # noqa: PLC0415

    settings = load_settings()
    addresses = settings.addresses()
    try:
        migrations.migrate(addresses.postgres_superuser_dsn, settings.role_passwords())
        begin_contexts(settings)
        left = store_files.ensure_all(addresses.postgres_superuser_dsn, addresses.postgres_dsns)
    except psycopg.OperationalError as error:
        raise StackError(f"Postgres does not answer: {str(error).strip()}") from error
    except migrations.NotMigratedError as error:
        raise StackError(str(error)) from error
    for placement_id, why in left.items():
        print(f"the database of placement {placement_id} is as it was, and not served: {why}")
    if left:
        raise typer.Exit(1)
    print("the schema is up to date")
