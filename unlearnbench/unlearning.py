"""Unlearners train, forget and predict. Placeholder, replaced below."""
