"""A client of Kafka that is let go of ends on a thread of ours, and never on one of its own: that aborts the process."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from tests.eventually import patient
from tests.servers import NOWHERE

# What is left by a call that waited in vain is collected by the client's own thread, as it hands out the answer to another
# question; then the processes of a machine with many such calls end theirs, and a forked process one of its own.
_COLLECTED: Final = f"""
import gc, os, warnings
gc.disable()
from confluent_kafka import KafkaException
from confluent_kafka.cimpl import NewTopic
from sinks.kafka.admin import KafkaAdmin
from tests.eventually import eventually

SETTINGS = {{"bootstrap.servers": "{NOWHERE}", "log_level": 2}}

def asked(admin, within_s):
    return admin.create_topics([NewTopic("t", 1)], request_timeout=within_s)["t"]

def in_vain(collected):
    admin = KafkaAdmin(SETTINGS)
    asked(admin, 1.0).add_done_callback(lambda _: collected.append(gc.collect()))
    first = asked(admin, 0.02)
    try:
        first.result()
    except KafkaException as error:
        return str(error)

def threads():
    return len(os.listdir("/proc/self/task"))

def all_ended():
    eventually(lambda: threads() <= 2, 20, what="there are this one, and the one that ends them")
    return True

collected = []
in_vain(collected)
eventually(lambda: collected, 20, what="the second question is answered")
print("collected", collected[0] > 0, all_ended(), flush=True)
clients = [KafkaAdmin(SETTINGS) for _ in range(5)]
del clients
print("let go of", all_ended(), flush=True)
warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on: of a fork beside threads, as this one is
if not (child := os.fork()):
    KafkaAdmin(SETTINGS)
    print("forked", all_ended(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
kept = KafkaAdmin(SETTINGS)
"""


def test_garbage_that_holds_a_client_is_collected_wherever_python_likes() -> None:
    child = [sys.executable, "-m", "tests.worlds.program", _COLLECTED]
    done = subprocess.run(child, capture_output=True, text=True, check=False, timeout=patient(60))
    assert done.stdout.splitlines() == ["collected True True", "let go of True", "forked True"], done.stderr
    assert (done.returncode, done.stderr) == (0, "")
