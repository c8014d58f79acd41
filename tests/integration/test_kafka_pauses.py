"""What makes the embedded broker stand still, or takes memory that nothing uses, stays away."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from compose import limits
from compose.stack.kafka import Kafka
from sinks.kafka.admin import KafkaAdmin
from tests.eventually import patient

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import World

#: of compiled code: twice what the broker had after half a minute of load
_CODE_BYTES = 15 * 1024 * 1024


def test_compiled_code_stays_below_what_makes_java_collect_the_whole_heap(tmp_path: Path) -> None:
    """Java does so whenever it has grown by that share of the bound since the last time, from nothing on."""
    java, *flags = Kafka(data=tmp_path, port=1, controller_port=2, password="p").command()
    asked = [java, *flags[: flags.index("-cp")], "-XX:+PrintFlagsFinal", "-version"]
    said = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=patient(60)).stdout

    def flag(name: str) -> float:
        found = re.search(rf" {name} += ([0-9.]+) ", said)
        assert found is not None, name
        return float(found[1])

    assert flag("ReservedCodeCacheSize") * flag("SweeperThreshold") / 100 > _CODE_BYTES


@pytest.mark.servers
def test_the_broker_keeps_no_more_than_we_say_for_cleaning_compacted_topics(stack: World) -> None:
    """It takes this memory of its heap when it starts, whether there is anything to clean or not."""
    admin = KafkaAdmin(stack.settings.addresses().kafka.admin())
    (asked,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    found = asked.result(patient(20))
    assert int(found["log.cleaner.dedupe.buffer.size"].value) == limits.KAFKA_CLEANER_BYTES
    assert int(found["log.cleaner.threads"].value) * 1024 * 1024 < limits.KAFKA_CLEANER_BYTES  # else it does not start
