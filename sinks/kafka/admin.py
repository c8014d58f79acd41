"""The client that asks Kafka about topics, groups and users: confluent-kafka's, ended where that is safe.

librdkafka aborts the process when a client is destroyed on a thread of its own (``rd_kafka_destroy_app``). Python may
do that: a call that waited in vain leaves its client in a cycle with the traceback, and garbage is collected on any
thread that makes something, as the client's own does when it hands out its next answer.
"""

from __future__ import annotations

import queue
import threading
from typing import Any, Final

from confluent_kafka.admin import AdminClient  # noqa: TID251 - here it is made safe


class _Ender:
    """Ends clients on a thread of ours: one of a process, also of one forked from a process that has one."""

    def __init__(self) -> None:
        self._left: queue.SimpleQueue[AdminClient] = queue.SimpleQueue()  # the kind that a finalizer may put into
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="kafka-admins-end", daemon=True)
                self._thread.start()

    def end(self, client: AdminClient) -> None:
        self._left.put(client)

    def _run(self) -> None:
        while True:
            self._left.get().__exit__(None, None, None)


_ENDER: Final = _Ender()


class KafkaAdmin(AdminClient):
    """An ``AdminClient`` that its maker may let go of at any time: questions that are open end without an answer."""

    def __init__(self, settings: dict[str, Any], **options: Any) -> None:
        """``settings`` are librdkafka's. Raises KafkaException for wrong ones."""
        super().__init__(settings, **options)
        _ENDER.begin()

    def __del__(self) -> None:
        """Called once, on any thread; it lives on until it is ended."""
        _ENDER.end(self)
