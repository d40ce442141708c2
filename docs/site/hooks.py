"""What MkDocs needs beyond the pages: the checks in the navigation, and the source files that pages link to.

On GitHub such a link opens the file in the repository; the site has no repository to link to, so it has a page instead.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from dataguard.render.check_pages import GROUPS

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(?<=\]\()(?:\.\./)+((?:dataguard|sample_datasets)/[\w/.]+)(?=\))")
"""A link from a page to a file outside of `docs`."""

HEAD = re.compile(r"\A<!-- .+? -->\s+")
"""The note at the top of a generated page."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the page of each check by its group."""
    (checks,) = [section["Checks"] for section in config.nav or [] if "Checks" in section]
    for digit, title in GROUPS.items():
        group = sorted((ROOT / "docs" / "checks").glob(f"dg{digit}*.md"))
        checks.append({title: [f"checks/{path.name}" for path in group]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each linked source file."""
    pages = [file for file in files if file.src_uri.endswith(".md")]
    for name in sorted({name for page in pages for name in LINK.findall(page.content_string)}):
        source = (ROOT / name).read_text(encoding="utf-8")
        text = f"# {name}\n\n```{name.rpartition('.')[2]}\n{source}```\n"
        files.append(File.generated(config, f"source/{name}.md", content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link to the added pages instead, and begin with the heading, which names the page in the navigation."""
    top = "../" * page.file.src_uri.count("/")
    return LINK.sub(lambda link: f"{top}source/{link[1]}.md", HEAD.sub("", markdown))
