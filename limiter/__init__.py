"""The rate limiter as a library, and the processes that serve it: decisions on keys, by signed policies."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from limiter.decide.in_process import InProcessLimiter
    from limiter.decide.limiter import Limiter
    from limiter.decide.synchronous import SyncLimiter
    from limiter.spending.decision import Decision

__all__ = ["Decision", "InProcessLimiter", "Limiter", "SyncLimiter"]

_MODULES: Final = {
    "Decision": "limiter.spending.decision",
    "InProcessLimiter": "limiter.decide.in_process",
    "Limiter": "limiter.decide.limiter",
    "SyncLimiter": "limiter.decide.synchronous",
}


def __getattr__(name: str) -> object:
    """A class is imported when somebody asks for it: a process that needs one part of this package loads no other."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
