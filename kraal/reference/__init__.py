"""The reference manual of all config keys, made of their declarations: `python -m kraal.reference`."""
