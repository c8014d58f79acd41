"""Who may do what in Valkey: at every server that keeps counters or homes, and knows our processes as users."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from redis.exceptions import RedisError

from limiter.policy.shard_map import decoded, url_of
from sinks.redis.rules import differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from reconciliation.contract.reconciled_service import Violation
    from reconciliation.contract.snapshot import Snapshot
    from sinks.redis.user import RedisUser


class ValkeyRules:
    """What is declared, beside what the primaries of the shards say, and a server of homes."""

    def __init__(
        self, own_url: str, homes_url: str, users: Sequence[RedisUser], *, encrypted: bool, is_ours: bool
    ) -> None:
        """The URLs are the operator's. ``is_ours``: the configured server is embedded, nobody else has users there."""
        self._own_url = own_url
        self._homes_url = homes_url
        self._users = users
        self._encrypted = encrypted
        self._is_ours = is_ours

    def read_before(self) -> None:
        """Nothing: rules do not follow from what is stored."""

    def violations(self, view: Snapshot, sql: str, tell: Callable[[str], None]) -> Iterator[Violation]:
        """Every difference, by server and user; a server that does not say is one."""
        ((body,),) = view.whole(sql)
        shards = decoded(body).shards
        urls = [url_of(shard.address, self._own_url, encrypted=self._encrypted) for shard in shards]
        if urlsplit(self._homes_url).username == urlsplit(self._own_url).username:  # else it has a user of its own
            urls.append(self._homes_url)
        looked_at = list(dict.fromkeys(urls))
        tell(f"compared {len(self._users)} users at {len(looked_at)} servers")
        for url in looked_at:
            server = urlsplit(url).netloc.rpartition("@")[2]
            try:
                for user, difference in differences(url, self._users, is_ours=self._is_ours and url == self._own_url):
                    yield {"server": server, "user": user, "difference": difference}
            except (RedisError, OSError) as error:
                yield {"server": server, "difference": f"it does not say its rules: {type(error).__name__}"}
