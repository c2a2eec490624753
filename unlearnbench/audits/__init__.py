"""Audits ask whether forgotten data is really gone; what one finds is stored as any cell's outcome is."""
