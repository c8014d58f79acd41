"""Who sees what, on every surface, after every step of a random history, with fan-out standing still; then it catches up.

Nothing may be shown that the reference hides, whatever is stale; what is not made by fan-out is shown at once. In the
end homes are exact, and stay so when the whole stream is read again.
"""

from __future__ import annotations

import json
import signal
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from compose.proof.social.history import History
from compose.proof.social.surfaces import Surfaces
from dataflows.social.fanout.worker import build
from dataflows.worker.contract import WorkerPlace
from schemas.senders import of_worker
from tests.eventually import becomes, patient
from tests.gate import PROOF, matrix
from tests.seeds import seeds
from tests.services.counter_world import process
from tests.worlds.social_system import SocialUser, client_of, social_system

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]
STEPS, USERS, MEDIA = (120, 5, 12) if PROOF else (36, 3, 3)


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
        redis_url=settings.addresses().redis_url,
        client_id=f"{name}-test",
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


FANOUT_POINTS = ("fanout_before_deliveries", "fanout_after_deliveries")


@pytest.mark.faults
@pytest.mark.parametrize("place", matrix(FANOUT_POINTS, FANOUT_POINTS[-1].__eq__))
def test_a_fanout_killed_before_or_after_its_deliveries_loses_and_doubles_nothing(
    system: PublicSystem, place: str
) -> None:
    """SIGKILL when it has taken events and delivered none, and when all are delivered and it does not know: the next goes on."""
    author, *fans = (SocialUser(system) for _ in range(4))
    author.read("/v1/me")
    for fan in fans:
        fan.follow(author)
        assert fan.home == []  # built now, from nothing: what comes from here on, only fan-out brings
    made = [author.post(f"{place} {n}")["post_id"] for n in range(5)]
    with process(system, "social_fanout", place) as dying:
        assert dying.wait(timeout=patient(60)) == -signal.SIGKILL
    if place == "fanout_before_deliveries":
        assert any(fan.home != made[::-1] for fan in fans), "it was killed when there was nothing left to do"
    with process(system, "social_fanout", ""):
        for fan in fans:
            becomes(lambda fan=fan: fan.home, made[::-1], 60)  # type: ignore[misc]
        made.append(author.post("afterwards")["post_id"])
        for fan in fans:
            becomes(lambda fan=fan: fan.home, made[::-1])  # type: ignore[misc]
