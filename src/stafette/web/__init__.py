"""The web application: the management console, the pages of the laboratory, and the REST API beside them."""

from stafette.web import naming  # noqa: F401  (routes with names in them need its convertor)
