"""The card vault: the only part of Millrace that ever sees a card number. See README.md."""
