"""`stafette shell`: the commands of `stafette` on one open connection, and a few of its own.

`grammar` parses a line with the definitions of the commands; `commands` has those that only the shell has.
`shell_session` runs a line on the connection that `state` describes. None of these know a terminal: `screen` (a
terminal) and `script` (a pipe) feed them with lines.
"""
