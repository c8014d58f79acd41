"""Runs an account alone: ``python -m compose.stripe_simulator --folder FOLDER --port PORT``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

from compose.stripe_simulator.app import Account, AccountServer
from compose.stripe_simulator.book import Book
from compose.stripe_simulator.webhook_sender import Receiver, WebhookSender

#: secrets come this way and not as arguments, which every user of the machine may read
KEY_VARIABLE = "STRIPE_SIMULATOR_KEY"
SECRET_VARIABLE = "STRIPE_SIMULATOR_WEBHOOK_SECRET"  # noqa: S105 - the name of it


def main() -> int:
    """Serves until SIGTERM; SIGKILL loses nothing."""
    parser = argparse.ArgumentParser(prog="python -m compose.stripe_simulator", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the book lies")
    parser.add_argument("--port", type=int, required=True, help="loopback port to listen on")
    parser.add_argument("--webhook-url", help=f"who is told of what happens; the secret comes in {SECRET_VARIABLE}")
    parser.add_argument("--mock-url", help="a stripe-mock that checks every request by Stripe's OpenAPI document")
    options = parser.parse_args()
    book = Book(options.folder)
    account = Account(book=book, api_key=os.environ.get(KEY_VARIABLE, "sk_test_123"), mock_url=options.mock_url)
    server = AccountServer(account, options.port)
    sender = None
    if options.webhook_url:
        sender = WebhookSender(book, Receiver(options.webhook_url, os.environ.get(SECRET_VARIABLE, "")))
        sender.start()
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()
    if sender is not None:
        sender.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
