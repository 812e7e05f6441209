"""The site: every page of the repository as it lies there, so that a link is right here and on GitHub, or in neither.

Sphinx reads from the root of the repository (`make docs`); nothing is loaded from another host.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from pygments.lexers.sql import PostgresLexer
from sphinx.application import Sphinx

import stafette
from stafette.client import aio, lease, sync
from stafette.trace import Trace

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
from reference import filled, without_folders  # noqa: E402

project = "Stafette"
version = release = stafette.__version__
html_title = f"{project} {version}"
copyright = "the authors; Apache-2.0"  # noqa: A001  Sphinx calls it so

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md", "experiments/README.md"]
exclude_patterns = [".*", "src", "tests", "bench", "examples", "docs/_*"]
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(annotated_types|asyncio|collections|datetime|pathlib|random|types)\..*"),  # on no page of ours
    ("py:.*", r"stafette\.lab\.experiment\.file_problems\..*"),  # a behaviour meets them as sentences
]

myst_heading_anchors = 6
myst_enable_extensions = ["colon_fence"]

default_role = "literal"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True

html_theme = "furo"
html_extra_path = ["_site"]
html_copy_source = html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}


for module in (aio, sync):  # what only type checkers import, so that autodoc understands all annotations
    vars(module)["Trace"] = Trace
vars(lease)["Client"] = aio.Client


def generate(app: Sphinx, page: str, source: list[str]) -> None:
    """Fill in what is made from the code, and leave out what only GitHub can show."""
    source[0] = filled(without_folders(source[0], app.env.doc2path(page).parent))


def without_constructor(
    app: Sphinx, kind: str, name: str, found: object, options: object, signature: str | None, returns: str | None
) -> tuple[str, str] | None:
    """Only traces are made by their users; all other objects come from functions."""
    return ("", "") if kind == "class" and found is not Trace else None


def copy_images(app: Sphinx, failure: Exception | None) -> None:
    """Pictures that a page shows with HTML of its own, where that HTML looks for them."""
    if failure is None:
        shutil.copytree(HERE / "images", Path(app.outdir) / "docs" / "images", dirs_exist_ok=True)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_lexer("sql", PostgresLexer)  # the general one does not know $$
    app.add_lexer("hex", TextLexer)
    app.connect("source-read", generate)
    app.connect("autodoc-process-signature", without_constructor)
    app.connect("build-finished", copy_images)
