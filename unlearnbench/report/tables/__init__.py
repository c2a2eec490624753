"""Tables: what each shows, and how they are written as text, Markdown, LaTeX and CSV."""
