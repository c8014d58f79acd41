"""Renditions of an image: a small one and a full one, upright, of pixels alone. Runs in the sandbox only.

The picture is decoded and encoded anew, so that nothing of the source's bytes survives: no EXIF, no place, no second
format behind the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from PIL import Image, ImageOps, ImageSequence

from schemas.social import limits

#: the only decoder that a declared type may meet
_FORMATS: Final = {"image/jpeg": "JPEG", "image/png": "PNG", "image/webp": "WEBP", "image/gif": "GIF"}
#: what telephones put behind a picture (depth, brightness, a second view) is no frame of an animation
_STILL: Final = frozenset({"JPEG", "MPO"})
_SIDES: Final = (("thumb", limits.MEDIA_THUMB_PIXELS), ("full", limits.MEDIA_FULL_PIXELS))
_QUALITY: Final = 82
_FRAME_MS: Final = 100

Image.MAX_IMAGE_PIXELS = limits.MEDIA_PIXELS_MAX


def be_ready() -> None:
    """Has what decodes and encodes in memory, which else the first picture of each process would load."""
    Image.preinit()
    for kind in ("MpoImagePlugin", "WebPImagePlugin"):
        import_module(f"PIL.{kind}")


class TooLargeAnImage(ValueError):
    """More pixels or frames than are taken."""


def renditions(source: Path, folder: Path, mime: str) -> list[dict[str, Any]]:
    """Makes them in the folder. Raises OSError, ValueError and what a decoder raises, for what is no such image."""
    with Image.open(source, formats=[_FORMATS[mime]]) as image:
        if image.width * image.height > limits.MEDIA_PIXELS_MAX:
            raise TooLargeAnImage
        frames = 1 if image.format in _STILL else _frame_count(image)
        if frames > limits.MEDIA_FRAMES_MAX:
            raise TooLargeAnImage
        image.load()
        made = []
        for name, side in _SIDES:
            pictures = list(_pictures(image, side, frames if name == "full" else 1))
            path = folder / f"{name}.webp"
            _save(pictures, path, image.info.get("duration", _FRAME_MS))
            width, height = pictures[0].size
            made.append({"name": name, "file": path.name, "mime": "image/webp", "width": width, "height": height})
    return made


def _frame_count(image: Image.Image) -> int:
    """Counts no further than is allowed: a file may say that it has any number."""
    if not getattr(image, "is_animated", False):
        return 1
    for n in range(1, limits.MEDIA_FRAMES_MAX + 1):
        try:
            image.seek(n)
        except EOFError:
            image.seek(0)
            return n
    return limits.MEDIA_FRAMES_MAX + 1


def _pictures(image: Image.Image, side: int, frames: int) -> Iterator[Image.Image]:
    """The first frames, none larger than ``side`` allows; all of a long animation's pixels together are bounded."""
    scale = min(1.0, side / max(image.size))
    most = max(1, int(limits.MEDIA_PIXELS_MAX / max(1.0, image.width * image.height * scale * scale)))
    for n, frame in enumerate(ImageSequence.Iterator(image) if frames > 1 else [image]):
        if n == min(frames, most):
            return
        upright = _of_eight_bits(ImageOps.exif_transpose(frame))
        has_alpha = upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info
        picture = upright.convert("RGBA" if has_alpha else "RGB")
        picture.thumbnail((side, side), Image.Resampling.LANCZOS)
        picture.info.clear()
        yield picture


def _of_eight_bits(frame: Image.Image) -> Image.Image:
    """The frame, without the lower half of grey of sixteen bits: Pillow would show all that is not dark as white."""
    return frame.point(lambda grey: grey / 256).convert("L") if frame.mode.startswith("I") else frame


def _save(pictures: list[Image.Image], path: Path, duration: object) -> None:
    first, *others = pictures
    moving = {"save_all": True, "append_images": others, "duration": duration or _FRAME_MS, "loop": 0} if others else {}
    first.save(path, "WEBP", quality=_QUALITY, method=4, exif=b"", xmp=b"", icc_profile=b"", **moving)
