"""Commands about keys and tokens: of the issuer, of producers, of the card vault."""
