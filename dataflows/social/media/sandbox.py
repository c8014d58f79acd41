"""Decodes one medium in a process of its own, which can hurt nobody: ``python -m dataflows.social.media.sandbox``.

Bounds come first (memory, processor time, files), then the decoder. What it prints is the list of the renditions
that it made in its folder; any other end means that the bytes are not decodable as what they were declared to be.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Final

from schemas import limits

_FILES: Final = 32


def main() -> None:
    """Source, folder, mime: renditions of the one into the other. Whatever goes wrong is an exit status."""
    source, folder, mime = sys.argv[1:]
    bound()
    from dataflows.social.media.images import renditions  # noqa: PLC0415 - the decoder, within bounds only

    sys.stdout.write(json.dumps(renditions(Path(source), Path(folder), mime)))


def bound() -> None:
    """No more memory, time and files than a medium needs; nothing is left of a crash."""
    for kind, most in (
        (resource.RLIMIT_AS, limits.MEDIA_RENDERING_MEMORY_BYTES),
        (resource.RLIMIT_CPU, limits.MEDIA_RENDERING_CPU_S),
        (resource.RLIMIT_FSIZE, limits.MEDIA_RENDERING_FILE_BYTES),
        (resource.RLIMIT_NOFILE, _FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))


if __name__ == "__main__":
    main()
