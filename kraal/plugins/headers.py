"""The default header converter's name, known so that configs that name it are valid.

Records carry headers as bytes already (see `kraal.plugins.api`), so there is nothing to convert yet.
Source: SimpleHeaderConverter (Kafka 4.3.0).
"""

from __future__ import annotations

from typing import ClassVar, Final

from kraal.config.key import ConfigDef

SIMPLE_HEADER_CONVERTER: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


class SimpleHeaderConverter:
    """Connect's default for headers: the text of each value. It has no keys."""

    version: ClassVar[str] = "4.3.0"
    config_def: ClassVar[ConfigDef] = ConfigDef()
