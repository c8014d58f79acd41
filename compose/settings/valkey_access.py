"""Which keys each kind of process may touch in Valkey, and with which commands. Nobody else may touch any.

A function or script runs as the user that calls it, so a process may use what the texts that it calls use
(``sinks/redis/scripts``), on its own keys. It may load none, nor change the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from compose.settings.service_processes import WORKERS
from schemas.tenancy.service import MONITOR
from sinks.redis.user import OPERATOR, RedisUser, operator

if TYPE_CHECKING:
    from collections.abc import Callable

#: of every connection
_CONNECTS: Final = ("ping", "select", "client|setname", "client|setinfo")
#: scripts that are loaded, one by one and in pipelines
_CALLS: Final = ("evalsha", "script|exists")
#: whoever counts: the functions of rl1.lua; whether the server evicts counters, and its clock
_COUNTS: Final = (
    *("fcall", "info", "time", "exists", "get", "set", "rename", "type", "pttl", "pexpire"),
    *("hdel", "hexists", "hget", "hgetall", "hlen", "hset"),
    *("zadd", "zcount", "zrangebyscore", "zrem", "zremrangebyscore", "zscore"),
)
_VELOCITY: Final = ("set", "time", "hdel", "hget", "hgetall", "hincrby", "hmget", "hset", "pexpire")
_READS_HOMES: Final = ("info", "del", "expire", "zadd", "zrevrangebyscore", "zscore")
_WRITES_HOMES: Final = (
    *("info", "exists", "ttl", "unlink"),
    *("zadd", "zcard", "zrange", "zrem", "zremrangebyrank", "zscore"),
)
#: the monitor samples keys, whatever they are
_SAMPLES: Final = ("scan", "type", "getrange", "hscan", "lrange", "srandmember", "zrange")

#: '' stands where a call has no identity
_COUNTERS: Final = ("~rl:*", "~")
_VELOCITIES: Final = ("~millrace:velocity:*", "~millrace:velocity_epoch")
_HOMES: Final = ("~millrace:social:home:*",)
_EVERY_KEY_TO_READ: Final = ("%R~*",)

_Access = tuple[tuple[str, ...], tuple[str, ...]]


def _access(keys: tuple[str, ...], *commands: tuple[str, ...]) -> _Access:
    named = dict.fromkeys(name for names in (_CONNECTS, *commands) for name in names)
    return keys, ("resetchannels", "-@all", *(f"+{name}" for name in named))


_WIRED: Final = {
    "ingress": _access(  # the limiter in front of it, counts of confirms, and homes that it reads
        (*_COUNTERS, *_VELOCITIES, *_HOMES), _CALLS, _COUNTS, _VELOCITY, _READS_HOMES
    ),
    "limiter_gateway": _access(_COUNTERS, _COUNTS),
    "limiter_leases": _access(_COUNTERS, _COUNTS),
    MONITOR.name: _access((*_COUNTERS, *_EVERY_KEY_TO_READ), _COUNTS, _SAMPLES),
}
#: by kind of process: rules of keys, and of commands
ACCESS: Final[dict[str, _Access]] = {
    **_WIRED,
    **{name: _access(_HOMES, _CALLS, _WRITES_HOMES) for name, worker in WORKERS.items() if "homes" in worker.secrets},
}
KINDS: Final = (OPERATOR, *ACCESS)


def users(password_of: Callable[[str], str]) -> list[RedisUser]:
    """Everybody whom a server of ours knows, the operator first."""
    others = [
        RedisUser(kind=kind, password=password_of(kind), keys=keys, commands=commands)
        for kind, (keys, commands) in ACCESS.items()
    ]
    return [operator(password_of(OPERATOR)), *others]
