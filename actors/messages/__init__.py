"""Messages of the actors, one module per receiver. A message is immutable: a command, or an event in the past tense.

`web`, `kraal.cli.main` and tests send the `Ask`s; actors send each other only `Tell`s.
"""
