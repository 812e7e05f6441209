"""`stafette shell`: the commands of `stafette` on one open connection, and a few of its own.

What a line means is what the commands define (`grammar`, `commands`); `session` runs it on the connection that `state`
describes. None of these know a terminal: `screen` and `script` are two ways to feed them with lines.
"""
