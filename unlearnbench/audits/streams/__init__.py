"""The audit `streams`: many requests, one after the other."""
