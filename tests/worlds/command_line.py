"""``millrace`` where packages of tests are found, too: ``python -m tests.worlds.command_line``; its script has no such path."""

from __future__ import annotations

from compose.cli import main

if __name__ == "__main__":
    main()
