"""What MkDocs needs beyond the pages: the checks in the navigation, and the source files that pages link to.

On GitHub such a link opens the file in the repository; the site has no repository to link to, so it has a page instead.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from dataguard.render.check_pages import grouped

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))  # mkdocs loads this file alone

from twins import twins  # noqa: E402

LINK = re.compile(r"(?<=\]\()(?:\.\./)+((?:dataguard|sample_datasets)/[\w/.]+)(?=\))")
"""A link from a page to a file outside of `docs`."""

SAMPLE = re.compile(r"A loader with this defect and a healthy one: \[`(sample_datasets/\w+\.py)`\]\(.+?\)\.\n")
"""The last line of the page of a check."""
STYLE = "site.css"
HEAD = re.compile(r"\A<!-- .+? -->\s+")
"""The note at the top of a generated page."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the page of each check by its group."""
    (checks,) = [section["Checks"] for section in config.nav or [] if "Checks" in section]
    pages = {path.stem[:5].upper(): path for path in (ROOT / "docs" / "checks").glob("dg*.md")}
    for title, codes in grouped(pages).items():
        checks.append({title: [f"checks/{pages[code].name}" for code in codes]})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each linked source file."""
    pages = [file for file in files if file.src_uri.endswith(".md")]
    for name in sorted({name for page in pages for name in LINK.findall(page.content_string)}):
        source = (ROOT / name).read_text(encoding="utf-8")
        text = f"# {name}\n\n```{name.rpartition('.')[2]}\n{source}```\n"
        files.append(File.generated(config, f"source/{name}.md", content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    style = Path(__file__).with_name(STYLE).read_text(encoding="utf-8")
    files.append(File.generated(config, STYLE, content=style))
    files.append(File.generated(config, "llms.txt", content=_listed(pages, config)))
    return files


def _listed(pages: Sequence[File], config: MkDocsConfig) -> str:
    """The list of pages for language models: for each its address, its title and its first sentences (llmstxt.org)."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", "", "## Pages", ""]
    for page in pages:
        title, _, text = HEAD.sub("", page.content_string).strip().partition("\n")
        first = " ".join(next((part for part in text.split("\n\n") if part.strip()[:1].isalpha()), "").split())
        address = f"{(config.site_url or '').rstrip('/')}/{page.url.removeprefix('./')}"
        lines.append(f"- [{title.lstrip('# ')}]({address}){f': {first[:_LONGEST]}' if first else ''}")
    return "\n".join(lines) + "\n"


_LONGEST = 200
"""Characters of a page that are quoted in the list."""


_HELPFUL = ("troubleshooting.md", "getting_started.md", "your_code.md", "kinds.md", "ci.md")
_OF_THE_PROJECT = tuple(
    f"{name}.md" for name in ("contributing", "releasing", "architecture", "ecosystem", "detection", "benchmarks")
)


def _boost(path: str) -> float:
    """How much a page counts in the search: those that help first, sources, which repeat a word most, last."""
    if path in _HELPFUL:
        return 3
    return 0.02 if path.startswith("source/") else 0.3 if path in _OF_THE_PROJECT else 1


def _side_by_side(line: re.Match[str]) -> str:
    """The code of both loaders, side by side, before the link to all of them."""
    bad, good, both = twins(ROOT / line[1])
    columns = "".join(_block(title, code) for title, code in (("Wrong", bad), ("Right", good)))
    shared = f"\nBoth use:\n\n```python\n{both}\n```\n" if both else ""
    return f'## Example\n\n<div class="twins" markdown>\n{columns}</div>\n{shared}\n{line[0]}'


def _block(title: str, code: str) -> str:
    return f"<div markdown>\n\n**{title}**\n\n```python\n{code}\n```\n\n</div>\n"


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link to the added pages instead, and begin with the heading, which names the page in the navigation."""
    page.meta["search"] = {"boost": _boost(page.file.src_uri)}
    top = "../" * page.file.src_uri.count("/")
    return LINK.sub(lambda link: f"{top}source/{link[1]}.md", SAMPLE.sub(_side_by_side, HEAD.sub("", markdown)))
