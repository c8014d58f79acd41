"""``millrace export``: the whole ledger as a file for another bookkeeping program."""

from __future__ import annotations

import os
import sys
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compose.operator_access import operator_connection, shell_user
from compose.settings.settings import load_settings
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Iterable

app = typer.Typer()


class Format(StrEnum):
    """What can be written."""

    BEANCOUNT = "beancount"
    HLEDGER = "hledger"


@app.command()
def export(
    file_format: Annotated[Format, typer.Option("--format", help="How it is written.")] = Format.BEANCOUNT,
    output: Annotated[
        Path | None, typer.Option("--output", dir_okay=False, help="Where to; without it to standard output.")
    ] = None,
) -> None:
    """Write every ledger transaction, and assert every balance; safe beside a live system."""
    import psycopg  # noqa: PLC0415 - the help needs none of it

    from reconciliation.audit.log import announced  # noqa: PLC0415
    from reconciliation.payments.export import beancount, hledger, ledger  # noqa: PLC0415

    words: ledger.Words = hledger if file_format is Format.HLEDGER else beancount
    pieces = ledger.export_ledger(load_settings().addresses().postgres_reader_dsn, words)
    try:
        with (
            operator_connection() as connection,
            announced(connection, shell_user(), "ledger.export", str(output or "standard output"), format=file_format),
        ):
            if output is None:
                sys.stdout.writelines(pieces)
                sys.stdout.flush()
            else:
                _write(output, pieces)
    except psycopg.Error as error:
        raise StackError(f"Postgres: {str(error).strip().partition(chr(10))[0]}") from error
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains again when it ends
        raise typer.Exit(1) from None


def _write(output: Path, pieces: Iterable[str]) -> None:
    """The file is there whole or as it was: it takes its name when everything is written."""
    try:
        with tempfile.NamedTemporaryFile("w", dir=output.parent, encoding="utf-8", delete=False) as file:
            written = Path(file.name)
            try:
                file.writelines(pieces)
                file.flush()
                written.replace(output)
            except BaseException:
                written.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise StackError(f"cannot write {output}: {error.strerror}") from error
