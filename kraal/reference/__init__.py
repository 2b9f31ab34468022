"""Reference manual of all config keys, generated from their declarations: `python -m kraal.reference`."""
