"""Who sees what, on every surface, after every step of a random history, with fan-out standing still; then it catches up.

Nothing may be shown that the reference hides, whatever is stale; what is not made by fan-out is shown at once. In the
end homes are exact, and stay so when the whole stream is read again.
"""

from __future__ import annotations

import json
import random
import signal
import threading
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import redis

from compose.proof.social.history import History
from compose.proof.social.surfaces import Surfaces
from dataflows.social.erasure.eraser import Eraser
from dataflows.social.fanout.worker import build
from dataflows.worker.contract import WorkerPlace
from schemas.errors import Unavailable
from schemas.senders import of_worker
from schemas.social import limits
from sinks.redis.homes import HomeWriter
from tests.eventually import becomes, patient
from tests.gate import PROOF, RUN_SEED, examples, matrix
from tests.seeds import seeds
from tests.services.counter_world import process
from tests.worlds.social_fanout import Whole
from tests.worlds.social_planted import Backup, crowd
from tests.worlds.social_posts import OTHERS_SEE, Planted
from tests.worlds.social_system import SocialUser, client_of, social_config, social_system

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]
STEPS, USERS, MEDIA = (120, 5, 12) if PROOF else (36, 3, 3)
_PUSHED = frozenset({"post_published", "post_edited", "post_reposted"})


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home: Path = tmp_path_factory.mktemp("social_model")
    # who could make a surface right only later does not run: fan-out, propagation, the eraser
    with social_system(home, "social_scanner", services=("ingress", "social_media")) as made:
        yield made


@contextmanager
def fanning_out(system: PublicSystem, name: str = "social_fanout") -> Iterator[None]:
    """One worker in a thread; under another name it reads the whole stream again."""
    settings = system.settings
    place = WorkerPlace(
        name="social_fanout",
        kafka=settings.kafka_as(of_worker("social_fanout")),
        postgres_dsn=settings.addresses().postgres_dsns["millrace_social_worker"],
        client_id=f"{name}-test",
        of_services=(social_config(system),),
    )
    worker = build(replace(place, name=name))
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()


@contextmanager
def listening(system: PublicSystem, name: str, heard: set[str]) -> Iterator[None]:
    """The stream of a home, from the moment when it is open; what it tells is put into ``heard``."""
    user = SocialUser(system, name=name)
    with user.http.stream("GET", "/v1/timelines/home/stream", headers=user.auth) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry")

        def listen() -> None:
            for line in lines:
                if line.startswith("data: "):
                    heard.add(json.loads(line.removeprefix("data: "))["post_id"])
                if "end" in heard:
                    return

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield
        finally:
            heard.add("end")
            thread.join()


@pytest.mark.parametrize("seed", seeds(1))
def test_nobody_ever_sees_what_is_not_for_them(system: PublicSystem, seed: int) -> None:
    users = [client_of(system) for _ in range(USERS)]
    history = History(users, client_of(system, "moderator"), seed, MEDIA)
    surfaces = Surfaces(history)
    for n in range(STEPS):
        step = history.step()
        assert surfaces.differ() == {}, f"seed {seed}, step {n}: {step}"
    history.make_peace()
    assert surfaces.differ() == {}
    wanted = {name: history.model.home(name) for name in history.names}
    assert wanted != {name: set(user.home) for name, user in history.users.items()}, "fan-out had nothing to do"
    with fanning_out(system):
        becomes(lambda: {name: set(user.home) for name, user in history.users.items()}, wanted)
        # Homes of which an edge ended were built anew; what comes now, fan-out alone brings into homes that are there.
        heard: dict[str, set[str]] = {name: set() for name in history.names}
        with ExitStack() as streams:
            for name in history.names:
                streams.enter_context(listening(system, name, heard[name]))
            fresh = set(history.post_once_more().values())
            wanted = {name: history.model.home(name) for name in history.names}
            becomes(lambda: {name: set(user.home) for name, user in history.users.items()}, wanted)
            unmuted = {name: fresh & wanted[name] for name in history.names}
            becomes(lambda: {name: set(heard[name]) for name in history.names}, unmuted)
    homes = {name: user.home for name, user in history.users.items()}
    with fanning_out(system, "social_fanout_again"):
        ends = "select partition, max(seq) from outbox where topic = 'events.social.v1' group by 1 order by 1"
        read = "select partition, last_seq from stream_position where follower = 'social_fanout_again' and last_seq > 0 order by 1"
        becomes(lambda: system.rows(read), system.rows(ends))
    assert {name: user.home for name, user in history.users.items()} == homes
    assert surfaces.differ() == {}


def stored(system: PublicSystem, user: SocialUser, *lost: str) -> set[str]:
    """What lies in a home, shown or not, without these, which it loses."""
    with closing(redis.Redis.from_url(system.settings.addresses().social_homes_url)) as connection:
        key = f"millrace:social:home:{user.name}"
        if lost:
            assert connection.zrem(key, *lost) == len(lost)
        return {one.decode() for one in connection.zrange(key, 0, -1) if not one.startswith((b"~", b"#"))}


def test_the_whole_stream_again_brings_back_what_a_home_lost_and_nothing_that_was_deleted(system: PublicSystem) -> None:
    """Trap 3: read from its first event by another follower; then in any order, each event up to three times."""
    author, fan = SocialUser(system), SocialUser(system)
    author.read("/v1/me")
    fan.follow(author)
    assert fan.home == []
    gone, kept, edited = (author.post(text)["post_id"] for text in ("deleted", "kept", "edited"))
    author.do("PATCH", f"/v1/posts/{edited}", {"text": "again"}, version=1)
    with fanning_out(system):
        becomes(lambda: fan.home, [edited, kept, gone])
        author.do("DELETE", f"/v1/posts/{gone}", version=1)
        becomes(lambda: stored(system, fan), {kept, edited})
    assert stored(system, fan, kept) == {edited}
    assert fan.home == [edited], "a home is what lies there"
    with fanning_out(system, "social_fanout_from_zero"):
        becomes(lambda: fan.home, [edited, kept])
    assert stored(system, fan) == {kept, edited}
    kinds = [("post_published", gone), ("post_published", kept), ("post_published", edited), ("post_edited", edited)]
    events = [told(author, kind, post_id) for kind, post_id in [*kinds, ("post_deleted", gone)]]
    events.append(told(fan, "followed", None, author.name))
    dsn = system.settings.addresses().postgres_dsns["millrace_social_worker"]
    chance = random.Random(RUN_SEED)
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        closing(HomeWriter(system.settings.addresses().social_homes_url)) as homes,
    ):
        for _ in range(examples(gate=10, proof=500)):
            order = [event for event in events for _ in range(chance.randint(0, 3))]
            chance.shuffle(order)
            Whole(connection, homes).events(order)
            assert stored(system, fan) == {kept, edited}, [event.body for event in order]
    assert fan.home == [edited, kept]


def told(user: SocialUser, kind: str, post_id: str | None, target_id: str | None = None) -> Any:
    """An event as far as fan-out reads it."""
    body = {"kind": kind, "post_id": post_id, "target_id": target_id, "state": "active", "pushed": kind in _PUSHED}
    return SimpleNamespace(scope=f"user:{user.name}", body=body, version=1)


def test_a_walk_of_any_list_meets_each_post_that_may_be_seen_once(system: PublicSystem) -> None:
    """Trap 7: of a page none to all are hidden; several of one microsecond; pushed and pulled; newer ones come meanwhile."""
    author, fan, stranger = (SocialUser(system) for _ in range(3))
    author.read("/v1/me")
    fan.follow(author)
    root = stranger.post("root")["post_id"]
    answers, public = (f"/v1/timelines/thread/{root}", f"/v1/posts/{root}/replies"), "/v1/timelines/public"
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        planted = Planted(connection, author.name, root, examples(gate=120, proof=10_000))
        for_all = [one for one, visibility in planted.visibilities.items() if visibility == "public"][::-1]
        for_fans = [one for one, visibility in planted.visibilities.items() if visibility in OTHERS_SEE][::-1]
        assert planted.walked(fan, "/v1/timelines/home") == for_fans
        for user, shown in ((fan, for_fans), (stranger, for_all)):
            assert planted.walked(user, f"/v1/timelines/user/{author.name}") == shown
            assert planted.walked(user, "/v1/search", q=planted.word) == shown
            assert [planted.walked(user, path) for path in answers] == [shown[::-1]] * 2
            assert planted.walked(user, public) == for_all
        connection.execute("delete from post where author_id = %s and text = %s", [author.name, planted.word])


_CROWDING = """
insert into post (post_id, author_id, visibility, text, version, state, media_ids, root_id, is_pushed, created_at)
select 'po_crowds' || n, %(author)s, case when n %% 2 = 0 then 'private' else 'public' end, '', 1, 'published', '{}',
       'po_crowds' || n, n %% 2 = 0, (extract(epoch from clock_timestamp()) * 1000000)::bigint + n
from generate_series(1, %(count)s) n
"""


def test_neither_private_posts_nor_pulled_ones_take_a_place_in_a_home(system: PublicSystem) -> None:
    """More of both than a home has places, and all of them newer than what it shows. What is older than it keeps is there."""
    author, other, fan = (SocialUser(system) for _ in range(3))
    for user in (author, other):
        user.read("/v1/me")
        fan.follow(user)
    shown = {user.post("older")["post_id"] for user in (author, other)}
    addresses = system.settings.addresses()
    with (
        psycopg.connect(addresses.postgres_superuser_dsn, autocommit=True) as connection,
        psycopg.connect(addresses.postgres_dsns["millrace_social_worker"], autocommit=True) as spreading,
        closing(HomeWriter(addresses.social_homes_url)) as homes,
    ):
        connection.execute(_CROWDING, {"author": author.name, "count": 2 * limits.HOME_POSTS_KEPT})
        fan.read("/v1/timelines/home", limit=1)
        assert stored(system, fan) == shown, "built"
        assert stored(system, fan, *shown) == set()
        Whole(spreading, homes).events([told(fan, "followed", None, user.name) for user in (author, other)])
        assert stored(system, fan) == shown, "filled up"
        opened = (
            "update post set visibility = 'public', is_pushed = true where post_id like 'po_crowds%' returning post_id"
        )
        shown |= {post_id for (post_id,) in connection.execute(opened).fetchall()}
        homes.drop([fan.name])
        found = fan.home
        assert (len(found), set(found)) == (2 * limits.HOME_POSTS_KEPT + 2, shown)
        assert len(stored(system, fan)) < limits.HOME_POSTS_KEPT
        connection.execute("delete from post where post_id like 'po_crowds%'")
    with closing(redis.Redis.from_url(addresses.redis_url)) as counters:
        assert list(counters.scan_iter("millrace:social:*")) == [], "homes lie apart"


def test_a_repost_comes_home_though_the_post_was_private_when_fan_out_looked(system: PublicSystem) -> None:
    author, reposter, watcher = (SocialUser(system) for _ in range(3))
    for user in (author, reposter):
        user.read("/v1/me")
    watcher.follow(reposter)
    assert watcher.home == []
    post = author.post("reposted")["post_id"]
    reposter.do("POST", f"/v1/posts/{post}/reposts")
    author.do("PATCH", f"/v1/posts/{post}", {"visibility": "private"}, version=1)
    dsn = system.settings.addresses().postgres_dsns["millrace_social_worker"]
    with (
        psycopg.connect(dsn, autocommit=True) as connection,
        closing(HomeWriter(system.settings.addresses().social_homes_url)) as homes,
    ):
        Whole(connection, homes).events([told(reposter, "post_reposted", post)])
    assert watcher.home == []
    author.do("PATCH", f"/v1/posts/{post}", {"visibility": "public"}, version=2)
    assert watcher.home == [post]


def test_a_user_is_told_of_all_that_others_do_as_long_as_it_holds(system: PublicSystem) -> None:
    """Each kind but moderation, newest first: who, and of which post."""
    author, other = SocialUser(system), SocialUser(system)
    for user in (author, other):
        user.read("/v1/me")
    post = author.post("told of")["post_id"]
    about: dict[str, str | None] = {}
    for kind in ("like", "repost"):
        other.do("POST", f"/v1/posts/{post}/{kind}s")
        about[kind] = post
    said = {"reply": {"reply_to": post}, "quote": {"quote_of": post}, "mention": {}}
    for kind, fields in said.items():
        about[kind] = other.post(f"@{author.name}" if kind == "mention" else kind, **fields)["post_id"]
    other.follow(author)

    def told() -> list[tuple[str, str, str | None]]:
        return [(one["kind"], one["actor_id"], one["post_id"]) for one in author.walk("/v1/notifications")]

    known = [(kind, other.name, post_id) for kind, post_id in reversed(about.items())]
    assert told() == [("follow", other.name, None), *known]
    other.do("DELETE", f"/v1/posts/{post}/likes")
    author.do("PATCH", "/v1/me", {"is_private": True})
    other.do("DELETE", f"/v1/follows/{author.name}")
    other.follow(author)
    assert told() == [("follow_request", other.name, None), *known[:-1]]


def test_an_erasure_ends_homes_that_hold_what_nobody_may_see(
    system: PublicSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of who followed the user, and of who follows somebody that reposted it. It waits for a key that is away.

    It is done again when a database is put back from before.
    """
    leaver, fan, reposter, watcher = (SocialUser(system) for _ in range(4))
    for user in (leaver, reposter):
        user.read("/v1/me")
    fan.follow(leaver)
    watcher.follow(reposter)
    post = leaver.post("gone")["post_id"]
    reposter.do("POST", f"/v1/posts/{post}/reposts")
    for user in (fan, watcher):
        assert user.home == [post]
        assert stored(system, user) == {post}
    settings, name = system.settings, "social_eraser"
    place = WorkerPlace(
        name=name,
        kafka=settings.kafka_as(of_worker(name)),
        postgres_dsn=settings.addresses().postgres_dsns["millrace_social_eraser"],
        client_id=f"{name}-test",
        keys=settings.the_home().path / "keys",
        of_services=(social_config(system),),
    )
    eraser = Eraser(place)
    sign, away = eraser._certificates.sign, iter([Unavailable()])

    def signed_later(document: dict[str, Any]) -> tuple[str, str]:
        for error in away:
            raise error
        return sign(document)

    monkeypatch.setattr(eraser._certificates, "sign", signed_later)
    superuser = psycopg.connect(settings.addresses().postgres_superuser_dsn, autocommit=True)
    backup = Backup(superuser, leaver.name, post)
    thread = threading.Thread(target=eraser.run)
    thread.start()
    try:
        leaver.do("POST", "/v1/me/erasure", {"confirm": leaver.name})
        becomes(lambda: leaver.read("/v1/me/erasure")["state"], "complete", 60)
        first = leaver.read("/v1/me/erasure")["erasure_id"]
        backup.put_back()
        becomes(lambda: leaver.get("/v1/me/erasure").json().get("state"), "complete", 60)
        assert leaver.read("/v1/me/erasure")["erasure_id"] != first
        assert (leaver.get("/v1/me").status_code, fan.get(f"/v1/posts/{post}").status_code) == (410, 404)
        assert superuser.execute("select key from author_key where user_id = %s", [leaver.name]).fetchall() == [(None,)]
    finally:
        superuser.close()
        eraser.stop()
        thread.join()
    for user in (fan, watcher):
        assert (stored(system, user), user.home) == (set(), [])


FANOUT_POINTS = ("fanout_before_deliveries", "fanout_after_deliveries")


@pytest.mark.faults
@pytest.mark.parametrize("place", matrix(FANOUT_POINTS, FANOUT_POINTS[-1].__eq__))
def test_a_fanout_killed_before_or_after_its_deliveries_loses_and_doubles_nothing(
    system: PublicSystem, place: str
) -> None:
    """SIGKILL when it has taken events and delivered none, and when all are delivered and it does not know: the next goes on.

    Trap 8: meanwhile the author's followers pass the bound, fall below half of it, and rise. Between both it stays as it was.
    """
    author, guest, *fans = (SocialUser(system) for _ in range(5))
    author.read("/v1/me")
    for fan in fans:
        fan.follow(author)
        assert fan.home == []  # built now, from nothing: what comes from here on, only fan-out brings
    edge, most = f"/v1/follows/{author.name}", limits.PUSH_FOLLOWERS_MAX
    superuser = system.settings.addresses().postgres_superuser_dsn
    made: list[str] = []

    def posts_with(followers: int) -> None:
        assert author.read("/v1/me")["followers"] == followers
        made.append(author.post(f"{place} {followers}")["post_id"])

    crowd(superuser, author.name, most - len(fans))
    posts_with(most)
    guest.follow(author)
    posts_with(most + 1)
    guest.do("DELETE", edge)
    posts_with(most)
    crowd(superuser, author.name, most // 2 - len(fans))
    guest.follow(author)
    guest.do("DELETE", edge)
    posts_with(most // 2)
    fans[-1].do("DELETE", edge)
    posts_with(most // 2 - 1)
    fans[-1].follow(author)
    guest.follow(author)
    posts_with(most // 2 + 1)
    pushed = system.rows("select is_pushed from post where author_id = %s order by created_at", author.name)
    assert [is_pushed for (is_pushed,) in pushed] == [True, False, False, False, True, True]
    with process(system, "social_fanout", place) as dying:
        assert dying.wait(timeout=patient(60)) == -signal.SIGKILL
    if place == "fanout_before_deliveries":
        assert [fan.home for fan in fans] == [made[3:0:-1]] * len(fans), "what is pulled, and nothing else"
    with process(system, "social_fanout", ""):
        for fan in (*fans, guest):
            becomes(lambda fan=fan: fan.home, made[::-1], 60)  # type: ignore[misc]
        made.append(author.post("afterwards")["post_id"])
        for fan in (*fans, guest):
            becomes(lambda fan=fan: fan.home, made[::-1])  # type: ignore[misc]
