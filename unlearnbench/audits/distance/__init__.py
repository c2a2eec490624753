"""Distances between unlearned and retrained models, and which measures of them can be trusted."""
