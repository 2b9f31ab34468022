"""Views of the cluster: the published snapshot, and the REST answers made from it."""
