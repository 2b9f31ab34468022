"""Rewrites jars that were compiled against an older version of Kafka to use the new names of moved classes.

Kafka 4.4 moved classes from `org.apache.kafka.common.utils` to its package `internals` (KAFKA-20297).
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_OLD_PACKAGE: Final = "org/apache/kafka/common/utils/"
_NEW_PACKAGE: Final = f"{_OLD_PACKAGE}internals/"
_MAGIC: Final = b"\xca\xfe\xba\xbe"
_HEADER_SIZE: Final = 10
"""Bytes before the constant pool: magic, versions, and the number of constants plus one."""
_UTF8_TAG: Final = 1
"""The tag of a UTF-8 constant."""
_CONSTANT_SIZES: Final = {
    7: 2,
    8: 2,
    16: 2,
    19: 2,
    20: 2,
    15: 3,
    3: 4,
    4: 4,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    17: 4,
    18: 4,
    5: 8,
    6: 8,
}
"""Number of bytes after the tag, by tag, except for UTF-8. Source: Java Virtual Machine Specification, section 4.4."""
_TWO_ENTRY_TAGS: Final = (5, 6)


def find_moved_classes(jars: Sequence[Path]) -> dict[bytes, bytes]:
    """Return the new names of moved classes by their old names, in the format of class files."""
    names = {
        name for jar in jars for name in zipfile.ZipFile(jar).namelist() if name.startswith(_OLD_PACKAGE)
    }
    moved_names = (
        name.removesuffix(".class").removeprefix(_NEW_PACKAGE)
        for name in names
        if name.startswith(_NEW_PACKAGE)
    )
    return {
        f"{_OLD_PACKAGE}{name}".encode(): f"{_NEW_PACKAGE}{name}".encode()
        for name in moved_names
        if name and f"{_OLD_PACKAGE}{name}.class" not in names
    }


def write_with_new_names(jar: Path, target: Path, moved: dict[bytes, bytes]) -> None:
    """Write a copy of a jar whose classes use the new names. Signatures of the jar become invalid."""
    with zipfile.ZipFile(jar) as source, zipfile.ZipFile(target, "w") as copy:
        for entry in source.infolist():
            content = source.read(entry)
            copy.writestr(
                entry, b"".join(_rename_classes(content, moved)) if _may_have_old_names(content) else content
            )


def has_old_names(jar: Path) -> bool:
    """Return whether any class of a jar may refer to a moved class."""
    with zipfile.ZipFile(jar) as archive:
        return any(_may_have_old_names(archive.read(entry)) for entry in archive.infolist())


def _may_have_old_names(content: bytes) -> bool:
    return content.startswith(_MAGIC) and _OLD_PACKAGE.encode() in content


def _rename_classes(class_file: bytes, moved: dict[bytes, bytes]) -> Iterator[bytes]:
    """Yield the parts of a class file, with the old names in its UTF-8 constants replaced."""
    yield class_file[:_HEADER_SIZE]
    position, constant, end = _HEADER_SIZE, 1, int.from_bytes(class_file[8:_HEADER_SIZE])
    while constant < end:
        tag, start = class_file[position], position
        if tag == _UTF8_TAG:
            length = int.from_bytes(class_file[position + 1 : position + 3])
            position += 3 + length
            text = class_file[position - length : position]
            text = _rename_in_constant(text, moved)
            yield bytes([_UTF8_TAG]) + len(text).to_bytes(2) + text
        else:
            position += 1 + _CONSTANT_SIZES[tag]
            yield class_file[start:position]
        constant += 2 if tag in _TWO_ENTRY_TAGS else 1
    yield class_file[position:]


def _rename_in_constant(text: bytes, moved: dict[bytes, bytes]) -> bytes:
    """Replace a class name, or the class names in a descriptor such as `(Lorg/apache/kafka/common/utils/Exit;)V`."""
    if text in moved:
        return moved[text]
    for old_name, new_name in moved.items():
        text = text.replace(b"L" + old_name + b";", b"L" + new_name + b";")
    return text
