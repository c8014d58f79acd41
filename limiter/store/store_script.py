"""Two ways to run the one text of ``rl1.lua``: as functions, and as one script where the server has or allows none.

Both keep the same records under the same keys: gateways that differ in the way share their counters. Functions are
named by their text: another release loads its own beside them, on every server that it asks, and takes nobody's away.
"""

from __future__ import annotations

import hashlib
import re
from importlib import resources
from typing import TYPE_CHECKING, Final

from sinks.redis.line import Refusal, command, function_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sinks.redis.line import Reply

_SCRIPTS: Final = resources.files("sinks.redis") / "scripts" / "limiter"
_PLACE: Final = b"-- rl1.lua is here\n"
_TEXT: Final = (_SCRIPTS / "rl1.lua").read_bytes()
_SHEBANG, _, _BODY = _TEXT.partition(b"\n")  # a name in it is an error in a script
_OWN: Final = b"rl1"
LIBRARY: Final = b"rl_" + hashlib.sha256(_TEXT).hexdigest()[:12].encode()
FUNCTIONS: Final = _TEXT.replace(_OWN, LIBRARY)
SCRIPT: Final = (_SCRIPTS / "rl1_as_script.lua").read_bytes().replace(_PLACE, _BODY)
SHA: Final = hashlib.sha1(SCRIPT, usedforsecurity=False).hexdigest().encode()  # as servers name scripts
EVICTION: Final = command(b"INFO", b"memory")
_EVICTION: Final = re.compile(r"^maxmemory_policy:(\S+)", re.MULTILINE)


def loaded_name(function: bytes) -> bytes:
    """Of a function of ``rl1.lua``, as servers have it."""
    return LIBRARY + function[len(_OWN) :]


class AsFunctions:
    """Redis 7, Valkey: loaded once, kept by the server and its replicas, also when nobody calls them any more."""

    loading: Final = command(b"FUNCTION", b"LOAD", FUNCTIONS)

    @staticmethod
    def is_missing(answer: Reply) -> bool:
        """It has charged nothing, and will not before the text is loaded, or the other way is taken."""
        return is_not_offered(answer) or (isinstance(answer, Refusal) and "Function not found" in answer)

    @staticmethod
    def call(function: bytes, keys: Sequence[bytes], arguments: Sequence[bytes]) -> bytes:
        """The command."""
        return function_call(loaded_name(function), keys, arguments)


class AsScript:
    """Every other server with Lua: a restart forgets the script, and it is loaded again."""

    loading: Final = command(b"SCRIPT", b"LOAD", SCRIPT)

    @staticmethod
    def is_missing(answer: Reply) -> bool:
        """It has charged nothing, and will not before the text is loaded."""
        return isinstance(answer, Refusal) and answer.startswith("NOSCRIPT")

    @staticmethod
    def call(function: bytes, keys: Sequence[bytes], arguments: Sequence[bytes]) -> bytes:
        """The command."""
        return command(b"EVALSHA", SHA, b"%d" % len(keys), *keys, *arguments, function)


def is_not_offered(answer: Reply) -> bool:
    """The server does not know the command, or this user may not use it: it has done nothing."""
    return isinstance(answer, Refusal) and ("unknown command" in answer.lower() or is_forbidden(answer))


def is_forbidden(answer: Reply) -> bool:
    """The server lets nobody of this name do that."""
    return isinstance(answer, Refusal) and answer.startswith("NOPERM")


def is_there(answer: Reply) -> bool:
    """Of a loading: the same text is loaded, now or before."""
    return not isinstance(answer, Refusal) or "already exists" in answer


def unfit(eviction: Reply) -> str | None:
    """Why a server with this answer to EVICTION must not count: evicted counters let everything through, silently."""
    told = _EVICTION.search(eviction) if isinstance(eviction, str) else None
    if told is None:
        return "the counter store does not tell its eviction policy: allow its user INFO"
    if told[1] == "noeviction":
        return None
    return f"the counter store evicts counters (maxmemory-policy {told[1]}): set maxmemory-policy noeviction"
