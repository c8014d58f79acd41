"""The file that wraps tenants' keys is the one that the database knows, or nothing starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compose.stack.errors import StackError
from schemas import errors
from sinks import certificates
from sinks.tenancy import contexts

if TYPE_CHECKING:
    from compose.settings.settings import Settings


def begin_contexts(settings: Settings) -> None:
    """The database verifies contexts and knows the certificates of this home; StackError where its file is lost."""
    keys, dsn = settings.the_home().path / "keys", settings.addresses().postgres_superuser_dsn
    try:
        contexts.believe(dsn, keys)
        certificates.begin(dsn, keys)
    except errors.Unavailable as error:
        raise StackError(f"{error.public}: put its backup back into {keys} and start again") from error
