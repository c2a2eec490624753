"""The tables of pages that are made from the records; `benchmarks/write_pages.py` writes them."""
