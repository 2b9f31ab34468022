"""Tests for parsing the steps of tutorials, and for comparing outputs with those on the page."""

from __future__ import annotations

import pytest

from tests.integration.tutorials.page import Command, File, Interrupt, PageFault, pattern, steps
from tests.integration.tutorials.run import PROGRESS

PAGE = """# A page
Text with `code`.
```bash
cd there
```
```properties title="there/a.properties"
a=b
```
```bash title="Terminal 2"
kraal run
```
```text
…ready…
```
```sh
docker run something
```
Press Ctrl-C in terminal 2. Then:
```bash
cat file
```
"""


def test_steps_are_commands_files_and_interrupts_in_order() -> None:
    assert steps(PAGE) == [
        Command("cd there\n"),
        File("there/a.properties", "a=b\n"),
        Command("kraal run\n", terminal=2, expected_output="…ready…\n"),
        Interrupt(2),
        Command("cat file\n"),
    ]


@pytest.mark.parametrize(
    "page", ["```text\nshown\n```\n", "```bash\na\n```\n```text\nb\n```\n```text\nc\n```\n"]
)
def test_output_without_a_command_is_an_error(page: str) -> None:
    with pytest.raises(PageFault):
        steps(page)


def test_unknown_block_is_an_error() -> None:
    with pytest.raises(PageFault):
        steps("```json\n{}\n```\n")


@pytest.mark.parametrize(
    ("text", "is_repeated"),
    [
        ("cat a\nkraal status b\n", True),
        ("kraal apply -f a.json\n", False),
        ("cat a\necho b >> c\n", False),
        ("cat > a\n", False),
    ],
)
def test_only_read_only_commands_are_repeated(text: str, *, is_repeated: bool) -> None:
    assert Command(text).is_read_only is is_repeated


@pytest.mark.parametrize(
    ("expected", "text", "is_match"),
    [
        ("a  b\n", "a  b\n", True),
        ("a  b\n", "a  b   \n", True),
        ("a b\n", "a  b\n", False),
        ("a.c\n", "abc\n", False),
        ("pid …, data\n", "pid 17, data\n", True),
        ("pid …, data\n", "pid 1\n7, data\n", False),
        ("…\nlast\n", "first\nsecond\nlast\n", True),
        ("…\nlast\n", "last\n", True),
        ("first\n…\n", "first\n", True),
        ("first\n…\nlast\n", "first\nlast\nmore\n", False),
        ("first\n", "first\nsecond\n", False),
    ],
)
def test_ellipses_match_any_text(expected: str, text: str, *, is_match: bool) -> None:
    assert (pattern(expected).fullmatch(text) is not None) is is_match


def test_progress_is_ignored_in_outputs() -> None:
    text = (
        "Starting Kafka: 2 s\n"
        "Waiting for 1 connector: 0 of 1, 12 s\n"
        "Downloading 4 jars for spark: 0 of 4, 4 resolved, 2 s\n"
        "Archiving Spark's classes (150 MB): 1 of 3, running small jobs, 12 s\n"
        "Starting Kafka took 14 s\n"
        "Kafka is ready on 127.0.0.1:9092\n"
    )
    assert PROGRESS.sub("", text) == "Kafka is ready on 127.0.0.1:9092\n"
