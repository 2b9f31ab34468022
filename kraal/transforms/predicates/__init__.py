"""The predicates that ship: on which records a transform is applied."""
