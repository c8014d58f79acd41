"""Whether a server lets in whom it should, with what they may: its ACL LIST beside what is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sinks import limits
from sinks.redis.connection import connect_blocking
from sinks.redis.user import NOBODY, user_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sinks.redis.user import RedisUser

#: what servers of some versions say of everybody
_SAID_OF_ALL: Final = frozenset({"sanitize-payload", "alldbs"})
_HASH: Final = "#"


def differences(url: str, users: Sequence[RedisUser], *, is_ours: bool) -> Iterator[tuple[str, str]]:
    """By name of a user what is not as declared, without any hash. Raises redis' errors.

    ``is_ours``: nobody else has a user there. At a server of others our names alone are looked at, and the default.
    """
    with connect_blocking(url, limits.ACCESS_TIMEOUT_MS, "millrace-check") as client:
        told = [line.decode() if isinstance(line, bytes) else line for line in client.acl_list()]
    held, declared = _by_name(told), _by_name([NOBODY, *(user.line() for user in users)])
    for name, rules in declared.items():
        if name not in held:
            yield name, "is missing"
        elif difference := _difference(held[name], rules):
            yield name, difference
    for name in held.keys() - declared.keys():
        if is_ours or name.startswith(user_name("")):
            yield name, "is nobody who is declared"


def _by_name(lines: Sequence[str]) -> dict[str, list[str]]:
    """The words after ``user NAME``."""
    split = [line.split() for line in lines]
    return {name: [word for word in words if word not in _SAID_OF_ALL] for _, name, *words in split}


def _difference(held: list[str], declared: list[str]) -> str:
    more, less = _shown(held, declared), _shown(declared, held)
    if more or less:
        return "; ".join(f"{what}: {words}" for what, words in (("has", more), ("lacks", less)) if words)
    return "" if held == declared else "its rules are in another order"


def _shown(these: list[str], others: list[str]) -> str:
    words = [word for word in these if word not in others]
    return " ".join("another password" if word.startswith(_HASH) else word for word in words)
