"""Every message, one module for each receiver. Frozen; a command, or a fact in the past tense.

`web`, `kraal.cli` and tests send the `Ask`s; everything between actors is a `Tell`.
"""
