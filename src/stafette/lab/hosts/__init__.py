"""The machines of a series: the runner's end, its agent at the other, and the way between them."""
