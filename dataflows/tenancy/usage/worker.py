"""The process that meters tenants: usage from the topic and of our own events, invoices, what is sent again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from dataflows.owner.senders import Senders
from dataflows.tenancy.billing.invoicing import Invoicing, make_asked, make_due
from dataflows.tenancy.usage.keeping import Keeping
from dataflows.tenancy.usage.own_usage import own_usage
from dataflows.tenancy.usage.refused import SentAgain
from dataflows.tenancy.usage.stream import UsageStream
from schemas.errors import InvariantViolation
from schemas.services import senders_to
from schemas.tenancy import limits
from schemas.tenancy.usage_topic import USAGE_TOPIC
from sinks.kafka.sender_keys import SenderKeys

if TYPE_CHECKING:
    from dataflows.worker.contract import WorkerPlace


class Metering:
    """Loops beside each other: the end of one ends all."""

    def __init__(self, place: WorkerPlace) -> None:
        if place.keys is None:
            raise InvariantViolation("who counts usage has to know who sent it")
        keys = SenderKeys(place.keys / "senders", senders_to(USAGE_TOPIC.name))
        self._usage = UsageStream(place.kafka, place.postgres_dsn, keys, place.client_id)
        self._sent_again = SentAgain(place.postgres_dsn, f"{place.client_id}-refused", Senders(keys))
        self._own = own_usage(place)
        self._keeping = Keeping(place.postgres_dsn, f"{place.client_id}-keeping")
        self._invoicing = Invoicing(place.postgres_dsn, f"{place.client_id}-invoices", make_due, limits.BILLING_POLL_S)
        self._again = Invoicing(place.postgres_dsn, f"{place.client_id}-again", make_asked, limits.INVOICE_AGAIN_POLL_S)

    def run(self) -> None:
        """Meters until ``stop``. Raises what ended one of the loops."""
        loops = (self._own.run, self._invoicing.run, self._again.run, self._keeping.run, self._sent_again.run)
        with ThreadPoolExecutor(len(loops), "metering") as beside:
            running = [beside.submit(loop) for loop in loops]
            for one in running:
                one.add_done_callback(lambda _: self.stop())
            try:
                self._usage.run()
            finally:
                self.stop()
            for one in running:
                one.result()

    def stop(self) -> None:
        """Ends all of them soon."""
        for one in (self._usage, self._own, self._invoicing, self._again, self._keeping, self._sent_again):
            one.stop()

    def why_not_ready(self) -> str | None:
        """None while usage is counted, all of it."""
        return self._usage.why_not_ready() or self._own.why_not_ready()


def build(place: WorkerPlace) -> Metering:
    """One process of it; a second one that takes over fences the first."""
    return Metering(place)
