"""Every call of the API on one page, made of the OpenAPI document."""
