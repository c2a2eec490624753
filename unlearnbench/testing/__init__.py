"""What plugin authors test with: small graphs, and a search for what a method still holds."""
