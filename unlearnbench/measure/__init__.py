"""Measuring: the clock, the memory, and the machine they ran on."""
