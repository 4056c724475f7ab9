"""Every link of the pages leads to a file, and to a heading in it, that are there."""

import re
from pathlib import Path

import pytest

from tests.pages.blocks import PAGES

_LINK = re.compile(r"(?<!`)\[[^\]\n]+\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as forges make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text()):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_the_readme_is_read_in_one_sitting() -> None:
    assert len(PAGES[0].read_text().splitlines()) <= 200
