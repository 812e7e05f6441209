"""What the laboratory's pages show: the editor, its form, and the results of series."""
