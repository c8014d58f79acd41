"""Signed URLs of media: good for what they were signed for, and for nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from msgspec import structs

from schemas import limits
from schemas.social.media_origin import MediaOrigin, Part

NOW = 1_800_000_000.0
ORIGIN = MediaOrigin(url="http://media", uploads_url="http://parts", key=b"k" * 32, folder=Path("/nowhere"))
PART = Part(media_id="md_1", owner_id="u_1", number=2, size=7, sha256="ab" * 32, mime="image/png")


def query(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def test_a_part_s_url_admits_this_part_until_its_end() -> None:
    url = ORIGIN.part_url(PART, int(NOW) + 10, "0" * 24)
    assert url.startswith("http://parts/uploads/md_1/2?")  # past whatever is in front of renditions
    given = query(url)
    assert ORIGIN.admits_part(PART, given, NOW)
    assert not ORIGIN.admits_part(PART, given, NOW + 10)


@pytest.mark.parametrize(
    "change",
    [
        {"media_id": "md_2"},
        {"owner_id": "u_2"},
        {"number": 1},
        {"size": 8},
        {"sha256": "cd" * 32},
        {"mime": "image/gif"},
    ],
    ids=str,
)
def test_it_admits_nothing_else(change: dict[str, Any]) -> None:
    given = query(ORIGIN.part_url(PART, int(NOW) + 10, "0" * 24))
    assert not ORIGIN.admits_part(structs.replace(PART, **change), given, NOW)


def test_no_field_of_it_can_be_changed_added_or_left_out() -> None:
    given = query(ORIGIN.part_url(PART, int(NOW) + 10, "0" * 24))
    for name in given:
        assert not ORIGIN.admits_part(PART, {k: v for k, v in given.items() if k != name}, NOW)
        for text in ("", "0", given[name][:-1], given[name] + "0", given[name].upper() + "x"):
            assert not ORIGIN.admits_part(PART, given | {name: text}, NOW)
    assert not ORIGIN.admits_part(PART, given | {"more": "1"}, NOW)


def test_a_signed_view_is_of_one_rendition_version_and_time() -> None:
    url = ORIGIN.view_url("md_1", 3, "full-1.webp", int(NOW) + 10)
    assert urlsplit(url).path == "/media/md_1/3/full-1.webp"
    given = query(url)
    assert ORIGIN.admits_view("md_1", 3, "full-1.webp", given, NOW)
    assert not ORIGIN.admits_view("md_1", 4, "full-1.webp", given, NOW)
    assert not ORIGIN.admits_view("md_2", 3, "full-1.webp", given, NOW)
    assert not ORIGIN.admits_view("md_1", 3, "thumb-1.webp", given, NOW)
    assert not ORIGIN.admits_view("md_1", 3, "full-1.webp", given, NOW + 10)


def test_a_view_that_lives_too_long_is_none_of_ours() -> None:
    given = query(ORIGIN.view_url("md_1", 3, "full-1.webp", int(NOW) + limits.MEDIA_VIEW_TTL_S + 60))
    assert not ORIGIN.admits_view("md_1", 3, "full-1.webp", given, NOW)


def test_the_key_is_in_no_text_of_it() -> None:
    assert "kkkk" not in repr(ORIGIN)
