"""Templates of the pages: every value escaped; pictures and films come from the media origin, and from nowhere else."""

from __future__ import annotations

import re
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from ingress.browser import protection
from ingress.browser.rendering import environment
from schemas import limits
from schemas.social import limits as social_limits
from schemas.social.media_operations import MIMES
from schemas.social.value_types import USER_ID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from schemas.social.media_origin import MediaOrigin

_HUES: Final = 8
_AGES: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))
_DAYS_SHOWN_MAX: Final = 30
#: what becomes a link in a text: an address, or a user who is mentioned
_LINKED: Final = re.compile(rf"https?://[^\s<>\"']{{1,2000}}|(?<![A-Za-z0-9_])@{USER_ID.pattern}")
_LINK: Final = Markup('<a href="{}" rel="nofollow noopener noreferrer ugc">{}</a>')
_MENTION: Final = Markup('<a href="/app/users/{}">@{}</a>')

_environment: Final = environment("ingress.social.pages")


def policy(media: MediaOrigin) -> str:
    """The content security policy: nothing inline, nothing from elsewhere but media."""
    return (
        "default-src 'none'; script-src 'self'; style-src 'self'; "
        f"img-src 'self' {media.url}; media-src {media.url}; connect-src 'self' {media.uploads_url}; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def html(
    template: str,
    context: Mapping[str, Any],
    media: MediaOrigin,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A page, or a part of one."""
    text = _environment.get_template(template).render(context)
    return HTMLResponse(text, status, protection.headers(policy(media)) | dict(headers or {}))


def linked(text: str) -> Markup:
    """A text with its addresses and mentions as links; everything in it escaped."""
    made, last = Markup(), 0
    for found in _LINKED.finditer(text):
        word = found[0]
        made += text[last : found.start()]
        made += _MENTION.format(word[1:], word[1:]) if word.startswith("@") else _LINK.format(word, word)
        last = found.end()
    return made + text[last:]


def moment(text: str) -> datetime:
    """A time as the API says it."""
    return datetime.fromisoformat(text)


def age(at: datetime, now: datetime | None = None) -> str:
    """How long ago, in one unit: ``3 h``; what is older than a month, as a date."""
    seconds = max(0, int(((now or datetime.now(UTC)) - at).total_seconds()))
    if seconds >= _DAYS_SHOWN_MAX * _AGES[0][0]:
        return f"{at.day} {at:%b %Y}"
    return next((f"{seconds // size} {unit}" for size, unit in _AGES if seconds >= size), "now")


def stamp(at: datetime) -> str:
    """The absolute time, in UTC."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def hue(user_id: str) -> int:
    """Which of the colours a user has: always the same one."""
    return zlib.crc32(user_id.encode()) % _HUES


def size(count: int) -> str:
    """Bytes as people read them."""
    for unit, least in (("MB", 1_000_000), ("kB", 1_000)):
        if count >= least:
            return f"{count / least:.1f} {unit}"
    return f"{count} B"


_environment.globals |= {
    "text_max": social_limits.POST_TEXT_LENGTH_MAX,
    "name_max": social_limits.DISPLAY_NAME_LENGTH_MAX,
    "note_max": limits.TEXT_LENGTH_MAX,
    "media_max": social_limits.POST_MEDIA_MAX,
    "media_bytes_max": social_limits.MEDIA_BYTES_MAX,
    "media_part_bytes": social_limits.APP_PART_BYTES,
    "mimes": MIMES,
}
_environment.filters |= {"linked": linked, "moment": moment, "age": age, "stamp": stamp, "hue": hue, "size": size}
