"""Renditions of a video: its first picture, and films of a few sizes, all encoded anew. Runs in the sandbox only.

Nothing of the source's bytes survives, and no file but the source is opened, whatever it names. Telephones film in any
position and at no even pace: what is made is upright, and each picture stands at its own time.
"""

from __future__ import annotations

from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import av
from av.audio.frame import AudioFrame
from av.filter import Graph
from av.video.format import VideoFormat
from av.video.frame import VideoFrame

from schemas.social import limits

_RATE: Final = 25  # where the source says none
_RATES_MAX: Final = 60  # pictures that come faster are left out
_TICK: Final = Fraction(1, 90_000)  # of the times of pictures
#: by how far a picture is turned to the left until it is upright: what turns it
_TURNS: Final = {
    0: (),
    90: (("transpose", "cclock"),),
    180: (("hflip", ""), ("vflip", "")),
    270: (("transpose", "clock"),),
}
_AUDIO_RATE: Final = 44_100
_THREADS: Final = 2  # of the largest film; the others have one
#: bits a second for each pixel of a picture: five minutes of the largest film are below the bound of a file
_BITS_S_PER_PIXEL: Final = 1.5
_QUALITY: Final = 82


class TooLargeAVideo(ValueError):
    """Longer, or of more pixels, than is taken."""


def renditions(source: Path, folder: Path, mime: str) -> list[dict[str, Any]]:
    """Makes them in the folder: a poster, then films, the smallest first, none larger than the source.

    Raises ValueError, OSError and what the decoder raises, for what is no such video.
    """
    del mime
    with _opened(source) as film:
        video = film.streams.video[0]
        if video.width * video.height > limits.MEDIA_PIXELS_MAX:
            raise TooLargeAVideo
        turn = _turn(source)
        sizes = _sizes(video.width, video.height, _pictures(film))
        files = [folder / f"film{min(size)}.mp4" for size in sizes]
        _encode(film, list(zip(files, sizes, strict=True)), folder / "poster.webp", turn)
    shown = [size if turn in (0, 180) else (size[1], size[0]) for size in sizes]
    films = [
        {"name": file.stem, "file": file.name, "mime": "video/mp4", "width": width, "height": height}
        for file, (width, height) in zip(files, shown, strict=True)
    ]
    width, height = shown[-1]
    return [
        {"name": "poster", "file": "poster.webp", "mime": "image/webp", "width": width, "height": height},
        *films,
    ]


def _opened(source: Path) -> Any:
    return av.open(str(source), format="mp4", options={"protocol_whitelist": "file"})


def _turn(source: Path) -> int:
    """How far to the left its pictures have to be turned, as the first one says."""
    with _opened(source) as film:
        first = next(film.decode(film.streams.video[0]), None)
    if first is None:
        raise ValueError("no picture")
    return int(round(first.rotation / 90) * 90 % 360)


def _pictures(film: Any) -> float:
    """How many are encoded of each film, as the source says of itself: what lies runs out of its time."""
    video = film.streams.video[0]
    long_s = float(film.duration or 0) / av.time_base or limits.MEDIA_VIDEO_S_MAX
    return min(long_s, limits.MEDIA_VIDEO_S_MAX) * _rate(video)


def _rate(video: Any) -> int:
    return min(_RATES_MAX, max(1, round(float(video.average_rate or _RATE))))


def _sizes(width: int, height: int, pictures: float) -> list[tuple[int, int]]:
    """Of films, the smallest first: those of the ladder that are no larger than the source, or it as it is.

    As many as may be encoded of so many pictures; the smallest in any case.
    """
    found: list[tuple[int, int]] = []
    pixels = 0.0
    for rung in sorted(limits.MEDIA_VIDEO_LADDER):
        if found and min(width, height) <= min(found[-1]) * limits.MEDIA_VIDEO_STEP:
            break  # the one before is all but the source
        size = _size(width, height, rung)
        pixels += size[0] * size[1] * pictures
        if found and pixels > limits.MEDIA_VIDEO_PIXELS_ENCODED_MAX:
            break
        found.append(size)
    return found


def _size(width: int, height: int, shorter: int) -> tuple[int, int]:
    """No more than this on the shorter side, and even, as the encoder wants it."""
    scale = min(1.0, shorter / min(width, height))
    return max(2, int(width * scale) // 2 * 2), max(2, int(height * scale) // 2 * 2)


class _Turning:
    """Pictures of one size, as they stand upright."""

    def __init__(self, size: tuple[int, int], turn: int) -> None:
        self._size = size
        self._graph = Graph() if turn else None
        if self._graph is not None:
            width, height = size
            steps = [self._graph.add_buffer(None, width, height, VideoFormat("yuv420p", width, height), None, _TICK)]
            steps += [self._graph.add(*step) for step in _TURNS[turn]]
            self._graph.link_nodes(*steps, self._graph.add("buffersink")).configure()

    def of(self, frame: Any) -> Any:
        """The picture in its size, and upright."""
        small = frame.reformat(*self._size, format="yuv420p")
        if self._graph is None:
            return small
        self._graph.push(small)
        return self._graph.pull()


class _Film:
    """A film while it is made."""

    def __init__(
        self, made: Any, size: tuple[int, int], turn: int, rate: int, *, has_sound: bool, threads: int
    ) -> None:
        self._made = made
        self._turning = _Turning(size, turn)
        self._picture = made.add_stream("libx264", rate=rate)
        self._picture.width, self._picture.height = size if turn in (0, 180) else reversed(size)
        self._picture.pix_fmt = "yuv420p"
        self._picture.codec_context.time_base = _TICK
        most = int(size[0] * size[1] * _BITS_S_PER_PIXEL)
        bounds = {"maxrate": str(most), "bufsize": str(2 * most)}
        self._picture.options = {"preset": "veryfast", "crf": "28"} | bounds
        self._picture.thread_count = threads
        self._sound = made.add_stream("aac", rate=_AUDIO_RATE) if has_sound else None
        self._resampler = av.AudioResampler("fltp", "stereo", _AUDIO_RATE)
        self._pace = 1 / rate
        self._last: float | None = None  # when the last picture was
        self.first: Any = None

    def add(self, frame: Any) -> None:
        """One more picture, or a piece of the sound."""
        if frame.time is not None and frame.time > limits.MEDIA_VIDEO_S_MAX:
            raise TooLargeAVideo
        if isinstance(frame, VideoFrame):
            self._show(frame)
        elif isinstance(frame, AudioFrame) and self._sound is not None:
            for part in self._resampler.resample(frame):
                self._made.mux(self._sound.encode(part))

    def _show(self, frame: Any) -> None:
        """At its own time; not at all where it comes before the last one, or all but with it."""
        at = frame.time
        if at is None:
            at = 0.0 if self._last is None else self._last + self._pace
        if self._last is not None and at - self._last < 0.9 / _RATES_MAX:
            return
        self._last = at
        upright = self._turning.of(frame)
        self.first = self.first or upright.to_image()
        upright.pts, upright.time_base = round(at / _TICK), _TICK
        self._made.mux(self._picture.encode(upright))

    def end(self) -> None:
        """What the encoders still hold."""
        for stream in (self._picture, self._sound):
            if stream is not None:
                self._made.mux(stream.encode(None))


def _encode(film: Any, files: list[tuple[Path, tuple[int, int]]], poster: Path, turn: int) -> None:
    """All films of one decoding; the poster is the first picture of the largest, the last of them."""
    video = film.streams.video[0]
    audio = film.streams.audio[0] if film.streams.audio else None
    with ExitStack() as opened:
        copies = []
        for file, size in files:
            made = opened.enter_context(av.open(str(file), "w", format="mp4", options={"movflags": "faststart"}))
            threads = _THREADS if file is files[-1][0] else 1
            copies.append(_Film(made, size, turn, _rate(video), has_sound=audio is not None, threads=threads))
        for packet in film.demux(*[stream for stream in (video, audio) if stream is not None]):
            for frame in packet.decode():
                for copy in copies:
                    copy.add(frame)
        for copy in copies:
            copy.end()
    copies[-1].first.save(poster, "WEBP", quality=_QUALITY)
