"""All mutable state and all threads of Kraal: an actor for each thing that lives, and what actors need."""
