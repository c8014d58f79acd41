"""Templates of pages: every value escaped, nothing that is not given; what all pages begin and end with is here."""

from __future__ import annotations

import jinja2


def environment(*packages: str) -> jinja2.Environment:
    """Reads the folders ``templates`` of these packages, the first first, and of this one."""
    loaders = [jinja2.PackageLoader(package) for package in (*packages, "ingress.browser")]
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,  # always: no template asks for a choice
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
