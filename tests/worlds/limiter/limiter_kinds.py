"""The two kinds of server that the limiter's counters lie on: one with functions, and one that is asked by its script."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import redis

from limiter.store.store_script import FUNCTIONS, SCRIPT, SHA, loaded_name

if TYPE_CHECKING:
    from collections.abc import Iterator


class ScriptedRedis(redis.Redis):
    """Functions are called as a server without them is asked."""

    def fcall(self, function: str, numkeys: int, *keys_and_arguments: Any) -> Any:
        return self.evalsha(SHA.decode(), numkeys, *keys_and_arguments, function)


class FunctionsRedis(redis.Redis):
    """Functions are called by the names that this release loads them under."""

    def fcall(self, function: str, numkeys: int, *keys_and_arguments: Any) -> Any:
        return super().fcall(loaded_name(function.encode()).decode(), numkeys, *keys_and_arguments)


@contextmanager
def with_functions(url: str) -> Iterator[redis.Redis]:
    with FunctionsRedis.from_url(url) as found:
        found.function_load(FUNCTIONS.decode(), replace=True)
        yield found


@contextmanager
def with_script(url: str) -> Iterator[redis.Redis]:
    with ScriptedRedis.from_url(url) as found:
        assert found.script_load(SCRIPT) == SHA.decode()
        yield found
