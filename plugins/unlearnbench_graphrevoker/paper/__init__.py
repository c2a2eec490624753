"""The paper's tables, published numbers and experiments, and further experiments on the same methods."""
