"""Collects the pages of the documentation site in one directory with the layout of the repository.

Links between pages therefore remain valid. Markdown that GitHub supports but Python-Markdown does not is converted:
lists and tables directly below a paragraph, lists indented by two spaces, escaped pipes in code in tables, links to
directories, and comments above the title. Links to files that are not part of the site become plain text.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

PAGES: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "scripts/README.md")
FILES: Final = ("LICENSE", "NOTICE")
FOLDERS: Final = ("docs", "examples")
LINKED_FOLDERS: Final = ("deploy",)
"""Directories whose files are part of the site if a page links to them."""

_LINK: Final = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_CODE: Final = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_COMMENT: Final = re.compile(r"\A(?:<!--.*?-->\s*)+", re.DOTALL)
_FENCE: Final = re.compile(r" *(```+|~~~+)")
_PLACEHOLDER: Final = "\0"
"""Placeholder for a code span while links are replaced."""
_ITEM: Final = re.compile(r"( *)(?:[-*+]|\d+\.) ")


def stage(root: Path, target: Path) -> None:
    """Write the pages of the repository at `root` and the files that they need to `target`, which is emptied first."""
    shutil.rmtree(target, ignore_errors=True)
    for name in (*PAGES, *FILES):
        _copy(root / name, target / name)
    for name in FOLDERS:
        shutil.copytree(root / name, target / name)
    for page in sorted(target.rglob("*.md")):
        source = root / page.relative_to(target)
        page.write_text(_convert_page(source, root, target), encoding="utf-8")


def _convert_page(source: Path, root: Path, target: Path) -> str:
    def replace_link(match: re.Match[str]) -> str:
        text, address, anchor = match[1], match[2], match[3] or ""
        linked_path = (source.parent / address).resolve()
        if ":" in address or not linked_path.is_relative_to(root) or not linked_path.exists():
            return match[0]
        relative = linked_path.relative_to(root)
        if (target / relative).is_dir():
            return f"[{text}]({address.rstrip('/')}/README.md{anchor})"
        if linked_path.is_file() and relative.parts[0] in LINKED_FOLDERS:
            _copy(linked_path, target / relative)
        return match[0] if (target / relative).exists() else text

    text = _COMMENT.sub("", source.read_text(encoding="utf-8"))
    return "".join(_yield_lines(text, replace_link))


def _yield_lines(text: str, replace_link: Callable[[re.Match[str]], str]) -> Iterator[str]:
    """Yield the lines of a page in the syntax of Python-Markdown; code blocks are unchanged."""
    fence, previous_line = "", ""
    for line in text.splitlines(keepends=True):
        fence_match = _FENCE.match(line)
        if fence or fence_match:
            if fence_match and (not fence or line.strip() == fence):
                fence = "" if fence else fence_match[1]
            yield line
        else:
            if _starts_block(line, previous_line):
                yield "\n"
            item = _ITEM.match(line)
            indent = " " * len(item[1]) if item else ""
            yield indent + _convert_line(line, replace_link)
        previous_line = line


def _starts_block(line: str, previous_line: str) -> bool:
    """Return whether a list or a table starts directly below a paragraph."""
    if not previous_line.strip() or previous_line.startswith((" ", "#")):
        return False
    if line.startswith("|"):
        return not previous_line.startswith("|")
    item = _ITEM.match(line)
    return item is not None and not item[1] and not _ITEM.match(previous_line)


def _convert_line(line: str, replace_link: Callable[[re.Match[str]], str]) -> str:
    """Replace the links of a line outside of code spans, and escaped pipes in the code spans of a table."""
    parts, end = [], 0
    for code in _CODE.finditer(line):
        span = code[0].replace(r"\|", "|") if line.startswith("|") else code[0]
        parts += [line[end : code.start()], span]
        end = code.end()
    codes = parts[1::2]
    # Link texts may contain code, so code spans are restored after the links were replaced.
    text = _LINK.sub(replace_link, _PLACEHOLDER.join([*parts[::2], line[end:]]))
    for code_span in codes:
        text = text.replace(_PLACEHOLDER, code_span, 1)
    return text


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
