# The documentation site: "make site" builds it with Sphinx from the pages that gather.py chooses.
from sphinx.application import Sphinx

from tx8.desktop.lexer import Tx8Lexer

project = "tx8"
author = "the tx8 developers"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
html_theme = "furo"
html_title = "tx8"
html_show_copyright = False
html_copy_source = False
myst_heading_anchors = 4  # links to headings, as on other sites that show Markdown
suppress_warnings = [
    "misc.highlighting_failure",  # listings have prompts, dots, and languages of our own
    "myst.header",  # the page of operators goes from its title to the operators
]
highlight_language = "none"


def setup(app: Sphinx) -> None:
    """Listings of assembly are coloured as the assembler reads them."""
    app.add_lexer("asm", Tx8Lexer)
