"""What an operator at a shell works with: a name, a connection of the operator's role, and what a check reads."""

from __future__ import annotations

import getpass
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from compose.settings.settings import load_settings
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg

    from compose.settings.settings import Settings
    from reconciliation.check.run import CheckSettings
    from reconciliation.limiter.valkey_rules import ValkeyRules

ROLE: Final = "millrace_operator"
_MONITOR: Final = "tenancy_monitor"


def shell_user() -> str:
    """Who is at the shell, as the audit log names them."""
    return f"shell:{getpass.getuser()}"


@contextmanager
def operator_connection() -> Iterator[psycopg.Connection]:
    """A connection of the operator's role; what went wrong is one line."""
    import psycopg  # noqa: PLC0415

    from schemas.errors import PlatformError  # noqa: PLC0415
    from sinks import limits  # noqa: PLC0415

    dsn = load_settings().addresses().postgres_dsns[ROLE]
    try:
        with psycopg.connect(dsn, autocommit=True, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S) as connection:
            yield connection
    except psycopg.OperationalError as error:
        raise StackError(f"Postgres does not answer: {str(error).strip()}") from error
    except (PlatformError, ValueError) as error:
        raise StackError(str(error)) from error


def key_changed(action: str, name: str, named: str, change: Callable[[], str]) -> str:
    """The id of a key of this home that ``change`` made, or took away; ``named`` is what the audit log calls it.

    Audited before it is done, so that no key changes unseen, and with what became of it.
    """
    from reconciliation.audit.log import announced  # noqa: PLC0415 - imports the driver

    with operator_connection() as connection, announced(connection, shell_user(), action, name) as found:
        found[named] = id_ = change()
        return id_


def check_settings(settings: Settings, acknowledged: Path | None = None) -> CheckSettings:
    """What a check of the stack with these settings reads."""
    from reconciliation.check.run import CheckSettings  # noqa: PLC0415
    from reconciliation.contract.checked_service import checked  # noqa: PLC0415
    from schemas.services import SERVICES  # noqa: PLC0415
    from sinks.clickhouse.connection import ClickHouseConnection  # noqa: PLC0415

    addresses = settings.addresses()
    return CheckSettings(
        postgres_dsn=addresses.postgres_dsns[ROLE],
        kafka=addresses.kafka,
        clickhouse=ClickHouseConnection(url=addresses.clickhouse_url),
        processor_urls=addresses.book_urls,
        services=tuple(map(checked, SERVICES)),
        acknowledged=acknowledged,
        valkey_rules=_valkey_rules(settings),
        monitored_s=_monitored_s(settings),
    )


def _valkey_rules(settings: Settings) -> ValkeyRules | None:
    """Of servers that know our processes as users."""
    from reconciliation.limiter.valkey_rules import ValkeyRules  # noqa: PLC0415

    if not settings.knows_valkey_users():
        return None
    addresses = settings.addresses()
    return ValkeyRules(
        addresses.redis_url,
        addresses.social_homes_url,
        settings.valkey_users(),
        encrypted=settings.is_production,
        is_ours=settings.redis_url is None,
    )


def _monitored_s(settings: Settings) -> float | None:
    """For how long this machine's stack has run the isolation monitor, if it does."""
    from compose.supervise.state import read_state  # noqa: PLC0415

    state = read_state(settings.the_home())
    if state is None or not state.running() or not any(p.name.startswith(_MONITOR) for p in state.processes):
        return None
    return state.supervisor.age_s() if state.supervisor else None
