"""The laboratory: experiments that start the system, put load on it, measure it, and check what they measured."""
