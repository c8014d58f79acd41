"""What is served of hostile media: pixels alone, within bounds, or nothing."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from fractions import Fraction
from typing import TYPE_CHECKING

import av
import msgspec
import pytest
from PIL import Image

from dataflows.social.media import images, sandbox, videos
from dataflows.social.media.malware import SIGNATURE, is_malware
from dataflows.social.media.rendering import Rendition, is_refused, render
from dataflows.social.media.sandboxes import Killed, Sandboxes, Undecided, Unwanted
from schemas.social import limits
from tests.unit.social.hostile_media import MARK, jpeg_with_place, moving_gif, objects_in, png

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


def made(folder: Path, data: bytes, mime: str) -> list[Rendition] | None:
    source, work = folder / "source", folder / "work"
    source.write_bytes(data)
    work.mkdir()
    with Sandboxes() as sandboxes:
        return render(sandboxes, objects_in(folder), "md_1", source, mime, work)


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (png(64, 64)[:60], "image/png"),
        (png(16, 16), "video/mp4"),
        (b"\0\0\0\x18ftypmp42" + bytes(400), "video/mp4"),
    ],
    ids=["cut", "still", "film"],
)
def test_what_is_not_decodable_as_declared_or_past_a_bound_has_no_rendition(
    tmp_path: Path, data: bytes, mime: str
) -> None:
    assert made(tmp_path, data, mime) is None
    assert not (tmp_path / "renditions").exists()


@pytest.fixture
def warm() -> Iterator[Sandboxes]:
    with Sandboxes() as sandboxes:
        yield sandboxes


def test_what_the_machine_fails_at_is_no_verdict(
    warm: Sandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.write_bytes(png(16, 16))
    with pytest.raises(OSError, match="ended with 1"):  # where to write is gone
        render(warm, objects_in(tmp_path), "md_1", source, "image/png", tmp_path / "gone")
    monkeypatch.setattr(limits, "MEDIA_RENDERING_WAIT_S", 0.001)
    with pytest.raises(Undecided):
        render(warm, objects_in(tmp_path), "md_1", source, "image/png", tmp_path)


def test_what_has_ended_meanwhile_is_rendered_no_further(
    warm: Sandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MEDIA_WANTED_LOOK_S", 0.001)
    looks = iter([True, False])
    (tmp_path / "source").write_bytes(png(16, 16))
    with pytest.raises(Unwanted):
        render(warm, objects_in(tmp_path), "md_1", tmp_path / "source", "image/png", tmp_path, lambda: next(looks))
    assert not (tmp_path / "renditions").exists()


@pytest.mark.parametrize("status", [sandbox.UNDECODABLE, -signal.SIGXCPU, -signal.SIGXFSZ])
def test_a_decoder_that_says_no_or_is_past_its_bounds_ends_a_medium(status: int) -> None:
    assert is_refused(status)
    assert not is_refused(0)


@pytest.mark.parametrize("status", [sandbox.EITHER, -signal.SIGSEGV, -signal.SIGABRT, -signal.SIGSYS])
def test_a_decoder_that_crashes_ends_a_medium_only_with_time(status: int) -> None:
    with pytest.raises(Undecided):
        is_refused(status)


def test_a_decoder_that_tells_a_name_which_is_no_part_of_a_key_has_no_rendition(
    warm: Sandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken over; an error would end whoever asked, and whoever asks next."""
    (tmp_path / "made").write_bytes(b"x")
    for name in ("../mine", "full"):
        told = {"name": name, "file": "made", "mime": "image/webp", "width": 1, "height": 1}
        answer = sandbox.Answer(0, msgspec.json.encode([told]))
        monkeypatch.setattr(warm, "run", lambda *_, answer=answer: answer)
        made = render(warm, objects_in(tmp_path), "md_1", tmp_path / "source", "image/png", tmp_path)
        assert (made is None) == (name != "full")


def test_a_decoder_that_somebody_kills_is_told_from_one_that_crashes() -> None:
    with pytest.raises(Killed):
        is_refused(-signal.SIGKILL)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SyntaxError("broken PNG"), sandbox.UNDECODABLE),
        (OSError("cut"), sandbox.UNDECODABLE),
        (OSError(errno.EFBIG, "too large a rendition"), sandbox.UNDECODABLE),
        (MemoryError(), sandbox.EITHER),
        (OSError(errno.EIO, "cut, or a disk that fails"), sandbox.EITHER),
        (OSError(errno.ENOSPC, "full"), 1),
        (ImportError("no decoder"), 1),
    ],
)
def test_the_end_of_a_decoder_says_whose_fault_it_is(error: Exception, status: int) -> None:
    assert sandbox.status_of(error) == status


def test_what_takes_too_long_is_told_from_what_somebody_kills() -> None:
    order = sandbox.Order("/", "/tmp", "image/png")
    confined = f"from dataflows.social.media import sandbox\nsandbox.confine(sandbox.{order}, {os.getpid()})"
    bound = f"from schemas.social import limits\nlimits.MEDIA_RENDERING_CPU_S = 1\n{confined}\nwhile True: pass"
    done = subprocess.run([sys.executable, "-c", bound], check=False, capture_output=True)
    assert done.returncode == -signal.SIGXCPU


def test_a_place_and_whatever_else_is_in_a_picture_stay_behind_and_it_stands_upright(tmp_path: Path) -> None:
    found = made(tmp_path, jpeg_with_place(), "image/jpeg")
    assert found is not None
    assert [one.name.partition("-")[0] for one in found] == ["thumb", "full"]
    for one in found:
        data = (tmp_path / "renditions" / "md_1" / one.name).read_bytes()
        assert MARK not in data
        assert b"exif" not in data.lower()
        with Image.open(tmp_path / "renditions" / "md_1" / one.name) as image:
            assert image.size == (one.width, one.height) == (32, 64)
            assert not image.getexif()


def test_an_animation_moves_in_full_and_stands_still_in_small(tmp_path: Path) -> None:
    found = made(tmp_path, moving_gif(100), "image/gif")
    assert found is not None
    frames = []
    for one in found:
        with Image.open(tmp_path / "renditions" / "md_1" / one.name) as image:
            frames.append(getattr(image, "n_frames", 1))
    assert frames[0] == 1
    assert frames[1] > 1


def shown(folder: Path, data: bytes, mime: str) -> tuple[int, object]:
    """How many frames the full picture has, and what it shows in the middle."""
    source = folder / "source"
    source.write_bytes(data)
    images.renditions(source, folder, mime)
    with Image.open(folder / "full.webp") as image:
        return getattr(image, "n_frames", 1), image.convert("RGB").getpixel((image.width // 2, image.height // 2))


@pytest.mark.parametrize("behind", [Image.new("L", (16, 16), 255), Image.new("RGB", (64, 64), (255, 255, 255))])
def test_what_a_telephone_puts_behind_a_picture_is_no_frame_of_it(tmp_path: Path, behind: Image.Image) -> None:
    photo, made = Image.new("RGB", (64, 64), (128, 128, 128)), io.BytesIO()
    photo.save(made, "MPO", save_all=True, append_images=[behind])
    assert shown(tmp_path, made.getvalue(), "image/jpeg") == (1, (128, 128, 128))


@pytest.mark.parametrize("fields", [{}, {"transparency": 65_000}], ids=["all", "but what is white"])
def test_grey_of_sixteen_bits_stays_as_dark_as_it_was(tmp_path: Path, fields: dict[str, int]) -> None:
    made = io.BytesIO()
    Image.new("I;16", (64, 64), 0x8000).save(made, "PNG", **fields)
    assert shown(tmp_path, made.getvalue(), "image/png") == (1, (128, 128, 128))


def film(path: Path, at_ms: Iterable[int], turned: int = 0, size: tuple[int, int] = (64, 32)) -> None:
    """Red at the upper left; its pictures come at these times."""
    picture = Image.new("RGB", size)
    picture.paste((255, 0, 0), (0, 0, size[0] // 2, size[1] // 2))
    with av.open(str(path), "w", format="mp4") as made:
        stream = made.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1_000)
        if turned:
            stream.set_display_rotation(turned)
        for at in at_ms:
            frame = av.VideoFrame.from_image(picture)
            frame.pts, frame.time_base = at, Fraction(1, 1_000)
            made.mux(stream.encode(frame))
        made.mux(stream.encode(None))


def filmed(folder: Path) -> tuple[list[float], tuple[int, int]]:
    """When the pictures of the only film come, and their size."""
    with av.open(str(folder / "film32.mp4")) as made:
        frames = list(made.decode(video=0))
    return [round(float(frame.time or 0), 2) for frame in frames], (frames[0].width, frames[0].height)


@pytest.mark.parametrize(
    ("turned", "size", "red"), [(0, (64, 32), (8, 8)), (-90, (32, 64), (24, 8)), (180, (64, 32), (56, 24))]
)
def test_a_film_stands_upright_however_the_telephone_was_held(
    tmp_path: Path, turned: int, size: tuple[int, int], red: tuple[int, int]
) -> None:
    film(tmp_path / "source", [0, 40, 80], turned)
    made = videos.renditions(tmp_path / "source", tmp_path, "video/mp4")
    assert [(one["width"], one["height"]) for one in made] == [size] * 2
    assert filmed(tmp_path)[1] == size
    with Image.open(tmp_path / "poster.webp") as poster:
        assert poster.size == size
        pixel = poster.getpixel(red)
    assert isinstance(pixel, tuple)
    assert pixel[0] > 128 > pixel[2]


@pytest.mark.parametrize(
    ("at_ms", "kept_s"),
    [
        ([0, 33, 66, 133, 166, 200, 280], [0.0, 0.03, 0.07, 0.13, 0.17, 0.2, 0.28]),  # some were left out
        ([0, 4, 8, 12, 16, 20, 40], [0.0, 0.02, 0.04]),  # slow motion
    ],
)
def test_pictures_of_a_film_stand_at_their_own_times(tmp_path: Path, at_ms: list[int], kept_s: list[float]) -> None:
    film(tmp_path / "source", at_ms)
    videos.renditions(tmp_path / "source", tmp_path, "video/mp4")
    assert filmed(tmp_path)[0] == kept_s


@pytest.mark.parametrize(
    ("size", "turned", "films"),
    [
        ((1920, 1080), 0, [(426, 240), (852, 480), (1280, 720)]),
        ((1280, 720), -90, [(240, 426), (480, 852), (720, 1280)]),
        ((640, 360), 0, [(426, 240), (640, 360)]),
        ((320, 180), 0, [(320, 180)]),
    ],
)
def test_a_film_comes_in_a_few_sizes_and_never_larger_than_it_was(
    tmp_path: Path, size: tuple[int, int], turned: int, films: list[tuple[int, int]]
) -> None:
    """Made in the sandbox, within its bounds; each as large as the manifest says, with all its pictures."""
    film(tmp_path / "film", [0, 40, 80], turned, size)
    found = made(tmp_path, (tmp_path / "film").read_bytes(), "video/mp4")
    assert found is not None
    assert [one.name.partition("-")[0] for one in found] == ["poster", *(f"film{min(one)}" for one in films)]
    assert [(one.width, one.height) for one in found] == [films[-1], *films]
    for one in found[1:]:
        with av.open(str(tmp_path / "renditions" / "md_1" / one.name)) as told:
            frames = list(told.decode(video=0))
        assert [(frame.width, frame.height) for frame in frames] == [(one.width, one.height)] * 3


def test_of_more_pictures_than_may_be_encoded_the_larger_films_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    film(tmp_path / "source", [0, 500, 1_000], size=(1280, 720))
    for most, names in ((426 * 240, ["film240"]), (10 * 60 * 2_000_000, ["film240", "film480", "film720"])):
        monkeypatch.setattr(limits, "MEDIA_VIDEO_PIXELS_ENCODED_MAX", most)
        found = videos.renditions(tmp_path / "source", tmp_path, "video/mp4")
        assert [one["name"] for one in found] == ["poster", *names]


@pytest.mark.parametrize("before", [0, 1, 100, limits.MEDIA_CHUNK_BYTES - 10])
def test_the_signature_is_found_wherever_it_lies(tmp_path: Path, before: int) -> None:
    path = tmp_path / "source"
    path.write_bytes(b"." * before + SIGNATURE + b"." * 10)
    assert is_malware(path, None)
    path.write_bytes(b"." * before + SIGNATURE[:-1] + b"." * 10)
    assert not is_malware(path, None)
