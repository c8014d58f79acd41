"""Who the request under way is of, for what is bounded deep below it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

#: the principal of a caller, as ``Slots`` found it; nothing of strangers, and where no request is under way
ASKING: Final[ContextVar[str]] = ContextVar("asking", default="")
