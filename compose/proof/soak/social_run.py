"""The soak of social posts: random histories, each beside its reference, while every process is killed in turn.

A history takes a step, asks again until it is decided, and compares every surface. What fan-out brings may be late
meanwhile and nothing else may; in the end homes are exact, streams have told the last posts, decisions have arrived,
nothing is a gap.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Final

import httpx

from compose.proof import limits
from compose.proof.soak.histories import Histories, Told
from compose.proof.soak.proof import Proof
from compose.proof.social.client import SocialClient
from compose.proof.social.endings import Endings
from compose.proof.social.history import History
from compose.proof.social.surfaces import Surfaces
from ingress.identity.issuer import KeyFolder
from schemas.social import limits as social_limits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from compose.proof.kit.narrator import Narrator
    from compose.proof.kit.own_stack import OwnStack
    from compose.proof.soak.proof import Verdict

#: what social posts need; their owners and workers come by themselves
SERVICES: Final = ("clickhouse_sink", "social_media", "ingress")
#: what of a stack serves social posts, and stands still once: one of each kind that there is
_SERVING: Final = ("social_", "ingress", "media_cache", "clickhouse_sink")
_USERS: Final = 4
_MEDIA: Final = 4
_ERASURES: Final = 3  # of one history


def soak(stack: OwnStack, *, minutes: float, rate: float, seed: int, narrator: Narrator) -> Verdict:
    """Runs the whole soak on a stack that is ready. ``rate``: how many histories go on at once."""
    histories = Histories(stack, count=int(rate), seed=seed, frozen=_kinds(stack.world["services"]), narrator=narrator)
    homes: list[str] = []
    erased: list[str] = []
    histories.run(minutes * 60, lambda told: _live(histories, told, homes, erased))
    wanted = len(histories.told) * _USERS
    missing = [] if len(homes) == wanted else [f"{len(homes)} homes were exact, must be {wanted}"]
    exact = Proof(name="every home is exact in the end", says=f"{len(homes)} homes", problems=missing)
    figures = {"homes": len(homes), "erasures": len(erased)}
    return histories.verdict("every surface shows what the reference shows", figures, [exact])


def _kinds(services: Iterable[dict[str, Any]]) -> list[str]:
    """Of the processes that serve social posts, without the number of each."""
    names = [one["name"] for one in services if one["name"].startswith(_SERVING)]
    return sorted({name.rpartition("-")[0] or name for name in names})


def _live(histories: Histories, told: Told, homes: list[str], erased: list[str]) -> None:
    """One history from its first step to its peace."""
    keys, base_url = KeyFolder(histories.stack.home / "keys"), histories.stack.world["base_url"]
    with httpx.Client(base_url=base_url, timeout=limits.SOAK_CALL_WAIT_S, trust_env=False) as http:

        def user(*scopes: str) -> SocialClient:
            name = f"u_soak_{uuid.uuid4().hex[:12]}"
            return SocialClient(http, keys, name, scopes, persist_s=limits.SOAK_PERSISTENCE_S)

        history = History([user() for _ in range(_USERS)], user("moderator"), told.seed, _MEDIA)
        endings = Endings(history, user("moderator"), user, _ERASURES)
        surfaces = Surfaces(history, cached_s=social_limits.MEDIA_PUBLIC_AGE_S)
        told.has_begun.set()
        while not histories.is_calm.is_set():
            sent_at = time.monotonic()
            told.step = history.step()
            histories.answered(sent_at)
            told.kinds[told.step.partition(" ")[0]] += 1
            _compare(told, surfaces)
        told.step = "peace"
        history.make_peace()
        _compare(told, surfaces)
        for name, one in history.users.items():
            wanted = sorted(history.model.home(name))
            one.becomes(f"the home of {name}", lambda one=one: sorted(one.home), wanted)  # type: ignore[misc]
            homes.append(name)
        told.step = "the last posts"
        surfaces.await_told(set(history.post_once_more().values()))
        told.step = "the erasures"
        endings.prove()
        erased += [one.name for one in endings.erased]


def _compare(told: Told, surfaces: Surfaces) -> None:
    told.compared += 1
    for where, what in surfaces.differ().items():
        told.differs(f"{where}: {what}")
