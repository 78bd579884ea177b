"""The rules in both forms, rendered once."""

from __future__ import annotations

import pytest

from support.rules import FORMS, Rendered, rendered


@pytest.fixture(scope="session", params=FORMS)
def rules(request, tmp_path_factory) -> Rendered:
    """The rules on a sidecar's page, and those on vLLM's own."""
    return rendered(request.param, tmp_path_factory.mktemp(request.param))
