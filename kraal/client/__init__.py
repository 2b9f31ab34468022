"""The client: what `kraal ls`, `apply`, `status` and the like do, over Connect's public REST API alone.

It works against any Connect worker, Java's too. Commands (`kraal.client.commands`) parse and print; what they decide
is in pure functions of the modules here, and `kraal.client.rest` is the only one that talks to a worker.
"""
