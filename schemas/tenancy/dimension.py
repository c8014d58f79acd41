"""What a dimension may be called: one grammar for what is metered, priced, limited, corrected and asked for."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from schemas.tenancy import limits

#: begins with a letter, a digit or _; as a part of patterns of JSON Schema
PATTERN: Final = rf"[A-Za-z0-9_][A-Za-z0-9_.:-]{{0,{limits.DIMENSION_LENGTH_MAX - 1}}}"
FAULT: Final = f"must be 1 to {limits.DIMENSION_LENGTH_MAX} of A-Z a-z 0-9 _ . : -, and begin with none of . : -"
_DIMENSION: Final = re.compile(PATTERN)


def is_dimension(value: object) -> bool:
    """Whether a value is the name of a dimension."""
    return isinstance(value, str) and len(value) <= limits.DIMENSION_LENGTH_MAX and _is_one(value)


@lru_cache(maxsize=1_024)  # events are of a few; it keeps short texts only
def _is_one(text: str) -> bool:
    return _DIMENSION.fullmatch(text) is not None
