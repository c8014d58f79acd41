"""A Stripe account with a memory, in front of Stripe's own mock, which has none.

Every request goes to the mock first, that is, through Stripe's OpenAPI document: what the mock refuses is refused here in
its words. What it lets through takes effect once per idempotency key, and the mock's fixture is answered with the
account's state in it.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

FOR_PAYER = ("description", "receipt_email", "statement_descriptor_suffix", "return_url")
_HOP_BY_HOP = frozenset({"host", "connection", "content-length", "accept-encoding"})
Object = dict[str, Any]


class StripeAccount:
    """What the account holds, by id, and how often anything took effect."""

    def __init__(self) -> None:
        self.intents: dict[str, Object] = {}
        self.refunds: dict[str, Object] = {}
        self.effects: Counter[str] = Counter()
        self._answers: dict[str, Object] = {}
        self._lock = threading.Lock()

    def answer(self, method: str, path: str, key: str | None, form: dict[str, str], fixture: Object) -> Object:
        """The mock's fixture with what is so here."""
        with self._lock:
            if key is not None and key in self._answers:
                return self._answers[key]
            found = self._carried_out(method, path.strip("/").split("/")[1:], form, fixture)
            if key is not None:
                self._answers[key] = json.loads(json.dumps(found))
            return found

    def _carried_out(self, method: str, place: list[str], form: dict[str, str], fixture: Object) -> Object:
        metadata = {name[9:-1]: text for name, text in form.items() if name.startswith("metadata[")}
        match method, place:
            case "POST", ["payment_intents"]:
                intent = self.intents[fixture["id"]] = {"amount": int(form["amount"]), "metadata": metadata}
                intent |= {"currency": form["currency"], "last_payment_error": None}
                intent |= {name: form[name] for name in FOR_PAYER if name in form}
                self._take(intent, 0 if form["capture_method"] == "manual" else intent["amount"], "charge")
                return fixture | intent
            case "POST", ["payment_intents", name, act]:
                intent = self.intents[name]
                intent["metadata"] = intent["metadata"] | metadata
                if act == "increment_authorization":
                    intent["amount"] = int(form["amount"])
                    self._take(intent, 0, "increment")
                else:
                    self._take(intent, int(form["amount_to_capture"]), act)
                return fixture | intent
            case "GET", ["payment_intents", "search"]:
                ours = [name for name, i in self.intents.items() if i["metadata"]["operation_id"] in form["query"]]
                return fixture | {"data": [fixture["data"][0] | self.intents[name] | {"id": name} for name in ours]}
            case "GET", ["payment_intents", name]:
                return fixture | self.intents[name]
            case "POST", ["refunds"]:
                refund = {"amount": int(form["amount"]), "metadata": metadata, "status": "succeeded"}
                refund["payment_intent"] = form["payment_intent"]
                refund["currency"] = self.intents[form["payment_intent"]]["currency"]
                self.refunds[fixture["id"]] = refund
                self.effects["refund"] += 1
                return fixture | refund
        return fixture

    def _take(self, intent: Object, amount: int, effect: str) -> None:
        self.effects[effect] += 1
        intent["amount_received"] = amount
        intent["amount_capturable"] = 0 if amount else intent["amount"]
        intent["status"] = "succeeded" if amount else "requires_capture"


@contextmanager
def stripe_account(mock_url: str) -> Iterator[tuple[str, StripeAccount]]:
    """Its address while it stands, and the account behind it."""
    account = StripeAccount()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve(b"")

        def do_POST(self) -> None:
            self._serve(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _serve(self, body: bytes) -> None:
            headers = {name: text for name, text in self.headers.items() if name.lower() not in _HOP_BY_HOP}
            checked = httpx.request(
                self.command, mock_url + self.path, headers=headers, content=body, timeout=20, trust_env=False
            )
            found = checked.json()
            if checked.is_success:
                place = urlsplit(self.path)
                form = dict(parse_qsl(body.decode() or place.query))
                found = account.answer(self.command, place.path, self.headers.get("Idempotency-Key"), form, found)
            encoded = json.dumps(found).encode()
            self.send_response(checked.status_code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(encoded)))
            self.end_headers()
            self.wfile.write(encoded)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", account
    finally:
        server.shutdown()
        server.server_close()
