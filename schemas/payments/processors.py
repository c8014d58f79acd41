"""Names of processors. A name begins with its adapter, so whoever reads a name knows the processor's formats.

``simulator`` and ``simulator_b`` are two processors that speak alike; so are ``stripe`` and ``stripe_eu``.
"""

from __future__ import annotations

import re
from typing import Final

ADAPTERS: Final = ("simulator", "stripe")
#: adapters whose disputes name the processor's own charge and nothing of ours
NAMED_BY_CHARGE: Final = ("stripe",)
#: parts of an account's name end with ":", those of a webhook's address with "/"
_NAME: Final = re.compile(rf"(?:{'|'.join(ADAPTERS)})(?:_[a-z0-9]{{1,24}})?")


def is_processor_name(name: str) -> bool:
    """True for the name of a processor that attempts can be carried out at."""
    return _NAME.fullmatch(name) is not None


def adapter_of(processor: str) -> str:
    """The adapter of a processor; of a sender of webhooks that is none, its scheme, which has its name."""
    return processor.partition("_")[0]
