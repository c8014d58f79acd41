"""The rate limiter as a library, and the processes that serve it: decisions on keys, by signed policies."""

from limiter.decide.limiter import Limiter
from limiter.decide.synchronous import SyncLimiter
from limiter.spending.decision import Decision

__all__ = ["Decision", "Limiter", "SyncLimiter"]
