"""Figures: their data, and how they are drawn."""
