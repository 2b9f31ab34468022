"""Views of the cluster: the published snapshot, and the REST responses derived from it."""
