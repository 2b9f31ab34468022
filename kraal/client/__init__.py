"""The client: `kraal ls`, `apply`, `status` and other commands that use only a worker's REST API.

The client works with any Connect worker, including Java workers. The commands (`kraal.client.commands`) parse arguments
and print results. Only `kraal.client.rest` sends requests to a worker.
"""
