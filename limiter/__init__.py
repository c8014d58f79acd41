"""The rate limiter as a library, and the processes that serve it: decisions on keys, by signed policies."""

from limiter.decision import Decision
from limiter.limiter import Limiter
from limiter.synchronous import SyncLimiter

__all__ = ["Decision", "Limiter", "SyncLimiter"]
