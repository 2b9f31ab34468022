"""The metrics of a worker and their representation at `GET /metrics`.

Metrics are immutable values, published in a `MetricsRegistry` by their owners: those of tasks by their actors, those of
running instances by the worker, those of rebalances by membership; states come from the herder's snapshot. A scrape
renders the published values without messages, locks or waits.
"""
