"""All messages, one module per receiver. Each is frozen: a command, or a fact in the past tense.

`web`, `kraal.cli.main` and tests send the `Ask`s; actors send each other only `Tell`s.
"""
