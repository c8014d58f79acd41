"""The owners of services that lie in packages of their own: they run wherever such a service is named."""

from __future__ import annotations

from typing import Final

from schemas.services import FURTHER

#: the name of the process to the name of its service
FURTHER_OWNERS: Final = {f"{service.name}_owner": service.name for service in FURTHER}
