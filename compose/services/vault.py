"""Wires one vault process. Several may listen on the same port."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from compose.services.ops import serve_ops
from compose.stack.errors import StackError
from compose.stack.ports import LOOPBACK
from ingress.issuer import AUDIENCE, ISSUER, KeyFolder
from schemas import limits
from schemas.errors import Unavailable
from vault.forwarding import Destination
from vault.hardening import keep_memory_private
from vault.key_file import VaultKeysUnusable
from vault.server import serve
from vault.state import Vault, VaultConfig

if TYPE_CHECKING:
    from compose.settings import Settings

ROLE: Final = "millrace_vault"


def run(settings: Settings, instance: int) -> None:  # noqa: ARG001 - every instance is alike
    """Serves until SIGTERM. StackError when the keys are not the right ones or Postgres is away."""
    keep_memory_private()
    try:
        asyncio.run(_serve(settings))
    except (VaultKeysUnusable, Unavailable) as error:
        raise StackError(error.public) from error


async def _serve(settings: Settings) -> None:
    addresses = settings.addresses()
    issuer = KeyFolder(settings.the_home().path / "keys")
    issuer.ensure()
    key_file = settings.vault_keys()
    key_file.ensure()
    config = VaultConfig(
        postgres_dsn=addresses.postgres_dsns[ROLE],
        key_file=key_file,
        forward_secret=settings.vault_forward_secret(),
        processors={p.name: Destination(p.url, p.secret) for p in addresses.processors},
        jwks=str(issuer.jwks),
        issuer=ISSUER,
        audience=AUDIENCE,
    )
    loop = asyncio.get_running_loop()

    def started(vault: Vault) -> None:
        def ready() -> bool | str:
            # Asked in the thread of the ops server; the parts live on the loop.
            asked = asyncio.run_coroutine_threadsafe(vault.why_not_ready(), loop)
            return asked.result(limits.HEALTH_CHECK_TIMEOUT_S) or True

        serve_ops(None, ready)

    await serve(config, LOOPBACK, addresses.vault_port, started)
