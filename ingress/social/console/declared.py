"""The desk's place in the console, and who has it."""

from __future__ import annotations

from typing import Final

from ingress.console.declared import ConsolePages, Guests, place
from ingress.social.console import desk_routes, media_routes
from ingress.social.console.desk_routes import DESK, MODERATE
from ingress.social.console.media_routes import BOARD

CONSOLE: Final = ConsolePages(
    package="ingress.social.console",
    routers=(desk_routes.router, media_routes.router),
    places=(place("m", DESK, "Moderation"),),
    staff_places=(place("d", BOARD, "Media"),),
    guests=Guests(
        name="moderator",
        scope=MODERATE,
        home=DESK,
        admits=lambda caller: caller.principal.startswith("user:"),  # decisions are made in a user's name
    ),
)
