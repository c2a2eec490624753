"""Audits, which test whether forgotten data is really gone; findings are stored like the outcome of any cell."""
