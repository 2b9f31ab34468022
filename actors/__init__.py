"""The control plane: an actor for each thing that lives and changes, and what actors need."""
