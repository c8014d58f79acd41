"""Media through the public surface: what is served is what was scanned, to those who may see it, and nothing else."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import httpx
import psycopg
import pytest

from schemas import limits as common_limits
from schemas.social import limits
from sinks.objects.media_objects import MediaObjects, media_objects, part_key, source_key
from tests.eventually import becomes, eventually, patient
from tests.services.counter_world import process
from tests.worlds.social_media import (
    begin,
    fetch,
    path_of,
    picture,
    put,
    ready,
    scanned,
    sha,
    statuses,
    uploaded,
    urls_of,
)
from tests.worlds.social_system import SocialUser, refused, social_system

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home: Path = tmp_path_factory.mktemp("media")
    with social_system(home, "social_scanner", services=("ingress", "social_media")) as made:
        yield made


@pytest.fixture
def people(system: PublicSystem) -> list[SocialUser]:
    found = [SocialUser(system) for _ in range(3)]
    for user in found:
        assert user.read("/v1/me")["user_id"] == user.name
    return found


def objects(system: PublicSystem) -> MediaObjects:
    return media_objects(system.settings.media_origin())


def test_an_upload_is_resumed_and_repeated_and_its_urls_are_no_part_of_what_is_stored(
    system: PublicSystem, people: list[SocialUser]
) -> None:
    user, other, _ = people
    data = picture(64)
    cut = len(data) // 2
    said = {"mime": "image/png", "bytes": len(data), "sha256": sha(data)}
    said["parts"] = [{"bytes": len(part), "sha256": sha(part)} for part in (data[:cut], data[cut:])]
    first, again = (user.send("POST", "/v1/media/uploads", said, key="same") for _ in range(2))
    assert (first.status_code, again.content) == (201, first.content)
    media = first.json()["result"]
    (stored,) = system.rows(
        "select convert_from(response, 'utf8') from idempotency where event_id = %s", first.json()["event"]["event_id"]
    )
    assert "signature" not in stored[0]
    past_any_cache = f"{system.settings.addresses().media_origin_url}/uploads/"
    assert all(part["url"].startswith(past_any_cache) for part in media["parts"])
    assert put(media["parts"][1]["url"], data[cut:]) == 204
    refused(user.send("POST", f"{path_of(media)}/complete"), 409, "state_conflict")
    left = user.read(path_of(media))["parts"]
    assert [part["received"] for part in left] == [False, True]
    assert put(left[0]["url"], data[:cut]) == 204
    refused(other.send("POST", f"{path_of(media)}/complete"), 404, "not_found")
    user.do("POST", f"{path_of(media)}/complete")
    scanned(user, media)


def test_a_url_takes_the_part_that_it_was_signed_for_and_nothing_else(people: list[SocialUser]) -> None:
    user, data = people[0], picture(64)
    media, other = begin(user, data), begin(user, data)
    url = media["parts"][0]["url"]
    path, _, query = url.partition("?")
    elsewhere = path.replace(media["media_id"], other["media_id"])
    altered = query[:-1] + ("A" if query[-1] != "A" else "E")
    for wrong in (path, f"{path}?{altered}", f"{url}&expires=1", f"{elsewhere}?{query}", f"{path[:-1]}2?{query}"):
        refused(httpx.put(wrong, content=data, trust_env=False, timeout=patient(20)), 403, "url_invalid")
    for body in (data[:-1], data + b"x", bytes(len(data)), b""):
        refused(httpx.put(url, content=body, trust_env=False, timeout=patient(20)), 422, "checksum_mismatch")
    assert [part["received"] for one in (media, other) for part in user.read(path_of(one))["parts"]] == [False, False]
    assert put(url, data) == 204


def test_bytes_that_come_after_the_scan_change_nothing(system: PublicSystem, people: list[SocialUser]) -> None:
    """Trap 5: what is put while it is scanned, and to a URL that is still good, is never served."""
    user, _, _ = people
    data, malware = picture(64), picture(64)
    media = begin(user, data)
    url, statuses_seen, done = media["parts"][0]["url"], set[int](), threading.Event()

    def swap() -> None:
        while not done.is_set():
            statuses_seen.add(put(url, malware))

    assert put(url, data) == 204
    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        user.do("POST", f"{path_of(media)}/complete")
        served = scanned(user, media)
    finally:
        done.set()
        swapper.join()
    assert statuses_seen <= {409, 422}
    assert put(url, data) == put(url, malware) == 409
    folder = system.settings.media_origin().folder
    assert (folder / source_key(media["media_id"], sha(data))).read_bytes() == data
    for one in served["rendition_manifest"]["renditions"]:
        answer = fetch(one["url"])
        assert (sha(answer.content), answer.headers["x-content-type-options"]) == (one["sha256"], "nosniff")
    assert not (folder / part_key(media["media_id"], 1)).exists()  # nobody needs it any more


def test_a_signed_rendition_is_seen_for_no_longer_than_said(system: PublicSystem, people: list[SocialUser]) -> None:
    """In whatever part of a second it is asked for."""
    media, began = ready(people[0], picture()), time.monotonic()
    while time.monotonic() < began + 1.1:
        (url, *_) = [one["url"] for one in people[0].read(path_of(media))["rendition_manifest"]["renditions"]]
        (expires,) = parse_qs(urlsplit(url).query)["expires"]
        assert int(expires) - time.time() <= common_limits.MEDIA_VIEW_TTL_S


@pytest.mark.parametrize("fail_point", ["worker_after_send", ""])
def test_a_scanner_that_dies_is_followed_by_one_that_finds_the_same_once(
    system: PublicSystem, people: list[SocialUser], fail_point: str
) -> None:
    user, _, _ = people
    if fail_point:
        with process(system, "social_scanner", fail_point) as doomed, system.frozen("social_scanner"):
            media = uploaded(user, picture())
            eventually(lambda: doomed.poll() is not None, 60, what="the scanner dies of its first answer")
    else:
        with system.frozen("social_scanner"):
            media = uploaded(user, picture())
            for pid in system.pids("social_scanner"):
                os.kill(pid, signal.SIGKILL)
    assert scanned(user, media)["version"] == 3  # initiated, completed, scanned: once each


def test_a_medium_follows_its_post_and_every_hiding_is_a_new_version(people: list[SocialUser]) -> None:
    author, fan, stranger = people
    fan.follow(author)
    post = author.post("seen", media_ids=[ready(author)["media_id"], ready(author)["media_id"]])
    path = f"/v1/posts/{post['post_id']}"
    given = [urls_of(stranger, post)]
    assert statuses(given[0]) == {200}
    seen = fetch(given[0][0]).headers
    assert f"public, max-age={limits.MEDIA_PUBLIC_AGE_S}, immutable" == seen["cache-control"]
    has_it = {"If-None-Match": seen["etag"]}
    assert (fetch(given[0][0], has_it).status_code, fetch(given[0][1], has_it).status_code) == (304, 200)
    for version, visibility in enumerate(("followers", "public", "private", "public"), 1):
        author.do("PATCH", path, {"visibility": visibility}, version=version)
        assert {404} == statuses([url for urls in given for url in urls])
        assert fetch(given[0][0], has_it).status_code == 404
        given.append(urls_of(author, post))
        assert statuses(given[-1]) == {200}
        assert fetch(given[-1][0], has_it).status_code == 304  # signed or not
    author.do("PATCH", "/v1/me", {"is_private": True})
    assert {404} == statuses(given[-1])
    assert statuses(urls_of(fan, post)) == {200}
    refused(stranger.get(path), 404, "not_found")
    signed = urls_of(fan, post)
    assert {404} == statuses([url.partition("?")[0] for url in signed])
    author.do("PATCH", path, {"media_ids": post["media_ids"][1:]}, version=5)
    assert [fetch(url).status_code for url in signed] == [404, 404, 200, 200]
    refused(author.send("POST", "/v1/posts", {"text": "x", "media_ids": post["media_ids"][:1]}), 422, "media_not_ready")
    author.do("DELETE", path, version=6)
    assert {404} == statuses(signed)
    assert author.read(f"/v1/media/uploads/{post['media_ids'][1]}")["scan_state"] == "deleted"


def test_a_medium_is_of_one_post_however_many_reach_for_it(people: list[SocialUser]) -> None:
    """Trap 6: posts that race for one medium, somebody else's, and one that is in no list of ready ones yet."""
    author, other, _ = people
    wanted, spare = ready(author)["media_id"], ready(author)["media_id"]
    with ThreadPoolExecutor(4) as pool:
        posts = [{"text": str(n), "media_ids": [wanted]} for n in range(4)]
        answers = list(pool.map(lambda post: author.send("POST", "/v1/posts", post), posts))
    assert sorted(answer.status_code for answer in answers) == [201, 422, 422, 422]
    (taker,) = [answer.json()["result"] for answer in answers if answer.status_code == 201]
    assert author.read(f"/v1/media/uploads/{wanted}")["post_id"] == taker["post_id"]
    waiting = begin(author, picture())["media_id"]
    for user, media_ids, not_ready in (
        (other, [spare], [spare]),
        (author, [spare, wanted], [wanted]),
        (author, [spare, waiting, "md_unknown"], [waiting, "md_unknown"]),
    ):
        answer = user.send("POST", "/v1/posts", {"text": "x", "media_ids": media_ids})
        assert sorted(refused(answer, 422, "media_not_ready")["media_ids"]) == sorted(not_ready)
    author.post("takes what no refused post took", media_ids=[spare])


def test_what_has_ended_leaves_no_byte_and_equal_bytes_of_another_stay(
    system: PublicSystem, people: list[SocialUser]
) -> None:
    """An orphan of a day, and a whole that an operator blocks by its hash. What has ended counts no more, either."""
    user, other, _ = people
    data = picture()
    orphan, kept = ready(user, data), ready(other, data)
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute("insert into media_quota values (%s, %s)", (user.name, 2 * len(data) - 1))
    more = {"mime": "image/png", "bytes": len(data), "sha256": sha(data)}
    full = refused(user.send("POST", "/v1/media/uploads", more, key="more"), 429, "quota_exceeded")
    assert (full["dimension"], full["limit"], full["used"]) == ("media_bytes", 2 * len(data) - 1, len(data))
    post = other.post("kept", media_ids=[kept["media_id"]])
    old = [one["url"] for one in orphan["rendition_manifest"]["renditions"]]
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        day_us = limits.MEDIA_ORPHAN_S * 1_000_000
        connection.execute(
            "update media set created_at = created_at - %s where media_id in (%s, %s)",
            (day_us, orphan["media_id"], kept["media_id"]),
        )
        connection.execute("update media_scan set leased_until = now()")  # as it is after a day
        blocked = picture()
        connection.execute("insert into media_blocked values (%s, 'known')", (sha(blocked),))
    becomes(lambda: user.read(path_of(orphan))["scan_state"], "expired", 60)
    assert statuses(old) == {404}
    becomes(lambda: objects(system).holds(orphan["media_id"], sha(data)), False, 30, what="its bytes are gone")
    assert statuses(urls_of(user, post)) == {200}
    assert other.read(path_of(kept))["scan_state"] == "ready"
    assert user.send("POST", "/v1/media/uploads", more, key="more").status_code == 201
    scanned(other, uploaded(other, blocked), "infected")


_READY = """
insert into media (media_id, owner_id, mime, size, sha256, parts, expires_in_s, scan_state, manifest, version, created_at, updated_at)
select media_id, %s, 'image/png', 7, repeat('a', 64), 1, 60, 'ready', '{"renditions": []}', 3, %s, 1 from unnest(%s::text[]) media_id
"""


def test_an_owner_takes_back_what_no_post_has(system: PublicSystem, people: list[SocialUser]) -> None:
    """Its bytes go, and count no more, once; what races for it with a post is that post's, or nobody's."""
    user, other, _ = people
    data = picture()
    cut = len(data) // 2
    open_one, kept, gone = begin(user, data, cut=cut), ready(user), ready(user, data)
    assert put(open_one["parts"][0]["url"], data[:cut]) == 204
    post = user.post("has one", media_ids=[kept["media_id"]])
    held = "select bytes from media_held where user_id = %s"
    whole = "select sum(size) from media where owner_id = %s and scan_state in ('initiated', 'scanning', 'ready')"
    old = [one["url"] for one in gone["rendition_manifest"]["renditions"]]
    assert statuses(old) == {200}
    unknown = refused(other.send("DELETE", "/v1/media/uploads/md_unknown"), 404, "not_found")
    for one in (open_one, kept, gone):
        assert refused(other.send("DELETE", path_of(one)), 404, "not_found")["detail"] == unknown["detail"]
    refused(user.send("DELETE", path_of(gone), version=1), 409, "version_conflict")
    assert refused(user.send("DELETE", path_of(kept)), 409, "state_conflict")["current_state"] == "ready"
    for one in (open_one, gone):
        first, again = (user.send("DELETE", path_of(one), key=f"ends {one['media_id']}") for _ in range(2))
        assert (first.status_code, first.json()["result"]["scan_state"], again.content) == (
            200,
            "deleted",
            first.content,
        )
        assert refused(user.send("DELETE", path_of(one)), 409, "state_conflict")["current_state"] == "deleted"
        assert user.read(path_of(one))["scan_state"] == "deleted"
        refused(user.send("POST", "/v1/posts", {"text": "x", "media_ids": [one["media_id"]]}), 422, "media_not_ready")
    assert put(open_one["parts"][1]["url"], data[cut:]) == 409
    assert (statuses(old), statuses(urls_of(other, post))) == ({404}, {200})
    raced = [f"md_{user.name[2:]}{n}" for n in range(8)]
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute(_READY, (user.name, time.time_ns() // 1_000, raced))
        connection.execute("update media_scan set leased_until = now() where media_id = %s", (gone["media_id"],))
    with ThreadPoolExecutor(4) as pool:
        posting = [pool.submit(user.send, "POST", "/v1/posts", {"text": one, "media_ids": [one]}) for one in raced]
        ending = [pool.submit(user.send, "DELETE", f"/v1/media/uploads/{one}") for one in raced]
        told = [
            (posted.result().status_code, ended.result().status_code)
            for posted, ended in zip(posting, ending, strict=True)
        ]
    assert set(told) <= {(201, 409), (422, 200)}
    states = system.rows(
        "select scan_state, attached_post_id is not null from media where media_id = any (%s) order by 1", raced
    )
    assert sorted(states) == sorted([("ready", True) if posted == 201 else ("deleted", False) for posted, _ in told])
    assert system.rows(held, user.name) == system.rows(whole, user.name)
    becomes(lambda: [objects(system).holds(one["media_id"], sha(data)) for one in (open_one, gone)], [False] * 2, 30)


def test_parts_of_an_erased_owner_are_not_taken(people: list[SocialUser]) -> None:
    """From the 2xx of the erasure on, whatever was signed before: not only when the eraser has been there."""
    owner, data = people[0], picture()
    half = begin(owner, data, cut=600)
    first, second = (part["url"] for part in half["parts"])
    assert put(first, data[:600]) == 204
    owner.do("POST", "/v1/me/erasure", {"confirm": owner.name})
    assert [put(first, data[:600]), put(second, data[600:])] == [403, 403]


def test_the_origin_takes_no_token_and_knows_two_routes(system: PublicSystem, people: list[SocialUser]) -> None:
    base = system.settings.addresses().media_url
    media = ready(people[0])
    for path in ("/", "/v1/me", f"/media/{media['media_id']}/0/x", f"/media/{media['media_id']}/1/..%2f..%2fx"):
        answer = httpx.get(f"{base}{path}", headers=people[0].auth, trust_env=False, timeout=patient(20))
        assert (answer.status_code, answer.headers["cache-control"]) == (404, "no-store")
    assert httpx.post(f"{base}/media/a/1/b", trust_env=False, timeout=patient(20)).status_code == 405
