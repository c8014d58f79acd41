"""The two kinds of server that the limiter's counters lie on: one with functions, and one that is asked by its script."""

from __future__ import annotations

from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any

import redis

from limiter.store.store_script import SCRIPT, SHA

if TYPE_CHECKING:
    from collections.abc import Iterator


class ScriptedRedis(redis.Redis):
    """Functions are called as a server without them is asked."""

    def fcall(self, function: str, numkeys: int, *keys_and_arguments: Any) -> Any:
        return self.evalsha(SHA.decode(), numkeys, *keys_and_arguments, function)


@contextmanager
def with_functions(url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(url) as found:
        text = (resources.files("sinks.redis") / "scripts" / "limiter" / "rl1.lua").read_text()
        found.function_load(text, replace=True)
        yield found


@contextmanager
def with_script(url: str) -> Iterator[redis.Redis]:
    with ScriptedRedis.from_url(url) as found:
        assert found.script_load(SCRIPT) == SHA.decode()
        yield found
