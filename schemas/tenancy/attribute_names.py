"""Names of CloudEvents attributes: lower-case letters and digits alone, and never ``data`` (1.0, section 3.1). Pure.

A name that breaks the rule is refused and never left out: other readers of the same event would read another name in
it, or none. Names may be of any length; 20 characters is what the specification advises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from schemas import limits

#: what HTTP, or Kafka, writes before an attribute's name
OF_HTTP: Final = "ce-"
OF_KAFKA: Final = "ce_"
#: what usage has, and is read
OF_USAGE: Final = ("specversion", "type", "id", "source", "time", "subject", "datacontenttype")
#: of the JSON format: these say what an event holds, and are no attributes
MEMBERS: Final = ("data", "data_base64")
_NAME: Final = re.compile(r"[a-z0-9]+", re.ASCII)
PATTERN: Final = f"^{_NAME.pattern}$"

Wrong = dict[str, str]  # field and reason


def of_event(event: dict[str, Any]) -> list[Wrong]:
    """What is wrong with the names that a JSON event says."""
    return [_refusal(name, name) for name in event if name not in MEMBERS and not _NAME.fullmatch(name)]


def of_fields(names: Iterable[str], prefix: str) -> list[Wrong]:
    """What is wrong with the header fields that begin with the prefix."""
    said = ((name, name.removeprefix(prefix)) for name in names if name.startswith(prefix))
    return [_refusal(field, name) for field, name in said if name == "data" or not _NAME.fullmatch(name)]


def _refusal(field: str, name: str) -> Wrong:
    reason = "is no attribute of an event" if name == "data" else "must be a name of lower-case letters and digits"
    return {"field": field[: limits.TEXT_LENGTH_MAX], "reason": reason}
