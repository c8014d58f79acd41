"""The vault's metrics by name; each comment says what a high value means. No label is a value of a caller."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

# Its rate is the number of new cards; a jump from one network: somebody tries numbers out.
TOKENS_CREATED: Final = Counter("millrace_vault_tokens_created", "Cards stored, by network", ["network"])
TOKENS_DELETED: Final = Counter("millrace_vault_tokens_deleted", "Deletions of cards, repeated ones included")
# answered: the processor answered. Many not_sent or unknown: the processor is ill. Any denied: a wrong secret.
FORWARDS: Final = Counter("millrace_vault_forwards", "Calls to processors with a card, by what became of them", ["end"])
# Near its bound (VAULT_FORWARDS_MAX): calls are about to be refused.
FORWARDS_OPEN: Final = Gauge("millrace_vault_forwards_open", "Calls to processors under way")
# Above zero: a processor sends card numbers back; talk to it.
ANSWERS_SCRUBBED: Final = Counter("millrace_vault_answers_scrubbed", "Answers of processors that held the number")
# Above zero: a stored card was changed, or sealed with a key of another file.
CARDS_UNREADABLE: Final = Counter("millrace_vault_cards_unreadable", "Cards that did not open")
# Any: somebody has too many requests under way (VAULT_REQUESTS_OF_CALLERS_MAX, _OF_STRANGERS_MAX); others are served.
SLOTS_REFUSED: Final = Counter("millrace_vault_slots_refused", "Requests past the bound of their caller", ["kind"])
