"""What a component of each kind must keep to, one module a kind; `conformance` runs them."""
