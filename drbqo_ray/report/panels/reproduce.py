"""How to run it again: versions, settings, and code to copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from drbqo_ray.report.draw import fill
from drbqo_ray.report.panel import Panel, Source
from drbqo_ray.report.wording import name_text
from drbqo_ray.runtime.terminal import printable

if TYPE_CHECKING:
    from drbqo_ray.report.facts import Facts, Snippet

BLOCK = """
<dl class="config">
{% for word, text in details %}<div><dt>{{ word }}</dt><dd>{{ text }}</dd></div>
{% endfor %}</dl>
{% for snippet in snippets %}<h3>{{ snippet.title }}</h3>
<pre tabindex="0">{{ snippet.text }}</pre>
{% endfor %}"""


class ReproducePanel(Panel[tuple["Snippet", ...]]):
    """Details of the run, and snippets."""

    key, order = "reproduce", 100
    title, question = "Reproduce", "How is this run done again?"

    def gather(self, source: Source) -> tuple[Snippet, ...] | None:
        """The snippets; None without one."""
        return source.about.reproduce or None

    def missing(self, facts: Facts) -> str:
        """There is no snippet."""
        return f"How to run {name_text(facts.about.name)} again was not recorded."

    def below(self, facts: Facts) -> Markup:
        """Details and snippets."""
        about = facts.about
        details = [(name_text(key), printable(text, 400)) for key, text in about.details]
        return fill(BLOCK, details=details, snippets=about.reproduce)


PANEL = ReproducePanel()
