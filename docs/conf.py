"""How `make docs` builds the site. It needs no network and no Ray that runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from drbqo_ray import __version__

project = "drbqo_ray"
author = "the drbqo_ray contributors"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "sg_execution_times.rst"]

html_theme = "furo"
html_title = f"drbqo_ray {release}"
html_show_sphinx = html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}

default_role = "code"  # our docstrings write names in single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say what arguments are; signatures stay short
napoleon_numpy_docstring = False
napoleon_use_ivar = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",  # made by the build, with what the scripts printed and drew
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "show_signature": False,
    "download_all_examples": False,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib",),
}

# Pages below these two are listed in the sidebar; on GitHub they stay plain Markdown.
CHILDREN = {"decisions/README": ("*",), "results/README": ("*", "*/*", "*/*/*")}


def list_children(app: Any, page: str, source: list[str]) -> None:
    """Add a hidden table of contents to a page that has others below it."""
    if page in CHILDREN:
        source[0] += "\n".join(
            ["\n```{toctree}", ":hidden:", ":glob:", "", *CHILDREN[page], "```", ""]
        )


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", list_children)
