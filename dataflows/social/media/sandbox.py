"""Decodes one medium in a process of its own, which can hurt nobody: ``python -m dataflows.social.media.sandbox``.

Bounds come first (memory, processor time, files, no network), then the decoder. What it prints is the list of the
renditions that it made in its folder; any other end means that the bytes are not decodable as what they were declared
to be.
"""

from __future__ import annotations

import json
import resource
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from dataflows.social.media import no_network
from schemas.social import limits

_FILES: Final = 32


def main() -> None:
    """Source, folder, mime: renditions of the one into the other. Whatever goes wrong is an exit status."""
    source, folder, mime = sys.argv[1:]
    is_image = mime.startswith("image/")
    bound(limits.MEDIA_RENDERING_CPU_S if is_image else limits.MEDIA_VIDEO_CPU_S)
    # the decoder, within bounds only
    decoder = import_module(f"dataflows.social.media.{'images' if is_image else 'videos'}")
    sys.stdout.write(json.dumps(decoder.renditions(Path(source), Path(folder), mime)))


def bound(cpu_s: int) -> None:
    """No more memory, time and files than a medium needs, and no network; nothing is left of a crash."""
    for kind, most in (
        (resource.RLIMIT_AS, limits.MEDIA_RENDERING_MEMORY_BYTES),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, limits.MEDIA_RENDERING_FILE_BYTES),
        (resource.RLIMIT_NOFILE, _FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    no_network.forgo()


if __name__ == "__main__":
    main()
