"""The metrics of a worker and their representation at `GET /metrics`.

Metrics are published in a `MetricsRegistry` by their owners: task metrics by the tasks' actors, metrics of running
instances by the worker, rebalance metrics by membership. States come from the herder's snapshot. A scrape renders the
published values without messages, locks or waits.
"""
