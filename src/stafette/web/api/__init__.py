"""The REST API under /api/v1: what the console's pages do, for scripts, and sending and receiving besides.

Answers are the same structs that pages show, so the schema in the API's description is made from them.
"""
