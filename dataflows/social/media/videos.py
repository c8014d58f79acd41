"""Renditions of a video: its first picture, and a small film, both encoded anew. Runs in the sandbox only.

Nothing of the source's bytes survives, and no file but the source is opened, whatever it names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import av
from av.audio.frame import AudioFrame
from av.video.frame import VideoFrame

from schemas.social import limits

_RATE: Final = 25  # where the source says none
_RATES_MAX: Final = 60
_AUDIO_RATE: Final = 44_100
_THREADS: Final = 2
_QUALITY: Final = 82


class TooLargeAVideo(ValueError):
    """Longer, or of more pixels, than is taken."""


def renditions(source: Path, folder: Path, mime: str) -> list[dict[str, Any]]:
    """Makes them in the folder. Raises ValueError, OSError and what the decoder raises, for what is no such video."""
    del mime
    with av.open(str(source), format="mp4", options={"protocol_whitelist": "file"}) as film:
        video = film.streams.video[0]
        if video.width * video.height > limits.MEDIA_PIXELS_MAX:
            raise TooLargeAVideo
        poster, small = folder / "poster.webp", folder / "small.mp4"
        width, height = _size(video.width, video.height)
        _encode(film, small, poster, (width, height))
    made = {"width": width, "height": height}
    return [
        {"name": "poster", "file": poster.name, "mime": "image/webp"} | made,
        {"name": "small", "file": small.name, "mime": "video/mp4"} | made,
    ]


def _size(width: int, height: int) -> tuple[int, int]:
    """No more than the bound on the shorter side, and even, as the encoder wants it."""
    scale = min(1.0, limits.MEDIA_VIDEO_PIXELS / min(width, height))
    return max(2, int(width * scale) // 2 * 2), max(2, int(height * scale) // 2 * 2)


class _Film:
    """A small film while it is made."""

    def __init__(self, made: Any, size: tuple[int, int], rate: int, *, has_sound: bool) -> None:
        self._made = made
        self._size = size
        self._picture = made.add_stream("libx264", rate=rate)
        self._picture.width, self._picture.height, self._picture.pix_fmt = *size, "yuv420p"
        self._picture.options = {"preset": "veryfast", "crf": "28"}
        self._picture.thread_count = _THREADS
        self._sound = made.add_stream("aac", rate=_AUDIO_RATE) if has_sound else None
        self._resampler = av.AudioResampler("fltp", "stereo", _AUDIO_RATE)
        self.first: Any = None

    def add(self, frame: Any) -> None:
        """One more picture, or a piece of the sound."""
        if frame.time is not None and frame.time > limits.MEDIA_VIDEO_S_MAX:
            raise TooLargeAVideo
        if isinstance(frame, VideoFrame):
            upright = frame.reformat(*self._size, format="yuv420p")
            self.first = self.first or upright.to_image()  # type: ignore[no-untyped-call]
            self._made.mux(self._picture.encode(upright))
        elif isinstance(frame, AudioFrame) and self._sound is not None:
            for part in self._resampler.resample(frame):
                self._made.mux(self._sound.encode(part))

    def end(self) -> None:
        """What the encoders still hold."""
        for stream in (self._picture, self._sound):
            if stream is not None:
                self._made.mux(stream.encode(None))


def _encode(film: Any, small: Path, poster: Path, size: tuple[int, int]) -> None:
    video = film.streams.video[0]
    audio = film.streams.audio[0] if film.streams.audio else None
    rate = min(_RATES_MAX, max(1, round(float(video.average_rate or _RATE))))
    with av.open(str(small), "w", format="mp4", options={"movflags": "faststart"}) as made:
        copy = _Film(made, size, rate, has_sound=audio is not None)
        for packet in film.demux(*[stream for stream in (video, audio) if stream is not None]):
            for frame in packet.decode():
                copy.add(frame)
        copy.end()
    if copy.first is None:
        raise ValueError("no picture")
    copy.first.save(poster, "WEBP", quality=_QUALITY)
