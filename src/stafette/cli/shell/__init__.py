"""`stafette shell`: a conversation with a broker. It offers what is possible at the moment, and nothing else.

What a line means (`grammar`), what is possible (`state`, `commands`) and what a command does (`on_*`) know nothing of a
terminal; `screen` and `script` are two ways to feed them with lines.
"""
