"""The rules of each kind of component, one module per kind; `conformance` runs them."""
