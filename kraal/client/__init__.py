"""The client: `kraal ls`, `apply`, `status` and other commands that use only Connect's public REST API.

It works with any Connect worker, including Java workers. Commands (`kraal.client.commands`) parse and print, the logic
is in pure functions of the modules here, and only `kraal.client.rest` sends requests to a worker.
"""
