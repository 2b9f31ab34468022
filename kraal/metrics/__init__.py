"""What a worker measures of itself, and how it is shown at `GET /metrics`.

Numbers are plain, immutable values, published on a `Board` by whoever knows them: tasks by their actors, what runs
here by the worker, rebalances by membership; states come from the herder's snapshot. A scrape takes what is
published and renders it: it asks nobody, takes no lock, and waits for nothing.
"""
