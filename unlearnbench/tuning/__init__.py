"""Tuning: every method gets the same number of trials, on graphs and splits that no table reports."""
