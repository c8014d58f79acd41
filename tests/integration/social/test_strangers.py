"""What strangers write to the topic of social commands: it is refused and kept, and nobody can have it carried out."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from schemas.avro import codec
from schemas.social.service import SERVICE
from schemas.topics import partition_for
from tests.eventually import becomes, patient
from tests.faults.owners import command
from tests.worlds.social_system import SocialUser, social_system

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from schemas.records import Command
    from tests.worlds.public_system import PublicSystem

pytestmark = pytest.mark.servers
_KEPT = 'select partition, state, reason, aggregate_key from dead_letter where topic = %s order by partition, "offset"'


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home: Path = tmp_path_factory.mktemp("strangers")
    with social_system(home) as made:
        yield made


def forged(user: str) -> Command:
    """A post in the name of a user."""
    who = f"user:{user}"
    return command("publish_post", uuid.uuid4().hex, {"text": "forged"}, who, scope=who)


def test_what_a_stranger_writes_in_a_user_s_name_is_refused_also_where_it_comes_alone(system: PublicSystem) -> None:
    """Behind a command of the user's own, so that the partition has read for others before."""
    user = SocialUser(system)
    own = user.post("own")["post_id"]
    kafka = system.settings.addresses().kafka
    producer, topic = Producer(kafka.producer("stranger")), kafka.topic(SERVICE.commands_topic)
    partition = partition_for(f"user:{user.name}", SERVICE.partitions)
    for n in range(1, 3):
        producer.produce(topic, codec.encode_command(forged(user.name)), f"user:{user.name}", partition)
        assert producer.flush(patient(30)) == 0
        refused = (partition, "refused", "sender_missing", None)
        becomes(
            lambda: [
                (*row[:2], str(row[2]).partition(":")[0], row[3]) for row in system.rows(_KEPT, SERVICE.commands_topic)
            ],
            [refused] * n,
            60,
        )
    assert user.ids(f"/v1/timelines/user/{user.name}") == [own]
    assert user.post("goes on")["version"] == 1
