"""Metrics: how good predictions are."""
