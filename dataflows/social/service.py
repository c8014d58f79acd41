"""Social posts as the owner runtime sees them."""

from __future__ import annotations

from typing import Final

from dataflows.owner.service import OwnedService
from dataflows.social.partition import SocialPartition
from schemas.social.service import SERVICE

OWNED: Final = OwnedService(declared=SERVICE, open_partition=SocialPartition)
