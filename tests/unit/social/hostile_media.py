"""Media as their enemies make them."""

from __future__ import annotations

import io
import struct
import zlib
from typing import TYPE_CHECKING, Final

from PIL import Image

from sinks.objects.folder_store import FolderStore
from sinks.objects.media_objects import MediaObjects

if TYPE_CHECKING:
    from pathlib import Path

#: orientation 6, a place, and a word that must not come out again
MARK: Final = b"taken-at-home"


def objects_in(folder: Path) -> MediaObjects:
    return MediaObjects(FolderStore(folder), folder / "drafts")


def png(width: int, height: int, bits: int = 8, *, rows: int | None = None) -> bytes:
    """Grey; fewer rows than it says make it a truncated one."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = b"\0" + bytes((width * bits + 7) // 8)
    pixels = zlib.compress(row * (height if rows is None else rows), 9)
    header = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def jpeg_with_place(width: int = 64, height: int = 32) -> bytes:
    """Lies on its side, and says where it was taken."""
    image, exif = Image.new("RGB", (width, height), (10, 200, 30)), Image.Exif()
    exif[0x0112], exif[0x010E] = 6, MARK.decode()
    exif.get_ifd(0x8825)[2] = (52.0, 31.0, 12.3)
    made = io.BytesIO()
    image.save(made, "JPEG", exif=exif)
    return made.getvalue()


def moving_gif(frames: int, side: int = 128) -> bytes:
    """A line that goes down: every frame another."""
    pictures = []
    for n in range(frames):
        picture = Image.new("L", (side, side))
        picture.paste(255, (0, n, side, n + 1))
        pictures.append(picture)
    made = io.BytesIO()
    pictures[0].save(made, "GIF", save_all=True, append_images=pictures[1:], duration=20)
    assert Image.open(io.BytesIO(made.getvalue())).n_frames == frames
    return made.getvalue()


def polyglot() -> bytes:
    """A picture that a browser might take for a page, and an archiver for an archive."""
    return png(16, 16) + b"<html><script>alert(1)</script></html>" + b"PK\x05\x06" + bytes(18)
