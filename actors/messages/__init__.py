"""Messages of the actors, one module per receiver. A message is immutable: a command, or an event in the past tense.

Actors send each other `Tell`s; only a claim sends `Ask`s, to the herder, and does not block while it waits for replies.
"""
