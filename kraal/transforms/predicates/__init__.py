"""The predicates that are part of Kraal; a predicate selects the records of a transform."""
