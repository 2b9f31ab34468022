"""A connector's requirements when Spark's executors run on other machines (`spark.master` is a cluster)."""

from __future__ import annotations

from collections.abc import Mapping


class ClusterNeeds:
    """Answers for one connector's config, before it is created. Configs may be invalid.

    The defaults are those of a connector whose executors need neither files nor processes of the worker's machine.
    """

    @classmethod
    def needs_local_spark(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        """Return the keys whose values work with a local Spark only, each with the reason, a part of a sentence."""
        del config
        return {}

    @classmethod
    def shared_paths(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        """Return the keys of files and folders that executors use, each with its absolute path."""
        del config
        return {}
