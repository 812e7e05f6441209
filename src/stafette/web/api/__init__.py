"""The REST API under /api/v1, for scripts: what the console's pages do, and also receiving.

Answers are the same structs that pages show; the schemas of the OpenAPI description are generated from them.
"""
