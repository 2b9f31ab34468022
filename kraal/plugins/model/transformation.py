"""Base classes of transforms and predicates. Plugin authors import them from `kraal.plugins.api`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from kraal.config.key import ConfigDef
from kraal.plugins.model.columns import Columns
from kraal.plugins.model.records import Record


class Transformation(ABC):
    """Changes records one by one. Stateless after `configure`; pickled for Spark's Python processes.

    Source: org.apache.kafka.connect.transforms.Transformation.
    """

    version: ClassVar[str]
    config_def: ClassVar[ConfigDef]
    schemaless_columns: ClassVar[bool] = False
    """Whether `columns` supports maps without a schema, as `apply` does (`Part.schemaless`)."""

    @abstractmethod
    def configure(self, config: Mapping[str, str]) -> None:
        """Apply the settings of the transform, whose keys have no prefix. Raises ValueError."""

    @abstractmethod
    def apply(self, record: Record) -> Record | None:
        """Return the transformed record, or None to drop it. Raises DataException for an unsupported record."""

    def columns(self, given: Columns) -> Columns | None:
        """Return the effect of `apply` as Spark expressions that produce the same bytes; None to use the record path.

        `kraal.plugins.model.columns` describes this optimization. Called for each batch on any thread; must not use
        Spark. If the method raises an exception, the batch takes the record path.
        """
        del given
        return None


class Predicate(ABC):
    """Decides to which records a transform applies. Stateless after `configure`, and picklable, like transforms.

    Source: org.apache.kafka.connect.transforms.predicates.Predicate.
    """

    version: ClassVar[str]
    config_def: ClassVar[ConfigDef]

    @abstractmethod
    def configure(self, config: Mapping[str, str]) -> None:
        """Apply the settings of the predicate, whose keys have no prefix. Raises ValueError."""

    @abstractmethod
    def test(self, record: Record) -> bool:
        """Return whether the record meets the condition."""

    def known(self, given: Columns) -> bool | None:
        """Return the result of `test` if it is the same for all records of a batch; None if it may vary."""
        del given
        return None
