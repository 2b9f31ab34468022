"""Messages of the actors, one module per receiver. A message is immutable: a command, or an event in the past tense.

Only `web`, `kraal.cli.main` and tests send `Ask`s; actors send each other `Tell`s.
"""
