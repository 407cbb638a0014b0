"""HTML from templates in which every word of data is escaped."""

from __future__ import annotations

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

ENVIRONMENT = Environment(
    autoescape=True, undefined=StrictUndefined, trim_blocks=False, keep_trailing_newline=True
)


def fill(template: str, **values: object) -> Markup:
    """The template with its values filled in; a name without a value is an error."""
    return Markup(ENVIRONMENT.from_string(template).render(values))
