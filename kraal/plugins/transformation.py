"""What transforms and predicates are; their authors import it from `kraal.plugins.api`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from kraal.config.key import ConfigDef
from kraal.plugins.columns import Columns
from kraal.plugins.records import Record


class Transformation(ABC):
    """Changes records one by one. Stateless after `configure`; pickled to Spark's Python processes.

    Source: org.apache.kafka.connect.transforms.Transformation.
    """

    version: ClassVar[str]
    config_def: ClassVar[ConfigDef]
    schemaless_columns: ClassVar[bool] = False
    """Whether `columns` knows what `apply` does to maps without a schema (`Part.schemaless`)."""

    @abstractmethod
    def configure(self, config: Mapping[str, str]) -> None:
        """Take the transform's own keys, prefix removed. Raises ValueError."""

    @abstractmethod
    def apply(self, record: Record) -> Record | None:
        """Return the record as it goes on, None to drop it. Raises DataException for a record that it cannot take."""

    def columns(self, given: Columns) -> Columns | None:
        """Return what `apply` does as expressions of Spark's, so that the same bytes come out; None: records only.

        For speed; `kraal.plugins.columns` says how. Called for each batch, on any thread, without Spark. Whatever it
        raises means None.
        """
        del given
        return None


class Predicate(ABC):
    """Tells on which records a transform is applied. Otherwise as `Transformation`.

    Source: org.apache.kafka.connect.transforms.predicates.Predicate.
    """

    version: ClassVar[str]
    config_def: ClassVar[ConfigDef]

    @abstractmethod
    def configure(self, config: Mapping[str, str]) -> None:
        """Take the predicate's own keys, prefix removed. Raises ValueError."""

    @abstractmethod
    def test(self, record: Record) -> bool:
        """Tell whether the record meets the condition."""

    def known(self, given: Columns) -> bool | None:
        """Return what `test` says of every record of a batch that goes by columns; None: that depends on the record."""
        del given
        return None
