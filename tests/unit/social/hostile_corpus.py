"""A corpus of hostile media, made here: bombs, floods, two formats in one, cut and flipped bytes, places in every tag.

Each case says what must come of it: nothing at all, or clean pictures, or either (bytes that a decoder may forgive).
"""

from __future__ import annotations

import io
import random
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from PIL import Image, PngImagePlugin

from schemas.social import limits
from tests.unit.social.hostile_media import MARK, jpeg_with_place, moving_gif, png, polyglot

if TYPE_CHECKING:
    from collections.abc import Iterator

Outcome = Literal["refused", "clean", "either"]
SCRIPT: Final = b"<script>alert(1)</script>"
MIMES: Final = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp", "GIF": "image/gif"}


class Hostile(NamedTuple):
    """One file."""

    name: str
    mime: str
    data: bytes
    outcome: Outcome


def corpus(seed: int, mutants: int) -> Iterator[Hostile]:
    """All of it; of each format so many cut and so many flipped ones, drawn by the seed."""
    yield from _bombs()
    yield from _floods()
    yield from _marked()
    yield from _two_in_one()
    yield from _wrong_types()
    yield from _mutants(random.Random(seed), mutants)


def picture(kind: str, side: int = 32, **fields: Any) -> bytes:
    """A clean one."""
    made = io.BytesIO()
    image = Image.linear_gradient("L").resize((side, side))
    (image if kind == "GIF" else image.convert("RGB")).save(made, kind, **fields)
    return made.getvalue()


def _bombs() -> Iterator[Hostile]:
    """Few bytes that say they are very many pixels, or that unpack to very many bytes."""
    jpeg = bytearray(picture("JPEG"))
    frame = jpeg.index(b"\xff\xc0") + 5
    jpeg[frame : frame + 4] = struct.pack(">HH", 65_500, 65_500)
    yield Hostile("jpeg-header", "image/jpeg", bytes(jpeg), "refused")
    gif = bytearray(picture("GIF"))
    gif[6:10] = struct.pack("<HH", 65_535, 65_535)
    yield Hostile("gif-screen", "image/gif", bytes(gif), "refused")
    canvas = struct.pack("<I", 0)[:4] + (16_382).to_bytes(3, "little") * 2
    yield Hostile("webp-canvas", "image/webp", _riff(b"VP8X" + struct.pack("<I", 10) + canvas), "refused")
    yield Hostile("png-header", "image/png", png(60_000, 60_000, bits=1, rows=2), "refused")
    yield Hostile("png-whole", "image/png", png(20_000, 3_000, bits=1), "refused")
    yield Hostile(
        "png-text", "image/png", _with_chunk(b"zTXt", b"Comment\0\0" + zlib.compress(bytes(200_000_000), 9)), "either"
    )
    yield Hostile(
        "png-profile", "image/png", _with_chunk(b"iCCP", b"icc\0\0" + zlib.compress(bytes(200_000_000), 9)), "either"
    )


def _floods() -> Iterator[Hostile]:
    """More frames than are taken, of one pixel each or saying nothing of it before they come."""
    yield Hostile("gif-frames", "image/gif", moving_gif(limits.MEDIA_FRAMES_MAX + 1), "refused")
    one = picture("GIF", 1)
    head, frame = one[:-1], one[one.index(b"\x2c") : -1]
    yield Hostile("gif-100000", "image/gif", head + frame * 100_000 + b";", "refused")
    for kind in ("PNG", "WEBP"):
        made = io.BytesIO()
        pictures = [Image.new("RGB", (8, 8), (n % 2 * 255, n, 255 - n)) for n in range(limits.MEDIA_FRAMES_MAX + 50)]
        pictures[0].save(made, kind, save_all=True, append_images=pictures[1:], duration=10, lossless=True)
        yield Hostile(f"{kind.lower()}-frames", MIMES[kind], made.getvalue(), "refused")


def _marked() -> Iterator[Hostile]:
    """A place, a name and a script in every tag that a format has."""
    exif = Image.Exif()
    exif[0x010E], exif[0x0112] = MARK.decode(), 6
    exif.get_ifd(0x8825)[2] = (52.0, 31.0, 12.3)
    packet = b"<?xpacket?><x:xmpmeta xmlns:x='adobe:ns:meta/'>" + MARK + SCRIPT + b"</x:xmpmeta>"
    yield Hostile("jpeg-place", "image/jpeg", jpeg_with_place(), "clean")
    yield Hostile(
        "jpeg-tags", "image/jpeg", picture("JPEG", exif=exif, xmp=packet, comment=MARK, icc_profile=MARK * 20), "clean"
    )
    yield Hostile("webp-tags", "image/webp", picture("WEBP", exif=exif, xmp=packet, icc_profile=MARK * 20), "clean")
    yield Hostile("gif-comment", "image/gif", picture("GIF", comment=MARK + SCRIPT), "clean")
    texts = PngImagePlugin.PngInfo()
    texts.add_text("Comment", MARK.decode())
    texts.add_itxt("XML:com.adobe.xmp", packet.decode(), zip=True)
    yield Hostile("png-tags", "image/png", picture("PNG", exif=exif, pnginfo=texts, icc_profile=MARK * 20), "clean")


def _two_in_one() -> Iterator[Hostile]:
    """A picture that is something else too, before or behind or within."""
    yield Hostile("png-page-archive", "image/png", polyglot(), "clean")
    for kind, mime in MIMES.items():
        yield Hostile(f"{kind.lower()}-then-page", mime, picture(kind) + b"<html>" + SCRIPT + MARK, "clean")
        yield Hostile(f"page-then-{kind.lower()}", mime, b"<html>" + SCRIPT + picture(kind), "refused")
        yield Hostile(f"pdf-then-{kind.lower()}", mime, b"%PDF-1.7\n" + picture(kind), "refused")
    script = bytearray(picture("GIF"))
    script[6:8] = b"/*"
    yield Hostile("gif-script", "image/gif", bytes(script) + b"*/=1;alert(1)", "either")


def _wrong_types() -> Iterator[Hostile]:
    """Every format under the name of every other, and what is no picture at all."""
    others = {
        "svg": b"<svg xmlns='http://www.w3.org/2000/svg'>" + SCRIPT + b"</svg>",
        "empty": b"",
        "zeros": bytes(999),
    }
    made = {kind: picture(kind) for kind in MIMES} | others | {"BMP": picture("BMP"), "TIFF": picture("TIFF")}
    for kind, data in made.items():
        for declared, mime in MIMES.items():
            if kind != declared:
                yield Hostile(f"{kind}-as-{declared}", mime, data, "refused")
        yield Hostile(f"{kind}-as-film", "video/mp4", data, "refused")


def _mutants(chance: random.Random, count: int) -> Iterator[Hostile]:
    """Cut anywhere, and with a few bytes changed."""
    for kind, mime in MIMES.items():
        whole = picture(kind)
        for n in range(count):
            yield Hostile(f"{kind}-cut-{n}", mime, whole[: chance.randrange(len(whole) // 2)], "refused")
            data = bytearray(whole)
            for _ in range(chance.randrange(1, 6)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            yield Hostile(f"{kind}-flipped-{n}", mime, bytes(data), "either")


def _riff(chunks: bytes) -> bytes:
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WEBP" + chunks


def _with_chunk(kind: bytes, data: bytes) -> bytes:
    """A small PNG with one more chunk behind its header."""
    chunk = struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    whole = png(16, 16)
    return whole[:33] + chunk + whole[33:]
