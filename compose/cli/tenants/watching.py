"""A move as it goes on, one line: rewritten on a terminal, one for each change where there is none.

The pause is what callers may have felt at the most: from the last look at which writes were taken under the old
generation to the first one at which they were taken under the new. Pure, but for ``follow``.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from compose import limits
from compose.cli.tenants import calls
from compose.cli.tenants.shown import WIDTH

if TYPE_CHECKING:
    from collections.abc import Callable

#: where a move that was asked for ends, well or not; while it soaks the target serves, and it may still go back
_SERVES: Final = frozenset({"soaking", "completed"})
_GIVEN_UP: Final = frozenset({"aborted", "rolled_back"})
ENDS: Final[dict[str, tuple[frozenset[str], frozenset[str]]]] = {
    "move": (_SERVES, _GIVEN_UP),
    "complete": (frozenset({"completed"}), _GIVEN_UP),
    "rollback": (frozenset({"rolled_back"}), frozenset({"completed", "soaking", "aborted"})),
    "abort": (frozenset({"aborted"}), _SERVES | {"rolled_back"}),
}
_DIGEST_SHOWN: Final = 6  # of 16 hexadecimal digits: a whole one stands in the end
_REWRITTEN: Final = "\r\x1b[K"


def line(move: dict[str, Any]) -> str:
    """How far it is, in no more than 79 columns; ``fenced``: writes wait."""
    fenced = "fenced  " if move["fenced"] else ""
    rows = f"{move['rows_copied']:,}/{move['resources']:,} copied"
    compared = f"{move['rows_verified']:,} equal  {move['mismatches']:,} not"
    return f"{move['state']:13}{fenced}{rows}  {compared}  {_digests(move)}"[: WIDTH - 1].rstrip()


def _digests(move: dict[str, Any]) -> str:
    source, target = move["source_digest"], move["target_digest"]
    if not (source and target):
        return ""
    return f"{source[:_DIGEST_SHOWN]}{'=' if source == target else '/'}{target[:_DIGEST_SHOWN]}"


def last_lines(move: dict[str, Any], pause_s: float | None) -> list[str]:
    """What became of it, for people."""
    lines = [f"{move['migration_id']} is {move['state']}" + (f": {move['reason']}" if move["reason"] else "")]
    if move["source_digest"]:
        lines += [f"digests  source {move['source_digest']}", f"         target {move['target_digest']}"]
        if move["source_digest"] != move["target_digest"]:
            lines.append("         writes went on while they were made; what differed was compared again since")
    if pause_s is not None:
        lines.append(f"writes waited {pause_s:.1f} s at the most")
    if move["state"] == "soaking":
        lines.append("the target serves; the source is kept up to date until it is completed")
    return lines


class Pause:
    """Bounds from above how long writes waited, from looks at a move that is under way."""

    def __init__(self) -> None:
        self._taken: tuple[int, float] | None = None  # the generation under which writes were taken last, and when
        self.longest_s: float | None = None

    def look(self, move: dict[str, Any], asked_at: float, answered_at: float) -> None:
        """One look. Where the generation rose, a fence was up and is down since the last look at which none was."""
        if move["fenced"]:
            return
        generation = move["to_generation"] or move["from_generation"]
        if self._taken is not None and self._taken[0] != generation:
            self.longest_s = max(self.longest_s or 0.0, answered_at - self._taken[1])
        self._taken = (generation, asked_at)


def follow(ask: Callable[[], dict[str, Any]], ends: str, pause: Pause, *, as_json: bool) -> bool:
    """Shows the move until it is over; whether it ended well. ``pause`` may know of a look before."""
    well, badly = ENDS[ends]
    rewrites = sys.stdout.isatty() and not as_json
    before = ""
    try:
        while True:
            asked_at = time.monotonic()
            move = calls.patiently(ask)
            pause.look(move, asked_at, time.monotonic())
            if (text := line(move)) != before:
                _show(json.dumps(move) if as_json else text, rewrites=rewrites)
                before = text
            if move["state"] in well | badly:
                break
            time.sleep(limits.TENANT_WATCH_S)
    finally:
        if rewrites:
            print()  # also under what a refusal or Ctrl-C says
    if not as_json:
        print("\n".join(last_lines(move, pause.longest_s)))
    return move["state"] in well


def _show(text: str, *, rewrites: bool) -> None:
    if rewrites:  # a line that goes on below could not be rewritten
        print(f"{_REWRITTEN}{text[: shutil.get_terminal_size().columns - 1]}", end="", flush=True)
    else:
        print(text, flush=True)
