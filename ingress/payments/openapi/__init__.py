"""The routes of payments as OpenAPI describes them."""
