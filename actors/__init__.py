"""All mutable state and all threads of Kraal: one actor for each thing that lives, and what actors need to talk."""
