"""The report as one self-contained page: `data` makes its fields, `render` the page out of the files in ``files/``."""
