"""Control plane: the actors of a worker, and the modules they use."""
