"""The broker's rules without I/O: who is admitted, in which order requests run, which share a batch, who waits.

Nothing here uses a socket, a clock or the database. Time is an argument. The output is a list of effects, which the
runtime carries out after the input that caused them.
"""
