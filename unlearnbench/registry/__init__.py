"""Plugins and the names of their components: loading, the catalogue, the bracket notation."""
