"""The report page: one static file with every table and figure, made of records alone."""

from unlearnbench.report.page.write import check_page, page_text, write_page

__all__ = ["check_page", "page_text", "write_page"]
