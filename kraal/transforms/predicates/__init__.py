"""The predicates that ship with Kraal; a predicate selects the records of a transform."""
