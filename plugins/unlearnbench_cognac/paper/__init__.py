"""The protocol of the paper as an experiment."""
