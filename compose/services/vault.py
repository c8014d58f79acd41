"""Wires one vault process. Several may listen on the same port."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import psycopg

from compose.services.ops import asked_on, serve_ops, turning
from compose.stack.errors import StackError
from compose.stack.ports import LOOPBACK
from schemas.client_network import client_network
from vault.forwarding import Destination
from vault.hardening import keep_memory_private
from vault.key_file import VaultKeysUnusable
from vault.server import serve
from vault.state import VaultConfig

if TYPE_CHECKING:
    from compose.settings.settings import Settings
    from vault.server import WhyNotReady

ROLE: Final = "millrace_vault"


def run(settings: Settings, instance: int) -> None:  # noqa: ARG001 - every instance is alike
    """Serves until SIGTERM, once Postgres does.

    StackError when the keys are not the right ones or tables are missing.
    """
    keep_memory_private()
    try:
        asyncio.run(_serve(settings))
    except VaultKeysUnusable as error:
        raise StackError(error.public) from error
    except psycopg.ProgrammingError as error:  # of its start: no card was here yet, and still only the kind is told
        kind = type(error).__name__
        raise StackError(f"the database lacks what the vault needs ({kind}): run 'millrace migrate' on it") from error


async def _serve(settings: Settings) -> None:
    addresses = settings.addresses()
    key_file = settings.vault_keys()
    key_file.ensure()
    config = VaultConfig(
        postgres_dsn=addresses.postgres_dsns[ROLE],
        key_file=key_file,
        forward_secret=settings.vault_forward_secret(),
        processors={p.name: Destination(p.url, p.secret) for p in addresses.processors},
        trusted=settings.trusted(settings.the_home().path / "keys"),
        trusted_proxies=tuple(client_network(text) for text in settings.trusted_proxies),
    )
    loop = asyncio.get_running_loop()

    def started(why_not_ready: WhyNotReady) -> None:
        serve_ops(None, asked_on(loop, why_not_ready), alive=turning(loop))

    await serve(config, LOOPBACK, addresses.vault_port, started)
