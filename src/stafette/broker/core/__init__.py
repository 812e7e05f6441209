"""The broker's rules without I/O: who is admitted, in which order requests run, which share a batch, who waits.

Nothing here knows a socket, a clock or the database. Time is an argument. What is to be done is a list of effects,
which the runtime carries out once the input that caused them has been dealt with.
"""
