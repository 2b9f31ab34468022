"""VerifiableSource and VerifiableSink."""
