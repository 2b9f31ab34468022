"""Messages of the actors, one module per receiver. Each is immutable: a command, or an event named in the past tense.

`web`, `kraal.cli.main` and tests send the `Ask`s; actors send each other only `Tell`s.
"""
