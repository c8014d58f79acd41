"""Decodes one medium in a process of its own, which can hurt nobody: ``python -m dataflows.social.media.sandbox``.

Bounds come first (memory, processor time, files, no network), then the decoder. What it prints is the list of the
renditions that it made in its folder. It ends with ``UNDECODABLE`` where the decoder found that the bytes are not what
they were declared to be, with ``EITHER`` where the bytes or the machine may be the reason, and with any other status
where the machine is.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from dataflows.social.media import no_network
from schemas.social import limits

UNDECODABLE: Final = os.EX_DATAERR
EITHER: Final = os.EX_OSERR
_FAILED: Final = 1
_FILES: Final = 32
_KILLED_AFTER_S: Final = 5  # by a signal that says nothing: at the same bound the kernel sends it first
_OF_THE_MACHINE: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.ENOENT, errno.EMFILE, errno.ENFILE}
)
_OF_EITHER: Final = frozenset({errno.ENOMEM, errno.EAGAIN, errno.EIO})  # FFmpeg says EIO of what is cut, too


def main() -> None:
    """Source, folder, mime: renditions of the one into the other. Whatever goes wrong is an exit status."""
    source, folder, mime = sys.argv[1:]
    is_image = mime.startswith("image/")
    bound(limits.MEDIA_RENDERING_CPU_S if is_image else limits.MEDIA_VIDEO_CPU_S)
    # the decoder, within bounds only
    decoder = import_module(f"dataflows.social.media.{'images' if is_image else 'videos'}")
    try:
        made = decoder.renditions(Path(source), Path(folder), mime)
    except Exception as error:  # noqa: BLE001 - a decoder raises anything
        sys.exit(status_of(error))
    sys.stdout.write(json.dumps(made))


def status_of(error: Exception) -> int:
    """What the end of a decoder says: of the bytes, of the machine, or of either. A bomb is out of memory, too."""
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, MemoryError) or number in _OF_EITHER:
        return EITHER
    return _FAILED if isinstance(error, ImportError) or number in _OF_THE_MACHINE else UNDECODABLE


def bound(cpu_s: int) -> None:
    """No more memory, time and files than a medium needs, and no network; nothing is left of a crash."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + _KILLED_AFTER_S))
    for kind, most in (
        (resource.RLIMIT_AS, limits.MEDIA_RENDERING_MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, limits.MEDIA_RENDERING_FILE_BYTES),
        (resource.RLIMIT_NOFILE, _FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    no_network.forgo()


if __name__ == "__main__":
    main()
