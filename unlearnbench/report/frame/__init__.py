"""Records as a data frame: reading, grouping, averaging, pairing."""
