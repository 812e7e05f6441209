"""All tests. The assertions of what they share tell as much as their own."""

import pytest

pytest.register_assert_rewrite("tests.support")
