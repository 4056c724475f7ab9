"""The fenced blocks of the README and of docs/, and the commands in them."""

import re
import shlex
from dataclasses import dataclass
from textwrap import dedent

from tests.commands import ROOT

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block as it is printed, without the indentation of its list."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    """The blocks in those languages; "" is a block for a shell."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 2
            if match[2] in languages:
                found.append(Block(page.name, line, match[2], dedent(match[3])))
    return found


def commands(block: Block) -> list[list[str]]:
    """The commands of a shell's block as words, without what sets variables for one."""
    text = re.sub(r"<[^>\n]+>", "00000000-0000-4000-8000-000000000000", block.text)
    text = re.sub(r"(^|\s)#[^\n]*", "", text.replace("\\\n", " "), flags=re.MULTILINE)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    found: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= {"\n", ";"}:
            found.append([])
        elif found[-1] or not re.match(r"[A-Z_]+=", word):
            found[-1].append(word)
    return [words for words in found if words]
