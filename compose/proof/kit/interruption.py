"""TERM and a closed terminal end a long command as Ctrl-C does: with everything cleaned up."""

from __future__ import annotations

import signal


def end_as_interrupted() -> None:
    """From here on INT, TERM and HUP raise KeyboardInterrupt in the main thread.

    Also INT itself is set: a shell starts what runs in its background with INT ignored, and TERM would be as well.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
