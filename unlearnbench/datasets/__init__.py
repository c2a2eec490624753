"""Datasets: the catalogue's own and what a new one needs."""
