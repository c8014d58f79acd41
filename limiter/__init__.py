"""The rate limiter as a library, and the processes that serve it: decisions on keys, by signed policies."""

from limiter.decide.decision import Decision
from limiter.decide.limiter import Limiter
from limiter.decide.synchronous import SyncLimiter

__all__ = ["Decision", "Limiter", "SyncLimiter"]
